"""Published numbers that were used for no calibration: not for a machine's file, a program's parameter or a lock's constant. Used by
held_out.py.

A number to which a key of a machine was fitted names that key: as long as the machine's file marks the key `fitted`, the number is shown
among those that are not held out. So is a number to which the program was fitted (`spent`).

The four throughputs of MCSg's Table 2 are held out from the program `mcsg-artifact` and its locks, too: no parameter of them is chosen by
these numbers or by a figure of the rows G1 to G14 of rows.py.
"""

from dataclasses import dataclass, field

from lab.claims.rows import REFLEX, latency_us  # REFLEX: the lengths of a system call that were fitted to the share of free attempts


@dataclass
class Run:
    """The arguments of one `usher sim`."""

    workload: str
    machine: str
    locks: list
    threads: list
    settings: dict = field(default_factory=dict)
    ms: float | None = 2  # if None, the default length
    seeds: int = 3
    pinned: bool = False
    placement: str = ""
    machine_settings: dict = field(default_factory=dict)


@dataclass
class Number:
    id: str
    what: str
    published: float
    of: object  # a function of the points of its run, under one seed
    run: str
    unit: str = ""
    fitted: tuple = ()  # keys of the run's machine that were fitted to this number, as the machine's file says
    spent: str = ""  # the reason why the number is not held out, whatever the machine's file says


@dataclass
class Sentence:
    id: str
    what: str
    run: str
    of: object  # the result …
    holds: object  # … and a test whether it agrees with the sentence
    wanted: str


@dataclass
class Curve:
    """Published throughput of locks over threads, in M/s, of a program whose critical section is known except for the length of its unit
    of work."""

    id: str
    machine: str
    file: str
    published: dict  # lock: {threads: M/s}
    ms: float = 5
    held_out: bool = False  # False: the simulator's rules of coherence were chosen by this curve


@dataclass
class Source:
    title: str
    text: str
    numbers: list = field(default_factory=list)
    counted: bool = True  # whether the page's shares of all held-out numbers include those of this source


def throughput(lock, threads):
    return lambda p: p(lock, threads)


def of(lock, threads, key, factor=1.0):
    return lambda p: p(lock, threads, key) * factor


def ratio(a, b, threads, key="throughput"):
    return lambda p: p(a, threads, key) / p(b, threads, key)


def skew(lock, threads):
    """Returns the number of acquisitions of the first NUMA node, divided by that of the second."""

    def value(p):
        nodes = {}
        for operations, socket in zip(p(lock, threads, "operations"), p(lock, threads, "sockets")):
            nodes[socket] = nodes.get(socket, 0) + operations
        return nodes[0] / max(1, nodes[1])

    return value


def best_up_to(lock, others):
    """Returns the largest number of threads up to which `lock` is the fastest."""

    def value(p):
        last = 0
        for t in p.counts():
            if any(p(lock, t) < p(other, t) for other in others):
                break
            last = t
        return last

    return value


def stays_below_from(a, b):
    """Returns the number of threads from which on `a` is below `b`; None if there is none."""

    def value(p):
        below = None
        for t in reversed(p.counts()):
            if p(a, t) >= p(b, t):
                break
            below = t
        return below

    return value


def drop_from(locks, limit=0.8):
    """Returns the least number of threads t at which, for each lock, throughput with 2t threads is less than `limit` times that with t
    threads."""

    def value(p):
        for t in p.counts():
            if 2 * t in p.counts() and max(p(l, 2 * t) / p(l, t) for l in locks) < limit:
                return t
        return None

    return value


def peak_at(lock):
    return lambda p: max(p.counts(), key=lambda t: p(lock, t))


def wait_if_any(p, lock):
    """Returns the mean wait as Lockmeter gives it: over the acquisitions that had to wait."""
    return p(lock, 8, "wait_ns.mean") / (1 - p(lock, 8, "found_free") / p(lock, 8, "admissions"))


