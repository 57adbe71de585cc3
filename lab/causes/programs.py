"""Programs with known causes of waiting: those drawn from a seed, and fixed ones. A program is a list of options of
lab/programs/causes, and the cause that `--without` removes."""

import random
from dataclasses import dataclass, field

from lab.causes import expected as E


@dataclass
class Program:
    name: str
    cause: str          # a key of EXPECTED
    without: str        # the value of --without that removes the cause
    options: dict = field(default_factory=dict)

    def words(self):
        return [word for name, value in self.options.items() for word in (f"--{name}", str(value))]


# ---- drawn programs ------------------------------------------------------------------------------------------------------
# Each family is a function of a random source. It returns the cause, the value of --without that removes it, and the options of
# lab/programs/causes. Lengths are in microseconds.

def length(dice, low, high):
    """Returns a random length between the two limits, uniform in its logarithm, with two significant digits."""
    value = low * (high / low) ** dice.random()
    return float(f"{value:.2g}")


def threads(dice, *counts):
    return dice.choice(counts or (3, 4, 6, 8))


def sleeping_hold(dice):
    way = dice.choice(["sleep", "io", "file"])
    hold = length(dice, 100, 4000)
    return "sleeping hold", "hold", {
        "shape": "mutex", "threads": threads(dice), "hold": way, "hold-us": hold if way != "file" else 20,
        "gap": dice.choice(["cpu", "sleep"]), "gap-us": length(dice, 20, 100)}


def working_hold(dice):
    hold = length(dice, 10, 300)
    return "working hold", "lock", {"shape": "mutex", "threads": threads(dice), "hold": "cpu", "hold-us": hold, "gap-us": hold / 10}


def yielding_hold(dice):
    hold = length(dice, 2, 20)
    return "yielding hold", "yield", {
        "shape": "mutex", "threads": threads(dice, 4, 6, 8), "hold": "yield", "hold-us": hold, "gap-us": hold / 2}


def allocator(dice):
    hold = length(dice, 5, 50)
    return "allocator", "lock", {"shape": "allocator", "threads": threads(dice), "hold-us": hold, "gap-us": hold / 10}


def one_of_many(dice):
    return "one of many", "lock", {
        "shape": "mutex", "threads": threads(dice), "objects": dice.choice([16, 64, 256]), "loaded": dice.randint(85, 95),
        "hold": "sleep", "hold-us": length(dice, 100, 1000), "gap-us": 10}


def interpreter(dice):
    return "interpreter", "lock", {
        "shape": "interpreter", "threads": threads(dice, 2, 4, 8), "hold": "cpu", "hold-us": length(dice, 50, 2000), "gap": "none"}


def polled(dice):
    hold = length(dice, 50, 500)
    return "polled", "lock", {
        "shape": "polled", "threads": threads(dice), "hold": dice.choice(["cpu", "sleep"]), "hold-us": hold, "gap-us": hold / 20}


def retreats(dice):
    return "retreats", "order", {
        "shape": "retreats", "threads": threads(dice, 2, 4), "hold": "sleep", "hold-us": length(dice, 500, 4000), "gap-us": 20}


def read_write(dice):
    return "read-write lock", "lock", {
        "shape": "rwlock", "threads": threads(dice), "writes": dice.choice([20, 50, 100]), "hold": dice.choice(["cpu", "sleep"]),
        "hold-us": length(dice, 50, 500), "gap-us": 5, "beside": dice.choice([0, 10])}


def waiting_writer(dice):
    return "waiting writer", "preference", {
        "shape": "writer", "threads": threads(dice, 4, 6, 8), "hold": "sleep", "hold-us": length(dice, 200, 1000), "gap-us": 5}


def spin_lock(dice):
    hold = length(dice, 5, 50)
    return "spin lock", "lock", {"shape": "spin", "threads": threads(dice, 2, 3, 4), "hold": "cpu", "hold-us": hold, "gap-us": hold / 10}


