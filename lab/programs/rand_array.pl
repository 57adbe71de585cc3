# RandArray in perl, as in "Malthusian Locks" (§6.10): threads take random elements of an array of their own, 400 at a
# time, and, under a lock, of a shared array, 100 at a time. A perl lock is a mutex and a condition variable; a thread
# that finds the lock taken waits on the condition variable. Every access to a shared variable does the same with perl's
# own lock. Arguments: threads, seconds, elements (50000). The sum of the values read is verified.
use strict;
use warnings;
use threads;
use threads::shared;
use Time::HiRes qw(time);

my ($threads, $seconds, $elements) = @ARGV;
die "usage: rand_array.pl THREADS SECONDS [ELEMENTS]\n" if !$seconds || $threads < 1;
$elements ||= 50000;

my @shared : shared = (1) x $elements;
my $guard : shared  = 0;   # counts the threads inside
my $end : shared    = 0;
my $ready : shared  = 0;

my @team = map {
    my $seed = $_ + 1;
    threads->create(sub {
        my @own = (1) x $elements;
        srand($seed);
        my ($rounds, $sum) = (0, 0);
        { lock($ready); $ready++; cond_broadcast($ready); cond_wait($ready) until $end; }
        my $until = $end;
        while (time() < $until) {
            {
                lock($guard);
                $sum += $shared[rand $elements] for 1 .. 100;
                $guard++;
            }
            $sum += $own[rand $elements] for 1 .. 400;
            $rounds++;
        }
        die "the sum is $sum\n" if $sum != 500 * $rounds;
        return $rounds;
    });
} 0 .. $threads - 1;

my $start;
{
    lock($ready);
    cond_wait($ready) until $ready == $threads;
    $start = time();
    $end = $start + $seconds;
    cond_broadcast($ready);
}
my $rounds = 0;
$rounds += $_->join // die "a thread failed\n" for @team;
my $took = time() - $start;
die "lost count: $guard, not $rounds\n" if $guard != $rounds;
printf "throughput: %.0f rounds/s\n", $rounds / $took;