def with_long_delays(lock, threads):
    """Returns locktorture's throughput including its delays of 100 ms, in one of 200 000 × threads acquisitions, which the simulated
    program leaves out."""
    return lambda p: 1 / (1 / p(lock, threads) + 0.5 / threads)


def misses(lock, seconds=10):
    """Returns the number of cache misses in so many seconds."""
    return lambda p: p(lock, 32, "misses") / (p(lock, 32, "run_ns") * 1e-9) * seconds


SPINLOCK = "ttas-linux-spin"  # the spin lock of the Fairlocks paper
# The names of locks in libslock, and of the same locks in Usher. In libslock the caller provides the queue node, as for Usher's `-node`
# locks.
LIBSLOCK = {"TAS": "tas-spin", "TTAS": "ttas-spin", "TICKET": "ticket-spin", "MCS": "mcs-node-spin", "CLH": "clh-node-spin"}
CR = {"MCS-S": "mcs-spin", "MCS-STP": "mcs", "MCSCR-S": "mcscr-spin", "MCSCR-STP": "mcscr"}
FEW = ["ticket-spin", "twa-spin", "mcs-spin"]
NUMA_Q = ("coherence.dirty", "coherence.jitter")
TURN = ("coherence.per_sharer", "coherence.per_read")
# A second run of mctop on the xeon-e7-8867l, with thread counts that the first run lacks for these locks. The section has the length that
# held_out.py computes for the first run on the same machine, and waiters slow their neighbours as much as work does, as in that run. A test
# compares both settings with those of the first run.
AGAIN = Run("mutexbench", "xeon-e7-8867l", ["mcs-node-spin", "clh-node-spin"], [100, 120, 140, 160], {"cs": 255, "ncs": 0}, ms=5,
            placement="compact", machine_settings={"hardware_threads.slowed_by_spin": 1.6})

# Linux's locktorture on an X5-4: cover letter of version 15 of "Add NUMA-awareness to qspinlock" (A. Kogan, Linux kernel mailing list,
# 14 May 2021). The kernel without the patches, Linux 5.12; means of 25 runs, acquisitions of all threads of a run in tens of millions. A
# run has 30 s (D. Dice and A. Kogan, "Compact NUMA-aware locks", §7.2.1, on the same machine).
LOCKTORTURE = {1: 2.695, 2: 2.753, 4: 4.355, 8: 5.163, 16: 5.944, 32: 6.310, 36: 6.374, 72: 6.170, 108: 6.002, 142: 5.784}
LINUX = "qspinlock-linux-spin"
# The papers' programs with their settings, run with 48 threads. One of the machines is LiTL's; the other is a relative of LiTL's second
# machine. The machine files have no caches. If a program needs caches, their sizes are the processor's, without the part of an Opteron's L3
# that is a directory. The times are assumed: a load from the core's own cache, and the additional times of the last-level cache and of
# memory.
PAPERS_PROGRAMS = {"mutexbench": {}, "stress-latency": {}, "random-cache": {}, "lru-cache": {}, "keymap": {"keys": 10_000_000, "page": 4096},
                   "mmicro": {"page": 4096}}
LITL_MACHINES = {
    "xeon-e7-4830v3": ("I-48", {"bytes": 31457280, "ways": 20, "line": 64, "private_bytes": 262144, "private_ways": 8, "access": 12, "hit": 38,
                                "miss": 170, "channel": 3, "tlb_entries": 1024, "tlb_miss": 30}),
    "opteron-6172": ("A-64", {"bytes": 5242880, "ways": 20, "line": 64, "private_bytes": 524288, "private_ways": 16, "access": 15, "hit": 30,
                              "miss": 91, "channel": 4, "tlb_entries": 512, "tlb_miss": 40}),
}
# Published geometric means of malth_spin / mcs_spin and malth_stp / mcs_stp, over those programs in which LiTL's spin locks differ by a
# factor of 1.5 on all nodes.
LITL = {"I-48": (0.86, 4.13), "A-64": (0.97, 1.96)}


