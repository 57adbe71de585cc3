"""The points of the arena: the runs and their reasons. A chosen list, not the product of all settings.

Sections and work outside are in nanoseconds here; `arena --what calibrate` converts them to steps of work on the present
machine. Real programs are the cases of lab/run/case.py."""

import dataclasses
import json
import re
from dataclasses import dataclass

from lab.run.case import MORE, READERS, TRIED
from lab.run.runner import Failed
from lab.run.runner import figure as number_in

GROUPS = {
    "alone": "a process without threads",
    "uncontended": "threads exist, nobody contends",
    "mutexbench": "MutexBench",
    "spread": "several mutexes, other kinds, other places",
    "holders": "holders that yield, sleep, fault pages",
    "crowd": "others want the CPUs, too",
    "waits": "condition variables and semaphores",
    "programs": "real programs",
    "readwrite": "read-write locks",
    "readers": "real programs with read-write locks",
}
READ_WRITE = ("readwrite", "readers")  # groups of points in which the candidates are read-write locks


@dataclass(frozen=True)
class Point:
    name: str
    group: str
    reason: str
    program: str = "arena"      # a program of lab/programs/, or the name of a case
    arguments: tuple = ()       # of a program of lab/programs; {seconds} is the length of a run
    section: float = 0          # ns
    outside: float = 0          # ns, on average
    seconds: float = 0          # the least length of a run
    key: str = ""               # key of the judged figure in the program's JSON
    pattern: str = ""           # or a pattern that finds the judged figure in the program's text
    lower: bool = False         # less is better
    work: bool = True           # the figure is operations a second (or seconds for a fixed amount)
    neighbours: float = 0       # number of busy threads in another process, as a share of the CPUs
    same_group: bool = False    # the scheduler weighs the neighbours against the point's threads one by one, not by group
    niced: int = 0              # nice value of the neighbours
    quota: float = 0            # permitted CPU time, as a share of the CPUs
    case: object = None         # a real program
    threads: int = 0            # number of threads of the real program
    two_libraries: bool = False  # also runs with the C library of another release
    facts: object = None        # a function that reads further figures from standard error


def bench(name, threads, reason, section=0, outside=0, group="mutexbench", extra=(), **more):
    return Point(name, group, reason, section=section, outside=outside,
                 arguments=("--threads", str(threads), "--seconds", "{seconds}", *extra), **more)


def pairs(name, reason, *extra):
    alone = "--alone" in extra
    return Point(name, "alone" if alone else "uncontended", reason, arguments=("--what", "pairs", "--seconds", "{seconds}", *extra),
                 key="fastest_ns", lower=True, two_libraries=True)


def app(name, program, reason, arguments, key="", pattern="", **more):
    return Point(name, "waits", reason, program=program, arguments=tuple(arguments.split()), key=key, pattern=pattern,
                 two_libraries=True, **more)


CASES = {case.name: case for case in TRIED + MORE + READERS}
# The rate of the writer is limited, because db_bench counts only the reads: a lock that admits an unlimited writer more often would have
# fewer reads and seem slower.
CASES["rocksdb"] = dataclasses.replace(CASES["rocksdb"], command=CASES["rocksdb"].command + " --benchmark_write_rate_limit=2000000")
CASES["jemalloc"] = dataclasses.replace(CASES["jemalloc"], environment=CASES["jemalloc"].environment | {
    "MALLOC_CONF": "narenas:1,tcache:false,stats_print:true,stats_print_opts:Jmd"})


def jemalloc_facts(text):
    """Returns the share of all acquisitions of jemalloc's mutexes by a thread other than the previous owner."""
    total = {}
    for name, number in re.findall(r'"(num_owner_switch|num_ops)":\s*(\d+)', text):
        total[name] = total.get(name, 0) + int(number)
    if not total.get("num_ops"):
        return {}
    return {"owner_changes": total["num_owner_switch"] / total["num_ops"], "lock_operations": total["num_ops"]}


def case(name, threads, reason, ending="", group="programs", **more):
    return Point(f"{name}-{threads}{ending}", group, reason, program=name,
                 case=CASES[name], threads=threads, seconds=1, lower=CASES[name].lower, **more)


def read_write(threads, writes, section, outside, reason, **more):
    """`writes` in a thousand operations; `section` and `outside` in ns."""
    length = f"{section // 1000}u" if section >= 1000 else str(section)
    name = f"rw-{writes / 10:g}%-{length}-{'1x' if outside else '0'}-{threads}"
    return bench(name, threads, reason, section=section, outside=outside, group="readwrite",
                 extra=("--read-write", "--writes", str(writes)), **more)