def semaphore_as_mutex(dice):
    return "semaphore as mutex", "lock", {
        "shape": "binary", "threads": threads(dice), "hold": dice.choice(["cpu", "sleep"]), "hold-us": length(dice, 50, 1000),
        "gap-us": dice.choice([5, 20])}


def token(dice):
    return "token", "token", {
        "shape": "ring", "threads": threads(dice), "hold": dice.choice(["cpu", "sleep"]), "hold-us": length(dice, 50, 1000)}


def few_credits(dice):
    return "few credits", "credits", {
        "shape": "pool", "threads": threads(dice, 6, 8, 12), "credits": dice.choice([2, 3]), "hold": dice.choice(["sleep", "io"]),
        "hold-us": length(dice, 200, 4000), "gap-us": 10}


def herd(dice):
    return "herd", "herd", {"shape": "herd", "threads": threads(dice, 12, 16, 24), "hold-us": 5, "gap-us": 5}


def turns(dice):
    return "turns", "turns", {"shape": "turns", "threads": 2, "hold-us": length(dice, 5, 30)}


def barrier(dice):
    return "barrier", "skew", {
        "shape": "barrier", "threads": threads(dice, 3, 4, 6), "hold": dice.choice(["sleep", "io"]), "hold-us": length(dice, 300, 2000),
        "skew": dice.choice([4, 6, 10])}


def own_futex(dice):
    return "own futex", "lock", {
        "shape": "own", "threads": threads(dice), "hold": dice.choice(["cpu", "sleep"]), "hold-us": length(dice, 50, 1000), "gap-us": 5,
        "beside": dice.choice([0, 10])}


def atomic_wait(dice):
    return "atomic wait", "lock", {
        "shape": "atomic", "threads": threads(dice), "hold": "sleep", "hold-us": length(dice, 100, 1000), "gap-us": 5,
        "beside": dice.choice([0, 10])}


# In the following families, to remove the lock gains nothing.

def cool_mutex(dice):
    hold = length(dice, 1, 5)
    return "cool mutex", "lock", {
        "shape": "mutex", "threads": threads(dice, 2, 3, 4), "hold-us": hold, "gap": dice.choice(["cpu", "sleep", "io"]),
        "gap-us": hold * 200}


def full_cpus(dice):
    hold = length(dice, 2, 10)
    return "full CPUs", "lock", {
        "shape": "mutex", "threads": threads(dice, 6, 8, 12), "hold-us": hold, "gap-us": hold * dice.choice([6, 10]), "beside": 1}


def even_table(dice):
    return "even table", "lock", {
        "shape": "mutex", "threads": threads(dice, 4, 8), "objects": dice.choice([64, 256]), "hold-us": length(dice, 2, 10), "gap-us": 20}


def other_work(dice):
    hold = length(dice, 10, 100)
    return "other work", "lock", {"shape": "fallback", "threads": threads(dice), "hold-us": hold, "gap-us": hold}


def cool_read_write(dice):
    return "read-write lock", "lock", {
        "shape": "rwlock", "threads": threads(dice, 2, 4), "writes": dice.choice([0, 1]), "hold-us": length(dice, 2, 10), "gap-us": 200}


def cool_spin(dice):
    return "spin lock", "lock", {"shape": "spin", "threads": 2, "hold-us": 1, "gap-us": length(dice, 150, 400)}


def cool_binary(dice):
    return "semaphore as mutex", "lock", {"shape": "binary", "threads": threads(dice, 2, 4), "hold-us": 2, "gap-us": length(dice, 300, 900)}


def cool_polled(dice):
    return "polled", "lock", {"shape": "polled", "threads": threads(dice, 2, 4), "hold-us": 2, "gap-us": length(dice, 300, 900)}


def enough_credits(dice):
    n = threads(dice, 4, 6)
    return "few credits", "credits", {
        "shape": "pool", "threads": n, "credits": n, "hold": "sleep", "hold-us": length(dice, 200, 2000), "gap-us": 20}