def litl_runs():
    runs = {}
    for machine, (name, cache) in LITL_MACHINES.items():
        for program, settings in PAPERS_PROGRAMS.items():
            keys = {f"cache.{key}": value for key, value in cache.items()} if "page" in settings else {}
            runs[f"litl {name} {program}"] = Run(program, machine, list(CR.values()), [48], settings, ms=100 if program in ("lru-cache", "mmicro") else 20,
                                                 machine_settings=keys)
    return runs


def litl_numbers():
    return [Number(f"LiTL {name} {program} {way}", f"{way}: LiTL's mean over programs on {name}, and {program} on {machine}", published,
                   ratio(*locks, 48), f"litl {name} {program}")
            for machine, (name, _) in LITL_MACHINES.items() for program in PAPERS_PROGRAMS
            for way, published, locks in (("spinning", LITL[name][0], ("mcscr-spin", "mcs-spin")), ("parking", LITL[name][1], ("mcscr", "mcs")))]


RUNS = {
    "quads 4": Run("quads", "numa-q", [SPINLOCK, "fairlock-spin"], [4], ms=500, pinned=True),
    "quads 8": Run("quads", "numa-q", [SPINLOCK, "fairlock-spin"], [8], ms=500, pinned=True),
    "quads alone": Run("quads", "numa-q", [SPINLOCK, "fairlock-spin"], [1], {"bare": 1}, pinned=True),
    "quads all": Run("quads", "numa-q", [SPINLOCK, "fairlock-spin"], list(range(1, 9)), ms=100, pinned=True, placement="compact"),
    **{f"reflex, {form.name}": Run("reflex", "numa-q", [SPINLOCK, "fairlock-spin"], [8], form.settings, ms=1000, pinned=True) for form in REFLEX.all},
    "mcsg": Run("mcsg-artifact", "e7-4890", ["mcs-artifact-spin", "mcsg-artifact-spin", "mcsg++-artifact-spin", "c-mcsg-mcs-artifact-spin"], [224],
                ms=4),
    "randarray 32": Run("randarray", "t5", list(CR.values()), [32], ms=100),
    "randarray": Run("randarray", "t5", ["mcs-spin", "mcscr", "null"], [1, 2, 3, 4, 5, 6, 8, 12, 24, 32, 48, 64], ms=10, seeds=1),
    "randarray 256": Run("randarray", "t5", ["mcs-spin", "mcs"], [256], ms=None, seeds=1),
    "stress": Run("stress-latency", "t5", ["mcs-spin"], [8, 12, 16, 20, 24, 32], ms=5),
    "x5-2": Run("mutexbench", "x5-2", FEW, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 36, 48, 72]),
    "t7-2": Run("mutexbench", "t7-2", FEW, [64, 128, 256, 512], ms=4, seeds=1),
    "westmere again": AGAIN,
    **litl_runs(),
    "locktorture": Run("locktorture", "x5-4", [LINUX], list(LOCKTORTURE), ms=5),
    "libslock opteron": Run("mutexbench", "opteron-6172", list(LIBSLOCK.values()), [1, 48], {"cs": 1, "ncs": 50, "shared": 1},
                            placement="compact"),
    "libslock xeon": Run("mutexbench", "xeon-e7-8867l", list(LIBSLOCK.values()), [1, 80], {"cs": 1, "ncs": 50, "shared": 1},
                         placement="compact"),
    "libslock niagara": Run("mutexbench", "niagara-2", list(LIBSLOCK.values()), [1, 2, 4, 8, 16, 32, 64],
                            {"cs": 1, "ncs": 50, "shared": 1}),
}

