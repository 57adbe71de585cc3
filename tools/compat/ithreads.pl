# perl ithreads under contention: shared variables (a mutex and a condition variable each), Thread::Queue, semaphores.
# Arguments: threads, operations in all. Prints "ok" when every count is right.
use strict;
use warnings;
use threads;
use threads::shared;
use Thread::Queue;
use Thread::Semaphore;

my ($threads, $operations) = @ARGV;
my $each = int($operations / $threads);
my $counter : shared = 0;
my $turn : shared    = 0;
my $turns = 20;
my %tally : shared;
my $queue    = Thread::Queue->new;
my $permits  = Thread::Semaphore->new(2);
my $inside : shared = 0;
my $crowded : shared = 0;

my @team = map {
    my $me = $_;
    threads->create(sub {
        for my $i (1 .. $each) {
            { lock($counter); my $seen = $counter; $counter = $seen + 1; }
            { lock(%tally); $tally{$i % 7}++; }
            next if $i % 10;
            $permits->down;
            { lock($inside); $inside++; $crowded = 1 if $inside > 2; }
            { lock($inside); $inside--; }
            $permits->up;
            $queue->enqueue($i);
        }
        # A ring: every thread waits on the condition variable until it is its turn.
        for my $round (0 .. $turns - 1) {
            lock($turn);
            cond_wait($turn) until $turn == $round * $threads + $me;
            $turn++;
            cond_broadcast($turn);
        }
        return $each;
    });
} 0 .. $threads - 1;

my $expected = int($each / 10) * $threads;
my $sum      = 0;
$sum += $queue->dequeue for 1 .. $expected;
my $returned = 0;
$returned += $_->join for @team;

my $tallied = 0;
$tallied += $_ for values %tally;
my $expected_sum = 0;
for my $i (1 .. $each) { $expected_sum += $i * $threads if $i % 10 == 0; }
die "counter is $counter, not " . $each * $threads . "\n" if $counter != $each * $threads;
die "tally is $tallied\n"                   if $tallied != $each * $threads;
die "queue's sum is $sum\n"                 if $sum != $expected_sum;
die "ring stopped at $turn\n"               if $turn != $turns * $threads;
die "threads returned $returned\n"          if $returned != $each * $threads;
die "more than two inside the semaphore\n"  if $crowded;
print "ok\n";