def waits_for_work(dice):
    return "waits for work", "threads", {
        "shape": "queue", "threads": threads(dice, 4, 6, 8), "hold-us": length(dice, 5, 50), "gap": dice.choice(["sleep", "io"]),
        "gap-us": length(dice, 500, 3000)}


def even_barrier(dice):
    return "barrier", "skew", {
        "shape": "barrier", "threads": threads(dice, 2, 4), "hold": "cpu", "hold-us": length(dice, 500, 3000), "skew": 1}


def cool_own(dice):
    return "own futex", "lock", {"shape": "own", "threads": threads(dice, 2, 4), "hold-us": 2, "gap-us": length(dice, 300, 900)}


def cool_atomic(dice):
    return "atomic wait", "lock", {"shape": "atomic", "threads": threads(dice, 2, 4), "hold-us": 2, "gap-us": length(dice, 300, 900)}


def only_computes(dice):
    return "only computes", "threads", {
        "shape": "alone", "threads": threads(dice, 2, 4, 8), "gap": "cpu", "gap-us": length(dice, 20, 200), "idle": dice.choice([0, 4])}


def only_devices(dice):
    return "only waits for devices", "lock", {
        "shape": "alone", "threads": threads(dice, 2, 4, 8), "gap": dice.choice(["io", "file"]), "gap-us": length(dice, 100, 2000)}


def one_thread(dice):
    return "cool mutex", "lock", {
        "shape": "mutex", "threads": 1, "hold-us": length(dice, 5, 50), "gap-us": 5, "idle": dice.choice([0, 3])}


HOT = [sleeping_hold, working_hold, yielding_hold, allocator, one_of_many, interpreter, polled, retreats, read_write,
       waiting_writer, spin_lock, semaphore_as_mutex, token, few_credits, herd, turns, barrier, own_futex, atomic_wait]
COOL = [cool_mutex, full_cpus, even_table, other_work, cool_read_write, cool_spin, cool_binary, cool_polled, enough_credits,
        waits_for_work, even_barrier, cool_own, cool_atomic, only_computes, only_devices, one_thread]


def drawn(seed, count):
    """Returns `count` programs. The families take turns in a random order; half of the programs are of the families in COOL."""
    dice = random.Random(seed)

    def endless(families):
        while True:
            yield from dice.sample(families, len(families))

    hot, cool = endless(HOT), endless(COOL)
    found = []
    for number in range(count):
        family = next(hot if number % 2 == 0 else cool)
        cause, without, options = family(dice)
        found.append(Program(f"{seed}-{number}", cause, without, options))
    return found


# ---- fixed programs -------------------------------------------------------------------------------------------------------

@dataclass
class Fixed(Program):
    """A program with an expectation of its own. `silent`: rules that neither the program's verdict nor a row may have."""

    shows: str = ""
    expects: E.Expected = None
    silent: frozenset = frozenset()
    no_next: bool = False


def fixed(name, shows, cause, without, options, expects, silent="", no_next=False):
    words = options.split()
    return Fixed(name, cause, without, {k: v for k, v in zip(words[::2], words[1::2])}, shows, expects, frozenset(silent.split()), no_next)


def says(rules, rows="", named="", words="", *forbidden):
    return E.Expected(frozenset(rules.split()), frozenset(rows.split()), named, words, forbidden)