# Shows from how many threads on MCS surpasses ticket on the X5-2. The simulator's rules of coherence were chosen by this number, among
# others.
OVERTAKES = Run("mutexbench", "x5-2", ["ticket-spin", "mcs-spin"], RUNS["x5-2"].threads, ms=8, seeds=5)


def figure_4():
    """Returns the numbers of the table of Malthusian Locks: all of its nine rows except the watts. Spinning waiters never sleep, and
    under a FIFO lock all threads take turns."""
    rows = [
        ("throughput, M/s", "throughput", 1, (0.7, 0.1, 1.3, 1.6)),
        ("LWSS, threads", "lwss", 1, (32, 32, 5.3, 5.1)),
        ("MTTR, threads", "mttr", 1, (31, 31, 3, 3)),
        ("Gini", "gini", 1, (0.001, 0.001, 0.076, 0.078)),
        ("RSTDDEV", "relative_deviation", 1, (0, 0, 0.152, 0.155)),
        ("voluntary switches in 10 s", "voluntary_switches", 100, (0, 798e3, 11, 6e3)),  # the simulated run has 100 ms
        ("CPUs", "cpus_used", 1, (32, 16.8, 32, 5.2)),
        ("misses in 10 s", None, 1, (11e6, 10e6, 152e3, 172e3)),
    ]
    # Numbers that depend on the fitted setting `miss`, which was set so that MCSCR's circulating threads fit into the cache. The number of
    # circulating threads also determines the number of admissions between two admissions of one thread (MTTR).
    served = {("throughput, M/s", "MCSCR-S"): ("cache.miss",),
              ("LWSS, threads", "MCSCR-S"): ("cache.miss",), ("LWSS, threads", "MCSCR-STP"): ("cache.miss",),
              ("MTTR, threads", "MCSCR-S"): ("cache.miss",), ("MTTR, threads", "MCSCR-STP"): ("cache.miss",),
              ("misses in 10 s", "MCSCR-S"): ("cache.miss",), ("misses in 10 s", "MCSCR-STP"): ("cache.miss",)}
    long, fifo = "of 10 s: in a hundredth of that shares are less even", "follows from the lock, whatever the machine"
    spent = {"gini": long, "relative_deviation": long}
    always = {("lwss", "MCS-S"), ("lwss", "MCS-STP"), ("mttr", "MCS-S"), ("mttr", "MCS-STP"), ("cpus_used", "MCS-S"), ("cpus_used", "MCSCR-S"),
              ("voluntary_switches", "MCS-S"), ("voluntary_switches", "MCSCR-S")}
    numbers = []
    for what, key, factor, published in rows:
        for (name, lock), value in zip(CR.items(), published):
            numbers.append(Number(
                f"M2 {name} {what.split(',')[0].split(' in')[0]}", f"{name}: {what}", value, of(lock, 32, key, factor) if key else misses(lock),
                "randarray 32", fitted=served.get((what, name), ()),
                spent=fifo if (key, name) in always else spent.get(key, "")))
    return numbers


def table_4(form):
    """Returns the numbers of Fairlocks' Reflex, for both lengths of a system call with which the spin lock is found free as often as in
    the paper."""
    fair, run = "fairlock-spin", f"reflex, {form}"
    free = lambda lock: lambda p: p(lock, 8, "found_free") / p(lock, 8, "admissions")
    rows = [
        ("utilisation, spinlock", 0.317, of(SPINLOCK, 8, "utilisation")),
        ("utilisation, fairlock", 0.274, of(fair, 8, "utilisation")),
        ("found free, spinlock", 0.353, free(SPINLOCK)),
        ("found free, fairlock", 0.454, free(fair)),
        ("mean hold, fairlock / spinlock", 1.0, ratio(fair, SPINLOCK, 8, "hold_ns.mean")),
        ("mean wait of those who wait, fairlock / spinlock", 0.7016, lambda p: wait_if_any(p, fair) / wait_if_any(p, SPINLOCK)),
        ("acquisitions, fairlock / spinlock", 0.8649, ratio(fair, SPINLOCK, 8, "admissions")),
        ("longest wait / longest hold, fairlock", 3.503, lambda p: p(fair, 8, "wait_ns.longest") / p(fair, 8, "hold_ns.longest")),
    ]
    return [Number(f"F5 {what}, {form}", f"table 4, {form}: {what}", published, value, run,
                   spent="the length of a call is set by it" if what == "found free, spinlock" else "") for what, published, value in rows]