US = 1000


def beside(name, threads, reason, **more):
    """Returns points in which lock holders lose their CPU to other programs: as many busy threads as CPUs, twice as many, and niced
    ones."""
    return [bench(f"{name}-beside-{part}x{'-niced' if niced else ''}", threads, f"{reason}; {part} busy threads a CPU beside it"
                  f"{', at nice 10' if niced else ''}", group="crowd", neighbours=part, same_group=True, niced=niced, **more)
            for part in (1, 2) for niced in (0, 10)]


POINTS = [
    # Uncontended calls, the most frequent use of a mutex.
    pairs("alone-pair", "the commonest call of all; the C library leaves out its atomics", "--alone"),
    pairs("alone-try", "the same by trylock", "--alone", "--try-first"),
    pairs("alone-recursive", "the same of a mutex that counts", "--alone", "--kind", "recursive"),
    pairs("calm-pair", "the cost of an uncontended mutex"),
    pairs("calm-try", "the same by trylock, as allocators do", "--try-first"),
    pairs("calm-recursive", "the same of a mutex that counts, as databases and runtimes do", "--kind", "recursive"),

    bench("0-0-2", 2, "nothing but the lock, two threads: the cost of a hand-over"),
    bench("0-0-8", 8, "the same, more threads than CPUs here"),
    bench("0-0-64", 64, "the same, a crowd: how many stay awake"),
    bench("0-200-3", 3, "empty sections, a little work outside: the lock is the bottleneck, barely", outside=200),
    bench("50-0-2", 2, "two threads that hand over without a pause: CPU time is lost here", section=50),
    bench("50-1x-4", 4, "a counter, a free list: as much work outside", section=50, outside=50),
    bench("50-5x-8", 8, "the same, busy outside", section=50, outside=250),
    bench("50-100x-32", 32, "seldom contended, by many", section=50, outside=5 * US),
    bench("200-0-2", 2, "two threads, a hash table's section", section=200),
    bench("200-0-3", 3, "one thread more than two CPUs", section=200),
    bench("200-1x-8", 8, "the centre of MutexBench", section=200, outside=200),
    bench("200-5x-2", 2, "two threads that meet now and then: polling pays or does not", section=200, outside=US),
    bench("200-5x-32", 32, "a crowd that meets now and then", section=200, outside=US),
    bench("1u-0-8", 8, "a section of the length of a futex call", section=US),
    bench("1u-1x-2", 2, "two threads: each wait is as long as a section", section=US, outside=US),
    bench("1u-1x-16", 16, "a convoy if one forms", section=US, outside=US),
    bench("1u-5x-4", 4, "half loaded on 2 CPUs", section=US, outside=5 * US),
    bench("1u-100x-64", 64, "many threads, little contention", section=US, outside=100 * US),
    bench("5u-0-2", 2, "as long as a spin budget: polling just does not pay", section=5 * US),
    bench("5u-1x-8", 8, "the same with work outside", section=5 * US, outside=5 * US),
    bench("5u-5x-32", 32, "the same, a crowd", section=5 * US, outside=25 * US),
    bench("20u-0-8", 8, "sections longer than any polling", section=20 * US),
    bench("20u-1x-2", 2, "two threads, long sections: the waiter had better sleep", section=20 * US, outside=20 * US),
    bench("20u-0-64", 64, "the longest wait and the smallest share of 64 threads; long enough to see them", section=20 * US, seconds=4),
    bench("10u-1x-4", 4, "longer than the spin budget, shorter than a sleep on a virtual machine", section=10 * US, outside=10 * US),
    bench("10u-0-8", 8, "the same, nothing outside", section=10 * US),
    bench("20u-1x-8", 8, "the same, more threads than CPUs", section=20 * US, outside=20 * US),
    bench("40u-1x-4", 4, "about as long as a sleep there", section=40 * US, outside=40 * US),
    bench("100u-1x-3", 3, "waiters sleep: a woken thread may have no CPU", section=100 * US, outside=100 * US),
    bench("100u-1x-4", 4, "the same, two threads a CPU", section=100 * US, outside=100 * US),
    bench("100u-0-4", 4, "the same, nothing outside: a wake-up in each section is CPU time lost", section=100 * US),
    bench("100u-0-8", 8, "the same, a crowd", section=100 * US),
    bench("200u-1x-4", 4, "very long sections: the lock should not matter", section=200 * US, outside=200 * US),

    bench("four-mutexes-8", 8, "a table with a few locks", section=200, outside=200, group="spread", extra=("--mutexes", "4")),
    bench("64-mutexes-16", 16, "a table with many locks", section=200, outside=200, group="spread", extra=("--mutexes", "64")),
    bench("alignments-8", 8, "mutexes at all eight places in a line", section=50, outside=50, group="spread",
          extra=("--mutexes", "8", "--every-alignment")),
    bench("at-40-2", 2, "a mutex over the end of a line, two threads", section=50, outside=50, group="spread",
          extra=("--alignment", "40")),
    bench("at-56-2", 2, "the same, at the worst place", section=50, outside=50, group="spread", extra=("--alignment", "56")),
    bench("try-first-2", 2, "trylock, then lock: as jemalloc with two threads", section=50, outside=250, group="spread",
          extra=("--try-first",)),
    bench("try-first-8", 8, "the same with eight", section=50, outside=250, group="spread", extra=("--try-first",)),
    bench("recursive-4", 4, "a recursive mutex as SQLite's", section=200, outside=200, group="spread", extra=("--kind", "recursive")),
    bench("idle-threads-2", 2, "two threads contend, two hundred sleep: a server", section=200, outside=200, group="spread",
          extra=("--idle", "200")),

    bench("yield-1-8", 8, "the holder gives its CPU away: one mutex", group="holders", extra=("--yields", "1")),
    bench("yield-8-8", 8, "the same over eight mutexes, as sysbench threads has it", group="holders",
          extra=("--yields", "1", "--mutexes", "8")),
    bench("sleep-8", 8, "the holder sleeps 50 µs in every hundredth section", section=200, outside=200, group="holders",
          extra=("--sleep-every", "100")),
    bench("sleep-each-4", 4, "the holder sleeps in each section: input and output", section=200, outside=20 * US, group="holders",
          extra=("--sleep-every", "1")),
    bench("pages-4", 4, "the holder faults a page in each section", section=200, outside=US, group="holders", extra=("--pages", "1")),

    bench("neighbour-1u-2", 2, "a busy process beside two threads: holders lose their CPU", section=US, outside=US, group="crowd",
          neighbours=0.5),
    bench("neighbour-200-8", 8, "the same with more threads and shorter sections", section=200, outside=200, group="crowd", neighbours=0.5),
    *beside("yield", 8, "the holder yields to strangers", extra=("--yields", "1")),
    *beside("sleep", 4, "the holder sleeps, and has to get its CPU back", section=200, outside=20 * US, extra=("--sleep-every", "1")),
    *beside("pages", 4, "the holder faults a page in each section", section=200, outside=US, extra=("--pages", "1")),
    bench("quota-1u-8", 8, "a container with half of the CPUs: polling is paid from the quota", section=US, outside=US, group="crowd",
          quota=0.5, seconds=1),
    bench("quota-5u-2", 2, "the same, two threads and longer sections", section=5 * US, outside=5 * US, group="crowd", quota=0.5,
          seconds=1),

    *(Point(f"rw-{name}-pair{ending}", "readwrite", reason + (" without threads" if ending else ""), key="fastest_ns", lower=True,
            arguments=("--what", "pairs", "--seconds", "{seconds}", "--read-write", "--writes", writes, *extra))
      for name, writes, reason in (("read", "0", "an uncontended read"), ("write", "1", "an uncontended write"))
      for ending, extra in (("", ()), ("-alone", ("--alone",)))),
    *(read_write(threads, 0, section, section, "readers only")
      for section in (0, 200, US) for threads in (2, 8, 32)),
    *(read_write(threads, writes, section, section, f"{writes / 10:g} % writers")
      for writes in (10, 50, 200, 500) for section in (0, 200, US, 20 * US) for threads in (2, 8, 32)),
    bench("rw-nonrecursive-8", 8, "writers before readers, by the kind", section=US, outside=US, group="readwrite",
          extra=("--read-write", "--writes", "50", "--kind", "nonrecursive")),
    *(bench(f"rw-{writers}-writers-of-{threads}", threads, "threads that always read beside threads that always write", section=200,
            group="readwrite", seconds=1, extra=("--read-write", "--writers", str(writers))) for writers, threads in ((1, 2), (1, 8), (7, 8))),

    app("queue-8", "producer_consumer", "a bounded queue, four producers and four consumers",
        "--producers 4 --consumers 4 --bound 100 --seconds {seconds}", "messages_per_second"),
    app("queue-full", "producer_consumer", "the Malthusian paper's queue: three consumers, full for most of the time",
        "--producers 8 --consumers 3 --bound 10000 --seconds {seconds}", "messages_per_second"),
    app("cond-turns", "wait_cost", "two threads take turns by condition variables",
        "--what cond-turns --seconds {seconds}", pattern=r"operations a second: ([\d.]+)"),
    app("pool-cond", "buffer_pool", "eight threads share five buffers by a condition variable",
        "--threads 8 --buffers 5 --kib 64 --seconds {seconds}", "iterations_per_second"),
    app("pool-sem", "buffer_pool", "the same by a semaphore",
        "--threads 8 --buffers 5 --kib 64 --semaphore --seconds {seconds}", "iterations_per_second"),
    app("sem-turns", "wait_cost", "two threads take turns by semaphores",
        "--what sem-turns --seconds {seconds}", pattern=r"operations a second: ([\d.]+)"),
    app("sem-lock-8", "wait_cost", "a semaphore as a lock, as Python has it",
        "--what sem-lock --threads 8 --seconds {seconds}", pattern=r"operations a second: ([\d.]+)"),
    app("herd-64", "herd", "a broadcast to 64 waiters with the mutex held: until the last is through",
        "--waiters 64 --rounds 20 --hold 200", "us_until_through.median", lower=True, work=False),

    case("sysbench-threads", 2, "the holder yields; two threads"),
    case("sysbench-threads", 8, "the same: a loss until now", two_libraries=True),
    case("sysbench-threads", 32, "the same, a crowd"),
    case("sysbench-threads", 8, "the same, a busy thread a CPU beside it", "-beside-1x", neighbours=1, same_group=True),
    case("sysbench-mutex", 8, "a short section, seldom contended"),
    case("python", 2, "semaphores and a condition variable: level"),
    case("python", 8, "the same: a gain that must stay", two_libraries=True),
    case("python", 32, "the same, a crowd"),
    case("perl", 8, "condition variables: a gain that must stay", two_libraries=True),
    case("perl", 32, "the same, a crowd"),
    case("sqlite", 2, "a recursive mutex around everything"),
    case("sqlite", 8, "the same: a gain that must stay", two_libraries=True),
    case("sqlite", 32, "the same, a crowd"),
    case("leveldb", 8, "one mutex, taken twice by every read"),
    case("leveldb", 32, "the same, a crowd"),
    case("rocksdb", 2, "a block cache under one mutex, the writer's rate fixed: a small loss without it"),
    case("rocksdb", 8, "the same"),
    case("rocksdb", 32, "the same, a crowd"),
    case("jemalloc", 2, "trylock first on a hot lock; owner changes counted: a loss until now", facts=jemalloc_facts),
    case("jemalloc", 8, "the same", facts=jemalloc_facts),
    case("jemalloc", 32, "the same, a crowd: a gain that must stay", facts=jemalloc_facts),
    case("kyotocabinet", 8, "sixteen mutexes, seldom contended", two_libraries=True),
    case("memcached", 8, "a server with many small mutexes"),
    case("mariadb", 8, "a server with a thread a connection"),
    case("redis", 2, "threads that spin, mutexes that only stop them"),

    *(case(name, threads, reason, group="readers")
      for name, reason in (("openssl-fetch", "a store of algorithms that all threads read"),
                           ("openssl-handshake", "the same beside the arithmetic of TLS"),
                           ("shared-cache", "a hash table under a std::shared_mutex"))
      for threads in (2, 8, 32)),
    *(case(name, 8, reason, "-rw", group="readers")
      for name, reason in (("kyotocabinet", "a read-write lock of the database"), ("rocksdb", "read-write locks beside mutexes"),
                           ("mariadb", "the server's own locks over read-write locks"))),
]

BY_NAME = {point.name: point for point in POINTS}
assert len(BY_NAME) == len(POINTS)


def number_at(document, path):
    for part in path.split("."):
        document = document[part]
    return float(document)


def figure(point, text):
    """Returns the judged figure from a run's standard output, and all figures if the output is JSON."""
    if point.case or point.pattern:
        return number_in(point.case.metric if point.case else point.pattern, text), {}
    try:
        document = json.loads(text)
        if point.key:
            return number_at(document, point.key), document
        return document["operations"] / document["seconds"], document
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise Failed("no figure in its output") from error