FIXED = [
    # Programs for which `usher stat` has given wrong sentences.
    fixed("rwlock-with-mutex-beside", "a hot read-write lock, and a mutex beside it", "read-write lock", "lock",
          "shape rwlock threads 4 writes 20 hold sleep hold-us 200 gap-us 20 beside 10",
          says("hot-rwlock", "", "hot_rwlock", "", E.NOTHING_HELPS)),
    fixed("own-futex", "a futex lock of the program's own", "own futex", "lock",
          "shape own threads 4 hold cpu hold-us 100 gap-us 5", says("unseen-futexes", "", "", "futex", E.NOTHING_HELPS)),
    fixed("own-futex-with-mutex-beside", "the same, and a cool mutex", "own futex", "lock",
          "shape own threads 4 hold sleep hold-us 200 gap-us 5 beside 5", says("unseen-futexes", "", "", "futex", E.NOTHING_HELPS)),
    fixed("polled-97", "failed trylocks and sched_yield() until success, held 97 %", "polled", "lock",
          "shape polled threads 4 hold cpu hold-us 100 gap-us 3",
          says("polled hot-mutex", "polled", "hot_polled", "", E.NOTHING_HELPS, "(nobody|no thread) waited")),
    fixed("cpu-bound-two-locks", "more threads than CPUs, two locks, the CPUs are full", "full CPUs", "lock",
          "shape mutex threads 8 hold-us 5 gap-us 40 beside 1", E.none("", (E.WAKES_FEWER,))),
    fixed("interpreter-lock", "one lock lets one thread run", "interpreter", "lock",
          "shape interpreter threads 8 hold-us 200 gap none", says("one-at-a-time", "", "", "", E.WAKES_FEWER, E.TRY_A_LOCK, E.TRIAL)),
    fixed("interpreter-mutex", "the same with a mutex alone", "working hold", "lock",
          "shape mutex threads 8 hold-us 100 gap none",
          says("one-at-a-time hot-mutex", "", "hot_mutex", "", E.WAKES_FEWER, E.TRY_A_LOCK, E.TRIAL)),
    fixed("yield-inside-70", "sched_yield() inside the section", "yielding hold", "yield",
          "shape mutex threads 4 hold yield hold-us 2 gap-us 1",
          says("hot-mutex", "uneven-hold", "hot_mutex", "yield|gives", E.WAKES_FEWER, r"a hold takes \d")),
    fixed("binary-semaphore", "a semaphore with one credit as a mutex", "semaphore as mutex", "lock",
          "shape binary threads 8 hold cpu hold-us 30 gap-us 500",
          E.none("credits", (E.MORE_CREDITS,))),
    fixed("binary-semaphore-26", "the same, more contended", "semaphore as mutex", "lock",
          "shape binary threads 4 hold sleep hold-us 200 gap-us 5",
          says("credits hot-mutex", "semaphore-lock no-credits", "hot_binary", "", E.MORE_CREDITS)),
    fixed("token-ring", "a token goes from thread to thread", "token", "token",
          "shape ring threads 4 hold sleep hold-us 200",
          says("credits one-at-a-time", "no-credits", "ring_turns", "", E.MORE_CREDITS, E.TRY_A_LOCK, E.TRIAL)),
    fixed("retreats", "try_lock_for in opposite order, with retreats", "retreats", "order",
          "shape retreats threads 4 hold sleep hold-us 1000 gap-us 20", says("hot-mutex", "", "account", "", E.DEADLOCK), "deadlock"),
    fixed("lock-guard", "lock_guard around a small section at -O2", "working hold", "lock",
          "shape guarded threads 4 hold-us 50 gap-us 5", says("hot-mutex one-at-a-time", "", "guarded", "guarded", r"libstdc\+\+\.so")),
    fixed("lock-guard-last-in-thread", "the same as the last action of a thread", "working hold", "lock",
          "shape guarded-threads threads 4 hold-us 300 gap-us 5",
          says("hot-mutex one-at-a-time", "", "guarded", "guarded", r"libstdc\+\+\.so")),
    fixed("waits-0.3", "0.3 % waiting", "cool mutex", "lock",
          "shape mutex threads 2 hold-us 5 gap-us 400", E.none(), no_next=True),
    fixed("waits-0.03", "0.03 % waiting", "cool mutex", "lock",
          "shape mutex threads 2 hold-us 3 gap-us 500", E.none(), no_next=True),
    fixed("real-deadlock", "two threads lock in opposite order and wait for ever", "circle", "circle",
          "shape circle threads 4 gap sleep gap-us 500", says("deadlock", "", "of_circle", "for ever|deadlock")),
    # Programs whose cause must be found.
    fixed("sleep-inside", "a mutex held over a sleep", "sleeping hold", "hold",
          "shape mutex threads 4 hold sleep hold-us 2000 gap-us 50",
          says("hot-mutex", "sleeping-hold long-hold", "hot_mutex", "held_by_sleep", E.TRY_A_LOCK, E.TRIAL)),
    fixed("read-inside", "a mutex held over a read() that blocks", "sleeping hold", "hold",
          "shape mutex threads 6 hold io hold-us 500 gap-us 50",
          says("hot-mutex", "sleeping-hold long-hold hot", "hot_mutex", "held_by_read", E.TRY_A_LOCK, E.TRIAL)),
    fixed("sync-inside", "a mutex held over fdatasync()", "sleeping hold", "hold",
          "shape mutex threads 4 hold file hold-us 20 gap-us 50",
          says("hot-mutex", "sleeping-hold long-hold hot", "hot_mutex", "held_by_sync", E.TRY_A_LOCK, E.TRIAL)),
    fixed("spin-hot", "a spin lock held most of the time", "spin lock", "lock",
          "shape spin threads 3 hold-us 20 gap-us 2", says("hot-spin", "", "hot_spin", "", E.NOTHING_HELPS)),
    fixed("rwlock-writes", "a read-write lock, half of the operations write", "read-write lock", "lock",
          "shape rwlock threads 6 writes 50 hold sleep hold-us 300 gap-us 10", says("hot-rwlock", "", "hot_rwlock", "", E.NOTHING_HELPS)),
    fixed("writer-starves", "readers overtake the only writer", "waiting writer", "preference",
          "shape writer threads 6 hold sleep hold-us 500 gap-us 5",
          says("hot-rwlock", "writers-hold readers-writers", "read_mostly", "", E.NOTHING_HELPS)),
    fixed("pool-too-small", "2 credits for 8 threads", "few credits", "credits",
          "shape pool threads 8 credits 2 hold sleep hold-us 1000 gap-us 10",
          says("credits", "", "pool_credits", "", E.NOTHING_HELPS), "semaphore-lock"),
    fixed("herd-of-16", "a broadcast for each item", "herd", "herd",
          "shape herd threads 17 hold-us 5 gap-us 5", says("wake-ups hot-mutex", "", "work_", "broadcast", E.NOTHING_HELPS)),
    fixed("barrier-skewed", "one thread of a barrier has six times the work", "barrier", "skew",
          "shape barrier threads 4 hold sleep hold-us 1000 skew 6",
          says("barrier", "last-one", "hot_barrier", "", E.NOTHING_HELPS, E.TRY_A_LOCK, E.TRIAL)),
    fixed("allocator-mutex", "a malloc with one mutex", "allocator", "lock",
          "shape allocator threads 4 hold-us 20 gap-us 2", says("hot-mutex", "allocator", "hot_mutex", "allocat")),
    fixed("one-of-64", "one of 64 mutexes has 90 % of the traffic", "one of many", "lock",
          "shape mutex threads 6 objects 64 loaded 90 hold sleep hold-us 300 gap-us 10",
          says("hot-mutex", "one-of-many", "mutex_table", "spread")),
    fixed("atomic-wait", "a lock of std::atomic::wait", "atomic wait", "lock",
          "shape atomic threads 4 hold sleep hold-us 300 gap-us 5", says("unseen-futexes", "", "", "futex", E.NOTHING_HELPS)),
    fixed("turns-by-condition", "two threads take turns by a condition variable", "turns", "turns",
          "shape turns threads 2 hold-us 10", says("wake-ups one-at-a-time", "", "turn_", "", E.NOTHING_HELPS)),
    # Programs without a cause that a lock could remove.
    fixed("no-locks-computes", "as many threads as CPUs, no locks", "only computes", "lock",
          "shape alone threads 2 gap-us 50", E.none(), "unseen-futexes"),
    fixed("no-locks-16-threads", "more threads than CPUs, no locks", "only computes", "threads",
          "shape alone threads 16 gap-us 50", E.none(), "unseen-futexes"),
    fixed("no-locks-devices", "threads that wait for devices", "only waits for devices", "lock",
          "shape alone threads 8 gap io gap-us 1000", E.none(), "unseen-futexes cpus-full"),
    fixed("idle-threads", "ten idle threads beside two that compute", "only computes", "lock",
          "shape alone threads 2 gap-us 50 idle 10", E.none(), "herd slow-wake wake-ups"),
    fixed("readers-only", "a read-write lock without writers", "read-write lock", "lock",
          "shape rwlock threads 4 writes 0 hold-us 20 gap-us 20", E.none(), "hot-rwlock writers-hold readers-writers"),
    fixed("other-work", "a thread that finds the mutex taken does other work", "other work", "lock",
          "shape fallback threads 4 hold-us 50 gap-us 50", E.none(), "polled"),
    fixed("polled-cool", "trylock in a loop that seldom fails", "polled", "lock",
          "shape polled threads 2 hold-us 2 gap-us 500", E.none(), "polled uneven-hold"),
    fixed("waits-for-work", "consumers wait for a slow producer's semaphore", "waits for work", "threads",
          "shape queue threads 6 hold-us 20 gap sleep gap-us 2000", E.none("credits", (E.TOO_FEW,)), "semaphore-lock"),
    fixed("pool-large-enough", "as many credits as threads", "few credits", "credits",
          "shape pool threads 6 credits 6 hold sleep hold-us 1000 gap-us 20", E.none(), "semaphore-lock no-credits"),
    fixed("barrier-even", "a barrier, each thread has the same work", "barrier", "skew",
          "shape barrier threads 2 hold-us 2000 skew 1", E.none("barrier"), "last-one"),
    fixed("one-thread", "a mutex for one thread", "cool mutex", "lock",
          "shape mutex threads 1 hold-us 50 gap-us 5", E.none(), "hot-mutex one-at-a-time"),
    fixed("even-table", "256 mutexes, evenly used", "even table", "lock",
          "shape mutex threads 4 objects 256 hold-us 5 gap-us 20", E.none(), "one-of-many"),
    fixed("spin-cool", "a spin lock that is nearly always free", "spin lock", "lock",
          "shape spin threads 2 hold-us 1 gap-us 300", E.none(), "hot-spin spun"),
    fixed("binary-cool", "a semaphore as a mutex, nearly always free", "semaphore as mutex", "lock",
          "shape binary threads 2 hold-us 2 gap-us 500", E.none("", (E.MORE_CREDITS,)), "credits no-credits"),
    fixed("device-and-small-section", "a small section between waits for devices", "cool mutex", "lock",
          "shape mutex threads 6 hold-us 5 gap io gap-us 2000", E.none(), "hot-mutex cpus-full"),
    fixed("retreats-in-order", "try_lock_for in the same order", "retreats", "",
          "without order shape retreats threads 4 hold sleep hold-us 500 gap-us 2000", says("", "", "", "", E.DEADLOCK), "deadlock"),
    fixed("no-circle", "two mutexes in the same order", "circle", "",
          "without circle shape circle threads 4 gap sleep gap-us 500", says("", "", "", "", E.DEADLOCK), "deadlock"),
    fixed("small-herd", "a condition variable with two waiters", "herd", "herd",
          "shape herd threads 3 hold-us 5 gap-us 500", says("", "", "", "", r"broadcast"), "herd"),
    fixed("own-futex-cool", "a futex lock that is nearly always free", "own futex", "lock",
          "shape own threads 2 hold-us 2 gap-us 500", E.none(), "unseen-futexes"),
]