SOURCES = [
    Source("Fairlocks, tables 1 to 4, figure 8", "The simulated machine is a NUMA-Q of two quads, nodes with four CPUs each.", [
        Number("F1 spinlock", "table 1: spinlock, 4 threads, all together", 0.1634, throughput(SPINLOCK, 4), "quads 4", "M/s"),
        Number("F1 fairlock", "fairlock", 0.1100, throughput("fairlock-spin", 4), "quads 4", "M/s"),
        Number("F1 spinlock skew", "spinlock, quad 0 / quad 1", 29.97, skew(SPINLOCK, 4), "quads 4", fitted=NUMA_Q),
        Number("F1 fairlock skew", "fairlock, quad 0 / quad 1", 1.328, skew("fairlock-spin", 4), "quads 4", fitted=NUMA_Q),
        Number("F2 spinlock", "table 2: spinlock, 8 threads, all together", 0.1607, throughput(SPINLOCK, 8), "quads 8", "M/s"),
        Number("F2 fairlock", "fairlock", 0.1079, throughput("fairlock-spin", 8), "quads 8", "M/s"),
        Number("F2 spinlock skew", "spinlock, quad 0 / quad 1", 4.136, skew(SPINLOCK, 8), "quads 8", fitted=NUMA_Q),
        Number("F2 fairlock skew", "fairlock, quad 0 / quad 1", 1.000, skew("fairlock-spin", 8), "quads 8", fitted=NUMA_Q),
        Number("F3 spinlock", "table 3: spinlock, one thread", 29.38, lambda p: 1000 / p(SPINLOCK, 1), "quads alone", "ns"),
        Number("F3 fairlock", "fairlock", 59.11, lambda p: 1000 / p("fairlock-spin", 1), "quads alone", "ns"),
        Number("F3 difference", "fairlock − spinlock", 29.73, lambda p: 1000 / p("fairlock-spin", 1) - 1000 / p(SPINLOCK, 1),
               "quads alone", "ns"),
        Number("F4 ratio", "figure 8: fairlock / spinlock, mean of 1 to 8 threads", 0.64,
               lambda p: sum(p("fairlock-spin", t) / p(SPINLOCK, t) for t in range(1, 9)) / 8, "quads all"),
    ] + [number for form in REFLEX.all for number in table_4(form.name)]),
    Source("MCSg, table 2", "On the simulated machine, which has 16 sockets, 224 threads run the authors' program.", [
        number for name, lock, rate, wait in (("MCS", "mcs-artifact-spin", 1.77, 126.21), ("MCSg", "mcsg-artifact-spin", 1.86, 120.34),
                                              ("MCSg++", "mcsg++-artifact-spin", 1.72, 129.58),
                                              ("C-MCSg-MCS", "c-mcsg-mcs-artifact-spin", 5.22, 42.79))
        for number in (Number(f"G4 {name}", name, rate, throughput(lock, 224), "mcsg", "M/s"),
                       Number(f"G4 {name} latency", f"{name}: average latency", wait, latency_us(lock, 224), "mcsg", "µs",
                              spent="threads / throughput: the same number once more"))
    ]),
    Source("Malthusian Locks, figure 4 and text", "The simulated machine is a T5. The table is RandArray with 32 threads; the paper's "
                                                  "watts are not simulated. MCS-S's throughput and misses depend on "
           "the T5's `miss` as well, which was set for the working set of MCSCR. MCS-STP / MCS-S with 256 threads is that after a warm-up; of "
           "all operations in the first 10 s, as the paper counts, it is 63, or 7.4 if threads begin with the priority 0 and not 59 (M1).", figure_4() + [
        Number("M1 peak", "§6.1: the peak is at so many threads (MCS-S)", 5, peak_at("mcs-spin"), "randarray"),
        Number("M1 speedup", "its height, of one thread's: slightly more than", 3, lambda p: max(p("mcs-spin", t) for t in p.counts())
               / p("mcs-spin", 1), "randarray", fitted=("cache.access",)),
        Number("M1 null", "MCSCR-STP is above null beyond so many threads", 48, stays_below_from("null", "mcscr"), "randarray"),
        Number("M1 256", "MCS-STP / MCS-S at 256 threads", 120, ratio("mcs", "mcs-spin", 256), "randarray 256"),
        Number("M4 peak", "§6.4: the inflection of stress_latency is at so many threads", 16, peak_at("mcs-spin"), "stress"),
    ]),
    Source("mctop, a second run of xeon-e7-8867l", "The first run has no figures of MCS and CLH with more threads than cores.", [
        Number(f"{name} {threads}", f"{name}, {threads} threads", rate, throughput(LIBSLOCK[name], threads), "westmere again", "M/s")
        for name, rates in (("MCS", (0.5318, 0.4661, 0.4439, 0.4311)), ("CLH", (0.4577, 0.4242, 0.4068, 0.4007)))
        for threads, rate in zip(AGAIN.threads, rates)]),
    Source("TWA, text to figures 3 and 4", "MutexBench ran on the simulated machines X5-2 and T7-2.", [
        Number("T3 ticket", "ticket is the best up to so many threads", 6, best_up_to("ticket-spin", ["twa-spin", "mcs-spin"]), "x5-2"),
        Number("T3 MCS", "MCS surpasses ticket at so many", 24, stays_below_from("ticket-spin", "mcs-spin"), "x5-2", fitted=TURN),
        Number("T4 drop", "T7-2: all locks drop abruptly from so many threads on", 256, drop_from(FEW), "t7-2"),
    ]),
    Source("CNA for Linux, locktorture", "On the simulated X5-4 the kernel's qspinlock runs locktorture. Its delays of 100 ms are too rare for a "
                                         "simulated run; their mean is added to the simulated time of an acquisition.", [
        Number(f"locktorture {threads}", f"{threads} thread{'s' * (threads != 1)}", round(1e7 * operations / 30 / 1e6, 4),
               with_long_delays(LINUX, threads), "locktorture", "M/s",
               spent="that the threads never pause between acquisitions was concluded from it" if threads == 1 else "")
        for threads, operations in LOCKTORTURE.items()]),
    Source("LiTL, MCSCR / MCS", "The programs are those of the papers, and none of LiTL's. So these numbers do not count among the held-out ones.",
           litl_numbers(), counted=False),
]

CURVES = [
    Curve("opteron", "opteron-6172", "lock_backoff_1_1000_lpd48core.txt", {
        "TAS": {6: 0.7397, 12: 0.4696, 24: 0.2439, 48: 0.1199},
        "TTAS": {6: 0.6536, 12: 0.4205, 24: 0.3498, 48: 0.1751},
        "TICKET": {6: 0.5063, 12: 0.3667, 24: 0.2287, 48: 0.1203},
        "MCS": {6: 0.7634, 12: 0.7381, 24: 0.7064, 48: 0.7012},
        "CLH": {6: 0.7128, 12: 0.6814, 24: 0.6471, 48: 0.6415},
    }),
    Curve("westmere", "xeon-e7-8867l", "lock_backoff_1_1000_diassrv8.txt", {
        "TAS": {20: 0.1457, 40: 0.0688, 60: 0.05016, 80: 0.03166, 100: 0.04077, 120: 0.02734, 140: 0.0259, 160: 0.02603},
        "TTAS": {20: 0.3889, 40: 0.1961, 60: 0.1215, 80: 0.09315, 100: 0.1046, 120: 0.1, 140: 0.09572, 160: 0.09219},
        "TICKET": {20: 0.4764, 40: 0.3111, 60: 0.2634, 80: 0.1898, 100: 0.1985, 120: 0.1668, 140: 0.1675, 160: 0.1655},
        "MCS": {20: 0.7755, 40: 0.6882, 60: 0.6666, 80: 0.6726},
        "CLH": {20: 0.6747, 40: 0.602, 60: 0.5747, 80: 0.5706},
    }),
    Curve("ivy", "xeon-e5-2680v2", "lock_backoff_1_1000_xeon.txt", {
        "TAS": {10: 1.452, 20: 0.6447, 30: 0.6291, 40: 0.6342},
        "TTAS": {10: 1.971, 20: 1.291, 30: 1.035, 40: 0.901},
        "TICKET": {10: 1.949, 20: 1.145, 30: 0.9986, 40: 0.9028},
        "MCS": {10: 2.113, 20: 1.597, 30: 1.215, 40: 1.005},
        "CLH": {10: 2.097, 20: 1.485, 30: 1.18, 40: 0.9823},
    }),
    Curve("haswell", "xeon-e7-4830v3", "lock_backoff_1_1000_quad.txt", {
        "TAS": {12: 1.011, 24: 0.3911, 36: 0.199, 48: 0.1336, 60: 0.1503, 72: 0.171, 84: 0.1852, 96: 0.193},
        "TTAS": {12: 1.448, 24: 0.9346, 36: 0.646, 48: 0.5454, 60: 0.508, 72: 0.5144, 84: 0.5325, 96: 0.5132},
        "TICKET": {12: 1.086, 24: 0.7091, 36: 0.6106, 48: 0.5337, 60: 0.5204, 72: 0.5084, 84: 0.496, 96: 0.486},
        "MCS": {12: 1.739, 24: 1.345, 36: 1.259, 48: 1.214, 60: 1.075, 72: 0.9507, 84: 0.8505, 96: 0.7918},
        "CLH": {12: 1.618, 24: 1.186, 36: 1.066, 48: 1.015, 60: 0.9748, 72: 0.866, 84: 0.7681, 96: 0.7105},
    }),
    Curve("sparc", "t4-4", "lock_backoff_1_1000_ol-collab1.txt", {
        "TAS": {32: 0.2751, 64: 0.2004, 96: 0.1587, 128: 0.1319, 160: 0.1041, 192: 0.09478, 224: 0.08738, 256: 0.07799},
        "TTAS": {32: 0.3778, 64: 0.2789, 96: 0.2238, 128: 0.1976, 160: 0.134, 192: 0.1232, 224: 0.1201, 256: 0.1074},
    }, ms=20, held_out=True),
]


def worst_of_all_to_one(most):
    return lambda p: max(p(lock, most) / p(lock, 1) for lock in LIBSLOCK.values())


def best_to_one(p):
    return max(max(p(lock, t) for t in p.counts()) / p(lock, 1) for lock in LIBSLOCK.values())


SENTENCES = [
    Sentence("S1", "Opteron: one lock's throughput degrades sharply with threads on several sockets. 48 threads / one, the best lock",
             "libslock opteron", worst_of_all_to_one(48), lambda v: v < 0.5, "< 0.5"),
    Sentence("S2", "Xeon: the same. 80 threads / one, the best lock", "libslock xeon", worst_of_all_to_one(80), lambda v: v < 0.5, "< 0.5"),
    Sentence("S3", "Niagara: it scales up to a point. The most / one thread, the best lock", "libslock niagara", best_to_one, lambda v: v > 1.2,
             "> 1.2"),
]
