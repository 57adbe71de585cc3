"""What each row of the claims ledger runs on the simulated machine, and what must be seen. Used by simulated_claims.py.

A figure is a number of one run (one seed, one jitter) over all points of the row; `holds` judges its median. A figure without it
is reported and not judged; so is one that a number of the machine was set for. "As good as" is within 10 %, as in the ledger.

Where what a machine does is not known, or a program's waiters may spin for longer or shorter, a row has several *forms*, each of which
runs everything and is judged for itself.
"""

from dataclasses import dataclass, field


@dataclass
class Sweep:
    workload: str
    machine: str
    locks: list
    threads: list
    settings: dict = field(default_factory=dict)
    ms: float = 2
    seeds: int = 5
    pinned: bool = False
    others: int = 0
    placement: str = ""  # compact, scattered, even, or a list of CPUs; if empty, the program's
    spin: int | None = None  # how long waiters spin that will sleep, in ns; if None, the machine's
    machine_settings: dict = field(default_factory=dict)  # section.key: value, as in the machine's file


@dataclass
class Form:
    """One way in which all sweeps of a row run. What a sweep says itself counts more."""

    name: str = ""
    machine_settings: dict = field(default_factory=dict)
    spin: int | None = None


@dataclass
class Forms:
    what: str = ""  # they are forms of
    all: list = field(default_factory=lambda: [Form()])
    jitters: tuple = (0.5, 1, 2)  # of the machine's, the usual one in the middle


@dataclass
class Figure:
    what: str
    of: object
    wanted: str = ""
    holds: object = None
    fitted: bool = False  # a number of the machine was set for it: shown, and no evidence


@dataclass
class Row:
    id: str
    title: str
    sweeps: list
    figures: list
    remark: str = ""
    fitted: str = ""
    forms: Forms = field(default_factory=Forms)
    unanswerable: str = ""  # a part of the claim: "what: because …"
    why: str = ""  # the verdict is another than in results/simulated/before.json


def at_least(limit):
    return lambda v: v >= limit


def at_most(limit):
    return lambda v: v <= limit


def within(low, high):
    return lambda v: low <= v <= high


def ratio(a, b, threads, of="throughput", sweep=0, sweep_b=None):
    return lambda p: p(a, threads, of, sweep) / p(b, threads, of, sweep if sweep_b is None else sweep_b)


def scaling(lock, threads, base, sweep=0):
    return lambda p: p(lock, threads, sweep=sweep) / p(lock, base, sweep=sweep)


def worst_ratio(a, b, least=1, most=10**6, sweep=0):
    return lambda p: min(p(a, t, sweep=sweep) / p(b, t, sweep=sweep) for t in p.counts(sweep) if least <= t <= most)


def largest_ratio(a, b, least=1, most=10**6, sweep=0):
    return lambda p: max(p(a, t, sweep=sweep) / p(b, t, sweep=sweep) for t in p.counts(sweep) if least <= t <= most)


def falls_below(a, b, sweep=0):
    """The number of threads from which on `a` stays below `b`; one more than the most if it never does."""

    def of(p):
        below = p.counts(sweep)[-1] + 1
        for t in reversed(p.counts(sweep)):
            if p(a, t, sweep=sweep) >= p(b, t, sweep=sweep):
                break
            below = t
        return below

    return of


def peak_at(lock, sweep=0):
    return lambda p: max(p.counts(sweep), key=lambda t: p(lock, t, sweep=sweep))


def peak(lock, p, sweep=0):
    return max(p(lock, t, sweep=sweep) for t in p.counts(sweep))


def skew(p, lock, threads, sweep=0):
    """How many acquisitions the first node had for one of the second."""
    nodes = {}
    for operations, socket in zip(p(lock, threads, "operations", sweep), p(lock, threads, "sockets", sweep)):
        nodes[socket] = nodes.get(socket, 0) + operations
    return nodes[0] / max(1, nodes[1])


def regulars(p, lock, sweep, of="throughput"):
    return p(lock, 224, "groups.regulars." + of, sweep)


def overtakings(p, lock, sweep):
    """Of regulars by regulars, an admission of one."""
    return regulars(p, lock, sweep, "bypasses") / max(1, regulars(p, lock, sweep) * 4000)


FEW = ["ticket-spin", "twa-spin", "mcs-spin"]
X5_2 = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 48, 60, 72]
NUMA = [1, 2, 4, 8, 14, 28, 56, 112, 168, 224]
T5 = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128]
CR = ["mcs-spin", "mcs", "mcscr-spin", "mcscr"]
NODE = ["mcs-node-spin", "mcsg-node-spin", "mcsg+-node-spin", "mcsg++-node-spin"]
POOL = [1, 8, 64, 512, 4096]

ROWS = [
    # ---- TWA ----
    Row("T1", [Sweep("invalidation", "x5-2", ["null"], [1, 2, 4, 8, 16, 36, 72])], [
        Figure("writer with 71 readers / with 1", lambda p: p("null", 72) / p("null", 2), "falls, < 0.7", at_most(0.7)),
        Figure("largest rise with more readers",
               lambda p: max(p("null", b) / p("null", a) for a, b in zip(p.counts(), p.counts()[1:])), "none, ≤ 1.02",
               at_most(1.02)),
        Figure("M/s alone", lambda p: p("null", 1)),
        Figure("M/s with 71 readers", lambda p: p("null", 72)),
    ], fitted="`per_sharer`, `per_read`: the slope is theirs, not that there is one"),
    Row("T2", [Sweep("interlock", "x5-2", ["twa-spin", "twa-private-spin"], [64], {"locks": n}, seeds=3) for n in POOL], [
        Figure("worst shared / private, pools of 1 to 4096 locks",
               lambda p: min(p("twa-spin", 64, sweep=i) / p("twa-private-spin", 64, sweep=i) for i in range(len(POOL))),
               "> 0.92", at_least(0.92)),
    ]),
    Row("T3", [Sweep("mutexbench", "x5-2", FEW + ["ttas-spin", "mcs-node-spin"], X5_2)], [
        Figure("ticket / the better of TWA and MCS, worst of 1–6 threads",
               lambda p: min(p("ticket-spin", t) / max(p("twa-spin", t), p("mcs-spin", t)) for t in [1, 2, 3, 4, 5, 6]),
               "best: ≥ 1", at_least(1)),
        Figure("TWA / ticket at 5", ratio("twa-spin", "ticket-spin", 5), "slightly behind, 0.9–1", within(0.9, 1)),
        Figure("ticket at 72 / at 5", scaling("ticket-spin", 72, 5), "fails to scale, < 0.85", at_most(0.85)),
        Figure("MCS, least / most from 5 on",
               lambda p: min(p("mcs-spin", t) for t in p.counts() if t >= 5) / max(p("mcs-spin", t) for t in p.counts() if t >= 5),
               "flat, ≥ 0.85", at_least(0.85)),
        Figure("ticket below MCS from", falls_below("ticket-spin", "mcs-spin"), "24 threads", fitted=True),
        Figure("TWA / MCS, worst of 1–72", worst_ratio("twa-spin", "mcs-spin"), "always ≥ 1", at_least(1)),
        Figure("the same from 3 on", worst_ratio("twa-spin", "mcs-spin", 3), "≥ 1", at_least(1)),
        Figure("TWA / MCS at 72", ratio("twa-spin", "mcs-spin", 72)),
        Figure("TWA / MCS whose callers keep the nodes, at 72", ratio("twa-spin", "mcs-node-spin", 72)),
    ], remark="Layout as in a pthread_mutex_t: ticket and grant on one line; MCS's tail and its holder's node on one line. Where callers keep "
              "the nodes MCS is ahead of TWA from 5 threads on.", fitted="`per_sharer`, `per_read` were set with a sketch for the place where ticket falls below MCS: that figure is not thereby "
              "reproduced"),
    Row("T4", [Sweep("mutexbench", "t7-2", FEW, [1, 4, 16, 64, 256, 384, 512], ms=20, seeds=2)], [
        Figure("ticket / the better of TWA and MCS at 4",
               lambda p: p("ticket-spin", 4) / max(p("twa-spin", 4), p("mcs-spin", 4)), "best, ≥ 1", at_least(1)),
        Figure("ticket below MCS from", falls_below("ticket-spin", "mcs-spin"), "at some count ≤ 512", at_most(512)),
        Figure("TWA / MCS, worst from 16 on", worst_ratio("twa-spin", "mcs-spin", 16), "≥ 1", at_least(1)),
        Figure("MCS at 256 / at 16", scaling("mcs-spin", 256, 16), "flat, ≥ 0.85", at_least(0.85)),
        Figure("at 512 / at 256, the best of the three", lambda p: max(p(l, 512) / p(l, 256) for l in FEW),
               "all drop abruptly, < 0.8", at_most(0.8)),
    ], remark="No drop: what is scarce in the model is the lock, and shared pipelines slow only what threads compute. Its place would rest on "
              "what a spinning strand weighs: 0.6 of a pipeline is assumed."),
    Row("T6", [Sweep("random-cache", "x5-2", FEW, [2, 4, 36, 72], ms=60, seeds=2)], [
        Figure("TWA / ticket at 2 and 4, the worse", lambda p: min(p("twa-spin", t) / p("ticket-spin", t) for t in [2, 4]),
               "like ticket, ≥ 0.9", at_least(0.9)),
        Figure("TWA / MCS at 36 and 72, the worse", lambda p: min(p("twa-spin", t) / p("mcs-spin", t) for t in [36, 72]),
               "on par or beyond, ≥ 0.9", at_least(0.9)),
        Figure("ticket at 72 / TWA", ratio("ticket-spin", "twa-spin", 72)),
    ], remark="The paper has a plot only: judged by its abstract."),
    Row("T7", [Sweep("stress-latency", "x5-2", FEW, X5_2)], [
        Figure("TWA / ticket, worst of 1–4", worst_ratio("twa-spin", "ticket-spin", 1, 4), "like ticket, ≥ 0.9", at_least(0.9)),
        Figure("TWA / MCS at 36 and 72, the worse", lambda p: min(p("twa-spin", t) / p("mcs-spin", t) for t in [36, 72]),
               "on par or beyond, ≥ 0.9", at_least(0.9)),
        Figure("ticket / TWA at 72", ratio("ticket-spin", "twa-spin", 72)),
    ], remark="The paper has a plot only: judged by its abstract."),
    Row("T11", [Sweep("mutexbench", "x5-2", ["ticket32-spin", "twa32-spin", "qspinlock-spin"], [1, 2, 4, 8, 16, 24, 36, 48, 72],
                      {"cs": 20, "ncs": n}) for n in (20, 400)], [
        Figure("ticket / the best at 2, worse of NCS 20 and 400",
               lambda p: min(p("ticket32-spin", 2, sweep=s) / max(p(l, 2, sweep=s) for l in ("twa32-spin", "qspinlock-spin"))
                             for s in (0, 1)), "good, ≥ 0.9", at_least(0.9)),
        Figure("ticket at 72 / at 4, better of both", lambda p: max(p("ticket32-spin", 72, sweep=s) / p("ticket32-spin", 4, sweep=s)
                                                                     for s in (0, 1)), "fades, < 0.95", at_most(0.95)),
        Figure("TWA / qspinlock from 8 on, worst of both", lambda p: min(
            p("twa32-spin", t, sweep=s) / p("qspinlock-spin", t, sweep=s) for s in (0, 1) for t in p.counts() if t >= 8),
               "≈ or slightly better, 0.9–1.25", within(0.9, 1.25)),
    ], remark="A step of the torture generator is taken for one of the PRNG; the kernel's own run is another row's."),
    Row("T13", [Sweep("mutexbench", "x5-2", ["ticket-spin", "tkt-dual-spin", "twa-spin"], [24, 36, 48, 72])], [
        Figure("TKT-Dual / ticket, worst of 24–72", worst_ratio("tkt-dual-spin", "ticket-spin"), "above, > 1", at_least(1)),
        Figure("TKT-Dual / TWA, best of 24–72", largest_ratio("tkt-dual-spin", "twa-spin"), "slightly below, 0.9–1", within(0.9, 1)),
        Figure("TKT-Dual / TWA at 72", ratio("tkt-dual-spin", "twa-spin", 72)),
    ]),
    Row("T14", [Sweep("mutexbench", "x5-2", ["ticket-spin", "twa-spin", "twa-staged-spin"], [1, 4, 16, 36, 72])], [
        Figure("uncontended, staged / ticket", ratio("twa-staged-spin", "ticket-spin", 1), "≥ 0.97", at_least(0.97)),
        Figure("unlock at 72, staged / ticket (mean ns)", ratio("twa-staged-spin", "ticket-spin", 72, "unlock_ns.mean"),
               "no array in it, ≤ 1.1", at_most(1.1)),
        Figure("unlock at 72, staged / TWA (mean ns)", ratio("twa-staged-spin", "twa-spin", 72, "unlock_ns.mean")),
        Figure("throughput at 72, staged / TWA", ratio("twa-staged-spin", "twa-spin", 72)),
    ], remark="Who watches grant, and that unlock refers to no array: tests of the compiled code."),
    Row("T15", [Sweep("mutexbench", "x5-2", ["ticket-spin", "twa-spin", "twa-id-spin"], [1, 4, 16, 36, 72])], [
        Figure("TWA-ID / TWA at 72", ratio("twa-id-spin", "twa-spin", 72)),
        Figure("unlock at 72, TWA-ID / TWA (mean ns)", ratio("twa-id-spin", "twa-spin", 72, "unlock_ns.mean")),
    ], remark="Claim about code: a test of the compiled code. Here is what it is worth."),
    Row("T16", [Sweep("mutexbench", "x5-2", ["twa-spin", "twa-quantized-spin", "twa-gang-16-spin"], [24, 36, 72])], [
        Figure("unlock at 72, gangs of 4 / TWA (mean ns)", ratio("twa-quantized-spin", "twa-spin", 72, "unlock_ns.mean"),
               "cheaper, < 1", at_most(1)),
        Figure("looks an admission at 72, gangs of 4 / TWA",
               lambda p: p("twa-quantized-spin", 72, "looks") / p("twa-quantized-spin", 72, "admissions")
               / (p("twa-spin", 72, "looks") / p("twa-spin", 72, "admissions")), "more global spinning, > 1", at_least(1)),
        Figure("throughput at 72, gangs of 4 / TWA", ratio("twa-quantized-spin", "twa-spin", 72)),
        Figure("throughput at 72, gangs of 16 / TWA", ratio("twa-gang-16-spin", "twa-spin", 72)),
    ], remark="No figure in the paper."),
    Row("T17", [Sweep("mutexbench", "x5-2", ["twa-spin", "three-stage-spin", "three-stage-try-spin", "mcs-spin"], [1, 4, 16, 36, 72])], [
        Figure("three-stage / TWA at 72", ratio("three-stage-spin", "twa-spin", 72)),
        Figure("overtakings at 72", lambda p: p("three-stage-spin", 72, "bypasses") / p("three-stage-spin", 72, "admissions"),
               "FIFO if A is, ≤ 0.002", at_most(0.002)),
    ]),
    Row("T18", [Sweep("mutexbench", "x5-2", ["twa-spin", "twa-chain-spin", "mcs-spin"], [4, 16, 36, 72])], [
        Figure("chains / TWA at 72", ratio("twa-chain-spin", "twa-spin", 72)),
    ], remark="No figure in the paper."),
    Row("T19", [Sweep("ideal", m, ["null"], t, seeds=1) for m, t in (("x5-2", [1, 18, 36, 48, 72]), ("t7-2", [1, 64, 128, 256, 512]))], [
        Figure("a thread, X5-2 with 36 threads / with 1", lambda p: p("null", 36) / p("null", 1) / 36, "1", within(0.99, 1.01)),
        Figure("a thread, X5-2 with 72 threads / with 1", lambda p: p("null", 72) / p("null", 1) / 72, "below 1", at_most(0.95)),
        Figure("a thread, T7-2 with 512 threads / with 1", lambda p: p("null", 512, sweep=1) / p("null", 1, sweep=1) / 512,
               "below 1", at_most(0.95)),
    ], remark="Shared pipelines are an assumption of the machine (`slowed_by_work`, `pipelines`), so this shows that they are there. "
              "Turbo is not modelled."),
    Row("T21", [Sweep("mutexbench", "x5-2", ["twa-spin", "twa-near-2-spin", "twa-near-4-spin", "twa-near-8-spin"],
                      [2, 4, 8, 16, 24, 36, 48, 72])], [
        Figure("threshold 1 / the best of 1, 2, 4, 8, worst count", lambda p: min(
            p("twa-spin", t) / max(p(l, t) for l in ("twa-spin", "twa-near-2-spin", "twa-near-4-spin", "twa-near-8-spin"))
            for t in p.counts()), "within 10 %, ≥ 0.9", at_least(0.9)),
    ]),
    Row("T22", [Sweep("mutexbench", "x5-2", FEW, [1, 2, 3, 4], {"ncs": n}) for n in (200, 2000)], [
        Figure("TWA / ticket, worst of 1–4, NCS 200 and 2000", lambda p: min(
            p("twa-spin", t, sweep=s) / p("ticket-spin", t, sweep=s) for s in (0, 1) for t in p.counts()),
               "comparable, ≥ 0.9", at_least(0.9)),
        Figure("MCS / ticket at 4, NCS 200", ratio("mcs-spin", "ticket-spin", 4), "often behind, < 1", at_most(1)),
        Figure("MCS / TWA at 4, NCS 200", ratio("mcs-spin", "twa-spin", 4), "often behind, < 1", at_most(1)),
    ]),
    Row("T23", [Sweep("mutexbench", "x5-2", ["ticket-spin", "ticket-xadd-spin"], [1, 2, 4, 8, 16, 36, 72])], [
        Figure("xadd / ticket, least", worst_ratio("ticket-xadd-spin", "ticket-spin"), "no appreciable change, ≥ 0.9", at_least(0.9)),
        Figure("xadd / ticket, most", largest_ratio("ticket-xadd-spin", "ticket-spin"), "≤ 1.1", at_most(1.1)),
    ]),
    Row("T25", [Sweep("mutexbench", "x5-2", ["twa-spin", "twa-adjacent-spin"], [8, 16, 36, 72]),
                Sweep("interlock", "x5-2", ["twa-spin", "twa-unsalted-spin"], [64], {"locks": 4, "cs": 4, "ncs": 4})], [
        Figure("neighbouring slots / the hash at 72", ratio("twa-adjacent-spin", "twa-spin", 72), "worse, < 0.97", at_most(0.97)),
        Figure("without the lock in the hash / with it, 4 locks", ratio("twa-unsalted-spin", "twa-spin", 64, sweep=1),
               "worse where they run entrained, < 0.97", at_most(0.97)),
    ]),
    Row("T28", [Sweep("mutexbench", "x5-2", ["ticket-spin", "ticket-backoff-spin", "partitioned-ticket-spin", "anderson-spin",
                                              "qspinlock-spin", "mcs-spin", "twa-spin"], [1, 4, 16, 36, 72])], [
        Figure("events an admission at 72, back-off / ticket", lambda p: (
            p("ticket-backoff-spin", 72, "events") / p("ticket-backoff-spin", 72, "admissions")
            / (p("ticket-spin", 72, "events") / p("ticket-spin", 72, "admissions"))), "fewer polls, < 1", at_most(1)),
        Figure("qspinlock / MCS, best of 16–72", largest_ratio("qspinlock-spin", "mcs-spin", 16), "below, < 1", at_most(1)),
        Figure("TWA / partitioned ticket at 72", ratio("twa-spin", "partitioned-ticket-spin", 72)),
        Figure("TWA / Anderson at 72", ratio("twa-spin", "anderson-spin", 72)),
    ], remark="Footprints and the thread bound are static."),
    # ---- MCSg ----
    Row("G1", [Sweep("mcsg-loop", "e7-4890", NODE + ["k42-spin", "k42-tls-spin", "clh-node-spin", "clh-tls-spin", "ttas-spin"], NUMA,
                     ms=4)], [
        Figure("MCSg / MCS, worst count", worst_ratio("mcsg-node-spin", "mcs-node-spin"), "≈, ≥ 0.9", at_least(0.9)),
        Figure("MCSg+ / MCS, worst count", worst_ratio("mcsg+-node-spin", "mcs-node-spin"), "≈, ≥ 0.9", at_least(0.9)),
        Figure("MCSg++ / MCS, worst count", worst_ratio("mcsg++-node-spin", "mcs-node-spin"), "≈, ≥ 0.9", at_least(0.9)),
        Figure("CLH / MCS at 224", ratio("clh-node-spin", "mcs-node-spin", 224), "below, < 1", at_most(1)),
        Figure("CLH / MCS at 28", ratio("clh-node-spin", "mcs-node-spin", 28), "much closer, 0.9–1.1", within(0.9, 1.1)),
        Figure("K42 / MCS at 224", ratio("k42-spin", "mcs-node-spin", 224), "below, < 1", at_most(1)),
        Figure("K42 / MCS at 28 over the same at 224",
               lambda p: p("k42-spin", 28) / p("mcs-node-spin", 28) / (p("k42-spin", 224) / p("mcs-node-spin", 224)),
               "much closer, > 1.3", at_least(1.3)),
        Figure("K42-TLS / K42, least from 2 to 28", worst_ratio("k42-tls-spin", "k42-spin", 2, 28), "10–20 % below, 0.8–0.9",
               within(0.8, 0.9)),
        Figure("CLH-TLS / CLH at 224", ratio("clh-tls-spin", "clh-node-spin", 224), "follows, 0.8–1.2", within(0.8, 1.2)),
        Figure("TATAS at 224 / at 14", scaling("ttas-spin", 224, 14), "does not scale, < 0.2", at_most(0.2)),
        Figure("MCS at 224, M/s", lambda p: p("mcs-node-spin", 224), "1.77"),
    ], remark="Callers keep the nodes of the MCS family, as in the paper. Our two K42s differ in where nodes come from, and that costs nothing "
              "simulated.",
        fitted="`per_sharer`, `per_read`"),
    Row("G2", [Sweep("mcsg-loop", "e7-4890", ["mcs-node-spin"], [224], ms=4),
               Sweep("mcsg-loop", "e7-4890", ["mcsg-node-spin", "mcsg++-node-spin"], [224], {"guests": 1}, ms=4),
               Sweep("mcsg-loop", "e7-4890", ["k42-spin", "clh-tls-spin"], [224], ms=4)], [
        Figure("MCSg's regulars with a guest / MCS", lambda p: regulars(p, "mcsg-node-spin", 1) / p("mcs-node-spin", 224),
               "≈, ≥ 0.9", at_least(0.9)),
        Figure("MCSg++'s regulars with a guest / MCS", lambda p: regulars(p, "mcsg++-node-spin", 1) / p("mcs-node-spin", 224),
               "slightly lower, 0.85–1", within(0.85, 1)),
        Figure("K42 / MCS", lambda p: p("k42-spin", 224, sweep=2) / p("mcs-node-spin", 224), "lower, < 1", at_most(1)),
        Figure("CLH-TLS / MCS", lambda p: p("clh-tls-spin", 224, sweep=2) / p("mcs-node-spin", 224), "lower, < 1", at_most(1)),
    ], remark="K42 and CLH-TLS need no node from their callers: all of their threads are guests in the paper's sense."),
    Row("G4", [Sweep("mcsg-loop", "e7-4890", ["mcs-node-spin", "mcsg-node-spin", "mcsg++-node-spin", "c-mcsg-mcs-spin"], [224, 240],
                     ms=4)], [
        Figure("C-MCSg-MCS / MCS at 224", ratio("c-mcsg-mcs-spin", "mcs-node-spin", 224), "2.8–3, within 2.5–3.3", within(2.5, 3.3)),
        Figure("C-MCSg-MCS / MCS at 240", ratio("c-mcsg-mcs-spin", "mcs-node-spin", 240), "2.8–3, within 2.5–3.3", within(2.5, 3.3)),
        Figure("mean wait at 224, µs: C-MCSg-MCS", lambda p: p("c-mcsg-mcs-spin", 224, "wait_ns.mean") / 1000, "43"),
        Figure("mean wait at 224, µs: MCS", lambda p: p("mcs-node-spin", 224, "wait_ns.mean") / 1000, "120–130"),
        Figure("MCSg++ / MCS at 224", ratio("mcsg++-node-spin", "mcs-node-spin", 224), "≈, ≥ 0.9", at_least(0.9)),
    ]),
    Row("G5", [Sweep("mcsg-loop", "e7-4890", ["mcsg-node-spin", "mcsg+-node-spin", "mcsg++-node-spin"], [224], {"guests": 1}, ms=20),
               Sweep("mcsg-loop", "e7-4890", ["k42-spin"], [224], ms=20)], [
        Figure("MCSg's guest: acquisitions in 20 ms", lambda p: p("mcsg-node-spin", 224, "groups.guests.throughput") * 20000,
               "a few in 10 s, ≤ 5", at_most(5)),
        Figure("mean wait of MCSg's guest / MCSg+'s (censored)",
               lambda p: p("mcsg-node-spin", 224, "groups.guests.wait_ns.mean") / p("mcsg+-node-spin", 224, "groups.guests.wait_ns.mean"),
               "orders of magnitude, ≥ 100", at_least(100)),
        Figure("mean wait of MCSg's guest / MCSg++'s (censored)",
               lambda p: p("mcsg-node-spin", 224, "groups.guests.wait_ns.mean") / p("mcsg++-node-spin", 224, "groups.guests.wait_ns.mean"),
               "orders of magnitude, ≥ 100", at_least(100)),
        Figure("MCSg++'s guest, mean wait in µs", lambda p: p("mcsg++-node-spin", 224, "groups.guests.wait_ns.mean") / 1000),
        Figure("K42, mean wait / MCSg++'s guest",
               lambda p: p("k42-spin", 224, "wait_ns.mean", 1) / p("mcsg++-node-spin", 224, "groups.guests.wait_ns.mean"),
               "high, > 10", at_least(10)),
    ], remark="A guest that never gets in has waited for the whole run: a lower bound."),
    Row("G6", [Sweep("mcsg-loop", "e7-4890", ["mcsg-node-spin", "mcsg+-node-spin", "mcsg++-node-spin"], [224], {"guests": g}, ms=4)
               for g in (0, 1, 8, 32, 112)] + [Sweep("mcsg-loop", "e7-4890", ["k42-spin", "clh-tls-spin"], [224], ms=4)], [
        Figure("total with 112 guests / none: MCSg", lambda p: p("mcsg-node-spin", 224, sweep=4) / p("mcsg-node-spin", 224),
               "steady, ≥ 0.8", at_least(0.8)),
        Figure("the same: MCSg+", lambda p: p("mcsg+-node-spin", 224, sweep=4) / p("mcsg+-node-spin", 224), "falls, < 0.8", at_most(0.8)),
        Figure("the same: MCSg++", lambda p: p("mcsg++-node-spin", 224, sweep=4) / p("mcsg++-node-spin", 224), "falls, < 0.8",
               at_most(0.8)),
        Figure("guests' throughput MCSg++ / MCSg+, least of 1–112 guests",
               lambda p: min(p("mcsg++-node-spin", 224, "groups.guests.throughput", s)
                             / max(1e-9, p("mcsg+-node-spin", 224, "groups.guests.throughput", s)) for s in (1, 2, 3, 4)),
               "consistently above, ≥ 1", at_least(1)),
        Figure("guests' throughput MCSg / MCSg+ with 32", lambda p: p("mcsg-node-spin", 224, "groups.guests.throughput", 3)
               / p("mcsg+-node-spin", 224, "groups.guests.throughput", 3), "poor, < 0.1", at_most(0.1)),
        Figure("regulars' throughput with 32 guests, MCSg++ / MCSg+",
               lambda p: p("mcsg++-node-spin", 224, "groups.regulars.throughput", 3)
               / p("mcsg+-node-spin", 224, "groups.regulars.throughput", 3), "falls faster, < 1", at_most(1)),
    ], remark="K42 and CLH-TLS take every thread alike, so they are steady here by construction."),
    Row("G7", [Sweep("mcsg-loop", "e7-4890", ["mcsg+-node-spin", "mcsg++-node-spin"], [224], {"guests": g}, ms=4) for g in (8, 32, 112)], [
        Figure(f"overtakings among regulars, of their admissions, with {g} guests: MCSg++ / MCSg+", lambda p, i=i: (
            overtakings(p, "mcsg++-node-spin", i) / max(1e-9, overtakings(p, "mcsg+-node-spin", i))),
               "50–70 % fewer, 0.3–0.5", within(0.3, 0.5)) for i, g in enumerate((8, 32, 112))
    ], remark="An overtaking here is an admission while another regular waited who had come 5 µs earlier; the paper counts group "
              "leaders only."),
    Row("G9", [Sweep("mcsg-loop", "e7-4890", ["mcsg-node-spin", "mcs-node-spin"], [1, 28, 224], ms=4)], [
        Figure("MCSg / MCS without guests at 1", ratio("mcsg-node-spin", "mcs-node-spin", 1), "the common case as fast, ≥ 0.98",
               at_least(0.98)),
        Figure("the same at 224", ratio("mcsg-node-spin", "mcs-node-spin", 224), "≥ 0.98", at_least(0.98)),
    ], remark="Whether a regular peeks before its first swap is in the code; back-off of guests is G5's."),
    Row("G14", [Sweep("mcsg-loop", "e7-4890", ["c-mcsg-mcs-spin", "c-bo-mcsg++-spin"], [224], {"guests": g}, ms=4) for g in (1, 224)], [
        Figure("C-MCSg-MCS: a guest's acquisitions in 4 ms", lambda p: p("c-mcsg-mcs-spin", 224, "groups.guests.throughput") * 4000),
        Figure("C-BO-MCSg++: a guest's acquisitions in 4 ms", lambda p: p("c-bo-mcsg++-spin", 224, "groups.guests.throughput") * 4000,
               "admits guests, > 0", at_least(1)),
        Figure("all users as guests, C-MCSg-MCS, M/s", lambda p: p("c-mcsg-mcs-spin", 224, sweep=1), "works, > 0", at_least(0.001)),
        Figure("all users as guests, C-BO-MCSg++, M/s", lambda p: p("c-bo-mcsg++-spin", 224, sweep=1), "works, > 0", at_least(0.001)),
    ]),
    # ---- Malthusian ----
    Row("M1", [Sweep("randarray", "t5", CR + ["null"], T5, ms=20, seeds=3),
               Sweep("randarray", "t5", CR + ["null"], [160, 256], ms=100, seeds=3)], [
        Figure("MCS-S peaks at", peak_at("mcs-spin"), "near 5, 4–6", within(4, 6)),
        Figure("peak / one thread", lambda p: peak("mcs-spin", p) / p("mcs-spin", 1), "slightly more than 3", fitted=True),
        Figure("MCS-S at 8 / its peak", lambda p: p("mcs-spin", 8) / peak("mcs-spin", p), "falls from 6, < 0.97", at_most(0.97)),
        Figure("MCS-S at 16 / MCSCR-S", ratio("mcs-spin", "mcscr-spin", 16), "has parted, at about 8: < 0.9", at_most(0.9)),
        Figure("MCSCR-S at 64 / at 16", scaling("mcscr-spin", 64, 16), "fades from 16, < 0.9", at_most(0.9)),
        Figure("MCS-S at 160 / at 128", lambda p: p("mcs-spin", 160, sweep=1) / p("mcs-spin", 128), "cliff, < 0.2", at_most(0.2)),
        Figure("MCSCR-S at 160 / at 128", lambda p: p("mcscr-spin", 160, sweep=1) / p("mcscr-spin", 128), "cliff, < 0.2", at_most(0.2)),
        Figure("MCSCR-STP at 256 / at 128", lambda p: p("mcscr", 256, sweep=1) / p("mcscr", 128), "holds, ≥ 0.9", at_least(0.9)),
        Figure("MCSCR-STP / null at 64", ratio("mcscr", "null", 64), "above beyond 48, > 1", at_least(1)),
        Figure("MCS-STP / MCS-S at 256", ratio("mcs", "mcs-spin", 256, sweep=1), "120, within 40–360", within(40, 360)),
        Figure("MCS-STP / MCS-S at 8", ratio("mcs", "mcs-spin", 8), "poor, < 0.5", at_most(0.5)),
    ], fitted="`access` (one thread's rate), `miss` and the wake-up latency (MCSCR)"),
    Row("M2", [Sweep("randarray", "t5", CR, [32], ms=200, seeds=3)], [
        Figure("throughput MCS-S, M/s", lambda p: p("mcs-spin", 32), "0.7"),
        Figure("MCS-STP", lambda p: p("mcs", 32), "0.1"),
        Figure("MCSCR-S", lambda p: p("mcscr-spin", 32), "1.3"),
        Figure("MCSCR-STP", lambda p: p("mcscr", 32), "1.6"),
        Figure("MCSCR-S / MCS-S", ratio("mcscr-spin", "mcs-spin", 32), "1.9, > 1.2", at_least(1.2)),
        Figure("MCSCR-STP / MCSCR-S", ratio("mcscr", "mcscr-spin", 32), "1.2, > 1", at_least(1)),
        Figure("LWSS MCS-S", lambda p: p("mcs-spin", 32, "lwss"), "32", within(31, 32)),
        Figure("LWSS MCSCR-S", lambda p: p("mcscr-spin", 32, "lwss"), "5.3", fitted=True),
        Figure("LWSS MCSCR-STP", lambda p: p("mcscr", 32, "lwss"), "5.1", fitted=True),
        Figure("MTTR MCS-S", lambda p: p("mcs-spin", 32, "mttr"), "31", within(31, 31)),
        Figure("MTTR MCSCR-S", lambda p: p("mcscr-spin", 32, "mttr"), "3, 2–5", within(2, 5)),
        Figure("MTTR MCSCR-STP", lambda p: p("mcscr", 32, "mttr"), "3, 2–5", within(2, 5)),
        Figure("Gini MCSCR-S", lambda p: p("mcscr-spin", 32, "gini"), "0.076 over 10 s"),
        Figure("voluntary switches a second MCS-STP", lambda p: p("mcs", 32, "voluntary_switches") * 5, "80 thousand"),
        Figure("voluntary switches a second MCSCR-STP", lambda p: p("mcscr", 32, "voluntary_switches") * 5, "600"),
        Figure("CPUs MCS-STP", lambda p: p("mcs", 32, "cpus_used"), "16.8"),
        Figure("CPUs MCSCR-STP", lambda p: p("mcscr", 32, "cpus_used"), "5.2, 4–7", within(4, 7)),
        Figure("CPUs MCSCR-STP / its LWSS", lambda p: p("mcscr", 32, "cpus_used") / p("mcscr", 32, "lwss"), "≈ 1, 0.7–1.3", within(0.7, 1.3)),
        Figure("misses an operation MCS-S / MCSCR-S", lambda p: p("mcs-spin", 32, "misses") / p("mcs-spin", 32)
               / (p("mcscr-spin", 32, "misses") / p("mcscr-spin", 32)), "130 (11 M/0.7 against 152 K/1.3), > 10", at_least(10)),
        Figure("MCS-S: of displaced lines, another CPU's", lambda p: p("mcs-spin", 32, "displaced_others")
               / (p("mcs-spin", 32, "displaced_others") + p("mcs-spin", 32, "displaced_own")), "extrinsic", at_least(0.5)),
    ], remark="Watts need a meter.", fitted="`miss`, `access`, the wake-up latency"),
    Row("M3", [Sweep("ringwalker", "t5", CR, [1, 4, 8, 12, 16, 20, 24, 32, 64], {"elements": e}, seeds=3) for e in (50, 20)], [
        Figure("MCS-S: TLB misses an operation at 12", lambda p: p("mcs-spin", 12, "tlb_misses") / p("mcs-spin", 12) / 2000, "none, < 1",
               at_most(1)),
        Figure("MCS-S: at 24", lambda p: p("mcs-spin", 24, "tlb_misses") / p("mcs-spin", 24) / 2000, "many, > 5", at_least(5)),
        Figure("MCS-S at 20 / at 16", scaling("mcs-spin", 20, 16), "bends at 16, < 0.95", at_most(0.95)),
        Figure("MCS-STP at 20 / at 16", scaling("mcs", 20, 16), "bends at 16, < 0.95", at_most(0.95)),
        Figure("MCS-STP at 16 / at 12", scaling("mcs", 16, 12), "not before, > 0.95", at_least(0.95)),
        Figure("MCSCR-S at 20 / at 16", scaling("mcscr-spin", 20, 16), "does not, > 0.95", at_least(0.95)),
        Figure("20 elements: TLB misses an operation at 24", lambda p: p("mcs-spin", 24, "tlb_misses", 1) / p("mcs-spin", 24, sweep=1)
               / 2000, "fewer elements move the bend right, < 1", at_most(1)),
    ]),
    Row("M4", [Sweep("stress-latency", "t5", CR, [1, 2, 4, 8, 12, 16, 20, 24, 32, 64, 128], ms=5, seeds=3)], [
        Figure("MCS-S peaks at", peak_at("mcs-spin"), "16, 12–20", within(12, 20)),
        Figure("MCS-S at 32 / at 16", scaling("mcs-spin", 32, 16), "falls, < 0.95", at_most(0.95)),
    ], remark="That a strand alone on its core is faster by 1.3 is assumed; the paper says only that the pipelines fuse."),
    Row("M13", [Sweep("randarray", "t5", ["mcscr", "loiter", "lifo-cr", "mcs"], [8, 16, 32, 64], ms=40, seeds=3)], [
        Figure("LOITER / MCSCR at 32", ratio("loiter", "mcscr", 32), "approximately, ≥ 0.9", at_least(0.9)),
        Figure("LIFO-CR / MCSCR at 32", ratio("lifo-cr", "mcscr", 32), "approximately, ≥ 0.9", at_least(0.9)),
        Figure("LWSS LOITER at 32", lambda p: p("loiter", 32, "lwss")),
        Figure("LWSS LIFO-CR at 32", lambda p: p("lifo-cr", 32, "lwss")),
    ], remark="No figure in the paper."),
    Row("M14", [Sweep("mutexbench", "x5-2", ["mcscrn-spin", "c-ptl-tkt-spin", "mcscr-spin", "mcs-spin"], [4, 16, 36, 72])], [
        Figure("MCSCRN / C-PTL-TKT, worst of 16–72", worst_ratio("mcscrn-spin", "c-ptl-tkt-spin", 16), "≥ 1", at_least(1)),
        Figure("hand-overs between nodes, MCSCRN at 72", lambda p: p("mcscrn-spin", 72, "between_sockets") / p("mcscrn-spin", 72, "admissions"),
               "converges to the home node, < 0.1", at_most(0.1)),
        Figure("the same, C-PTL-TKT", lambda p: p("c-ptl-tkt-spin", 72, "between_sockets") / p("c-ptl-tkt-spin", 72, "admissions")),
        Figure("mean unlock at 72, ns: MCSCRN", lambda p: p("mcscrn-spin", 72, "unlock_ns.mean")),
        Figure("C-PTL-TKT", lambda p: p("c-ptl-tkt-spin", 72, "unlock_ns.mean")),
    ], remark="No figure in the paper; its size is static. Critical sections are so short here that what unlock does with its lists, in lines "
              "that others have just written, is most of a hand-over; MCSCR loses against MCS for the same reason."),
    Row("M16", [Sweep("stress-latency", "t5", ["mcs-spin", "mcscr-spin", "lifo-cr-spin", "mcscr", "mcs"], [32], ms=10, seeds=3),
                Sweep("stress-latency", "x5-2", ["mcs-spin", "mcscrn-spin"], [36], ms=5, seeds=3)], [
        Figure("longest hand-over while somebody waits, µs: MCSCR-S", lambda p: p("mcscr-spin", 32, "hand_over_ns.longest") / 1000,
               "none on purpose, ≤ 10", at_most(10)),
        Figure("LIFO-CR-S", lambda p: p("lifo-cr-spin", 32, "hand_over_ns.longest") / 1000, "≤ 10", at_most(10)),
        Figure("MCSCRN-S on two sockets", lambda p: p("mcscrn-spin", 36, "hand_over_ns.longest", 1) / 1000, "≤ 10", at_most(10)),
        Figure("MCS-S", lambda p: p("mcs-spin", 32, "hand_over_ns.longest") / 1000),
        Figure("MCSCR-STP, which must wake", lambda p: p("mcscr", 32, "hand_over_ns.longest") / 1000),
    ], remark="The argument is in the headers; a checker's client looks for a set of sleepers with nobody to run."),
    Row("M17", [Sweep("stress-latency", "t5", ["mcs-spin", "mcscr-spin", "mcs", "mcscr"], [1, 2, 3, 4], {"cs": 100}, ms=5, seeds=3),
                Sweep("stress-latency", "t5", ["mcs-spin", "mcscr-spin", "mcs", "mcscr"], [32], ms=20, seeds=3),
                Sweep("mutexbench", "x5-2", ["mcs-spin", "mcscr-spin"], [72], seeds=3)], [
        Figure("MCSCR-S / MCS-S, worst of 1–4", worst_ratio("mcscr-spin", "mcs-spin"), "equal below saturation, ≥ 0.95", at_least(0.95)),
        Figure("MCSCR-STP / MCS-STP, worst of 1–4", worst_ratio("mcscr", "mcs"), "≥ 0.95", at_least(0.95)),
        Figure("saturated, delay loops, 32 threads: MCSCR-S / MCS-S", ratio("mcscr-spin", "mcs-spin", 32, sweep=1),
               "unaffected or better, ≥ 0.9", at_least(0.9)),
        Figure("the same, parking: MCSCR-STP / MCS-STP", ratio("mcscr", "mcs", 32, sweep=1), "≥ 0.9", at_least(0.9)),
        Figure("saturated, MutexBench on X5-2, 72 threads: MCSCR-S / MCS-S", ratio("mcscr-spin", "mcs-spin", 72, sweep=2), "≥ 0.9",
               at_least(0.9)),
    ], remark="With critical sections of tens or hundreds of cycles and nothing in the caches to save, what MCSCR's unlock does with its lists "
              "costs more than it brings."),
    Row("M18", [Sweep("stress-latency", "t5", ["mcscr-spin", "mcscr", "lifo-spin", "lifo-cr-spin"], [10], {"cs": 3600, "ncs": 18000}, ms=50,
                      seeds=3),
                Sweep("stress-latency", "t5", ["mcscr-spin", "mcscr", "lifo-spin"], [16], {"cs": 3600, "ncs": 14400}, ms=50, seeds=3)], [
        Figure("active set, 10 threads, NCS 5 CS: MCSCR-S", lambda p: p("mcscr-spin", 10, "lwss"), "6, 5–8", within(5, 8)),
        Figure("MCSCR-STP", lambda p: p("mcscr", 10, "lwss"), "6, 5–8", within(5, 8)),
        Figure("active set, 16 threads, NCS 4 CS: MCSCR-S", lambda p: p("mcscr-spin", 16, "lwss", 1), "5, 4–7", within(4, 7)),
        Figure("LIFO-S, NCS 4 CS", lambda p: p("lifo-spin", 16, "lwss", 1), "the least"),
        Figure("LIFO-S / MCSCR-S", lambda p: p("lifo-spin", 16, "lwss", 1) / p("mcscr-spin", 16, "lwss", 1), "the least, ≤ 1", at_most(1)),
    ]),
    Row("M19", [Sweep("mutexbench", "t5", ["mcs-spin", "mcscr-spin"], [1, 2], ms=2, seeds=3)], [
        Figure("MCSCR / MCS alone", ratio("mcscr-spin", "mcs-spin", 1), "the lock path is MCS's, ≥ 0.95", at_least(0.95)),
    ], remark="The shape itself is in the header and its tests."),
    Row("M20", [Sweep("stress-latency", "t5", ["mcs-spin", "mcs-yield", "mcs-sleep", "mcs-park", "mcs", "mcscr-yield", "mcscr-sleep",
                                               "mcscr-park", "mcscr", "mcs-mwait"], [160], ms=50, seeds=3)], [
        Figure("MCS at 160: yield / park", ratio("mcs-yield", "mcs-park", 160), "worse, < 1", at_most(1)),
        Figure("MCS at 160: sleep / park", ratio("mcs-sleep", "mcs-park", 160), "worse, < 1", at_most(1)),
        Figure("MCSCR at 160: yield / spin-then-park", ratio("mcscr-yield", "mcscr", 160), "worse, < 1", at_most(1)),
        Figure("MCSCR at 160: sleep / spin-then-park", ratio("mcscr-sleep", "mcscr", 160), "worse, < 1", at_most(1)),
        Figure("MCS at 160: spin / park", ratio("mcs-spin", "mcs-park", 160), "worse, < 1", at_most(1)),
    ], remark="The limit of spinning is the paper's 20000 cycles. A monitor instruction is a spin loop here."),
    Row("M21", [Sweep("stress-latency", "t5", ["mcs-spin", "mcs", "lifo-spin", "lifo", "ttas-spin"], [1, 32, 64], ms=20, seeds=3),
                Sweep("stress-latency", "t5", ["mcs-spin", "ttas-spin"], [160], ms=100, seeds=2)], [
        Figure("MCS at 64: spin-then-park / spin", ratio("mcs", "mcs-spin", 64), "hurts direct hand-over, < 0.9", at_most(0.9)),
        Figure("LIFO at 64: spin-then-park / spin", ratio("lifo", "lifo-spin", 64), "suits LIFO order, ≥ 0.9", at_least(0.9)),
        Figure("alone: MCS / TTAS", ratio("mcs-spin", "ttas-spin", 1), "latency: TAS preferred, ≤ 1", at_most(1)),
        Figure("contended, 32 spinning: MCS / TTAS", ratio("mcs-spin", "ttas-spin", 32), "throughput: MCS preferred, > 1", at_least(1)),
        Figure("preempted, 160 spinning: MCS / TTAS", ratio("mcs-spin", "ttas-spin", 160, sweep=1), "MCS suffers, < 0.5", at_most(0.5)),
        Figure("Gini at 32: TTAS over MCS", lambda p: p("ttas-spin", 32, "gini") - p("mcs-spin", 32, "gini"), "unfair, > 0.005", at_least(0.005)),
    ], remark="LIFO that parks has two states: with up to 32 threads it is as fast as LIFO that spins, as those who circulate hardly sleep; from 40 "
              "on (`--threads 32,40,48`) they do, and it stays at a third."),
    Row("M23", [Sweep("stress-latency", "t5", ["lifo-cr-spin", "lifo-spin"], [32], ms=200, seeds=3)], [
        Figure("LIFO-CR: least thread's share of the fair one", lambda p: min(p("lifo-cr-spin", 32, "operations")) * 32
               / sum(p("lifo-cr-spin", 32, "operations")), "periodic grant to the eldest, > 0", at_least(0.01)),
        Figure("LIFO: the same", lambda p: min(p("lifo-spin", 32, "operations")) * 32 / sum(p("lifo-spin", 32, "operations")), "starves, 0",
               at_most(0.01)),
        Figure("LIFO-CR / LIFO", ratio("lifo-cr-spin", "lifo-spin", 32), "≥ 0.9", at_least(0.9)),
    ]),
    Row("M25", [Sweep("stress-latency", "t5", ["mcs-spin", "mcs-pt-spin"], [128, 160, 192], ms=100, seeds=3)], [
        Figure("MCS-PT / MCS, spinning, at 160", ratio("mcs-pt-spin", "mcs-spin", 160), "better past the CPU count, > 1.5", at_least(1.5)),
        Figure("at 192", ratio("mcs-pt-spin", "mcs-spin", 192), "> 1.5", at_least(1.5)),
        Figure("at 128", ratio("mcs-pt-spin", "mcs-spin", 128)),
    ]),
    # ---- Fairlocks ----
    Row("F1", [Sweep("quads", "numa-q", ["ttas-spin", "fairlock-spin"], [4], ms=500, pinned=True),
               Sweep("quads", "numa-q", ["ttas-spin", "fairlock-spin"], [4], {"cs": 500, "ncs": 100}, ms=500, pinned=True)], [
        Figure("test-and-set, quad 0 / quad 1", lambda p: skew(p, "ttas-spin", 4), "30, within 15–60", within(15, 60)),
        Figure("fairlock", lambda p: skew(p, "fairlock-spin", 4), "1.33, within 1.2–1.47", within(1.2, 1.47)),
        Figure("total, fairlock / test-and-set", ratio("fairlock-spin", "ttas-spin", 4), "0.67, within 0.6–0.74", within(0.6, 0.74)),
        Figure("500 cycles inside, up to 100 outside: test-and-set", lambda p: skew(p, "ttas-spin", 4, 1), "(30)"),
        Figure("the same: fairlock", lambda p: skew(p, "fairlock-spin", 4, 1), "(1.33)"),
        Figure("the same: total", ratio("fairlock-spin", "ttas-spin", 4, sweep=1), "(0.67)"),
    ], remark="The direction is there, the sizes are not. The paper's loop does nothing but count; what the machine's numbers were once set "
              "with is a longer one: the second half.",
        fitted="`dirty`, `jitter`: the size of test-and-set's skew is not thereby reproduced"),
    Row("F2", [Sweep("quads", "numa-q", ["ttas-spin", "fairlock-spin"], [8], ms=1000, pinned=True, others=n, seeds=3) for n in (0, 4)], [
        Figure("test-and-set, quad 0 / quad 1", lambda p: skew(p, "ttas-spin", 8), "4.1", fitted=True),
        Figure("fairlock", lambda p: skew(p, "fairlock-spin", 8), "1.00, within 0.9–1.1", within(0.9, 1.1)),
        Figure("with 4 other processes: test-and-set", lambda p: skew(p, "ttas-spin", 8, 1), "4.1", fitted=True),
        Figure("with 4 other processes: fairlock", lambda p: skew(p, "fairlock-spin", 8, 1), "1.00, within 0.9–1.1", within(0.9, 1.1)),
    ], fitted="`dirty`, `jitter`"),
    Row("F3", [Sweep("quads", "numa-q", ["tas-spin", "ttas-spin", "fairlock-spin"], [1], ms=2, pinned=True)], [
        Figure("fairlock's time / test-and-set's, uncontended", lambda p: p("ttas-spin", 1) / p("fairlock-spin", 1), "2.01, within 1.5–2.5",
               within(1.5, 2.5)),
    ], remark="The paper compares C with assembly; both are C++ here."),
    Row("F4", [Sweep("quads", "numa-q", ["ttas-spin", "fairlock-spin"], [1, 2, 3, 4, 5, 6, 7, 8], ms=200, pinned=True, seeds=3)], [
        Figure("fairlock / test-and-set, mean of 1–8", lambda p: sum(p("fairlock-spin", t) / p("ttas-spin", t) for t in range(1, 9)) / 8,
               "0.64, within 0.58–0.7", within(0.58, 0.7)),
        Figure("at 8", ratio("fairlock-spin", "ttas-spin", 8)),
    ], fitted="`dirty`, `jitter`"),
    Row("F5", [Sweep("reflex", "numa-q", ["ttas-spin", "fairlock-spin"], [8], ms=2000, pinned=True, seeds=3)], [
        Figure("mean hold, fairlock / test-and-set", ratio("fairlock-spin", "ttas-spin", 8, "hold_ns.mean"), "1, within 0.8–1.25",
               within(0.8, 1.25)),
        Figure("mean wait", ratio("fairlock-spin", "ttas-spin", 8, "wait_ns.mean"), "0.70, < 1", at_most(1)),
        Figure("acquisitions", ratio("fairlock-spin", "ttas-spin", 8, "admissions"), "0.86, within 0.7–1", within(0.7, 1)),
        Figure("longest wait, test-and-set / fairlock", ratio("ttas-spin", "fairlock-spin", 8, "wait_ns.longest"), "2057, > 200",
               at_least(200)),
        Figure("fairlock: longest wait / longest hold", lambda p: p("fairlock-spin", 8, "wait_ns.longest") / p("fairlock-spin", 8, "hold_ns.longest"),
               "3.5, < 8", at_most(8)),
        Figure("test-and-set: longest wait / longest hold",
               lambda p: p("ttas-spin", 8, "wait_ns.longest") / p("ttas-spin", 8, "hold_ns.longest"), "3400"),
        Figure("utilisation, test-and-set", lambda p: p("ttas-spin", 8, "utilisation"), "0.32"),
    ], remark="A fairlock takes the run queue to the other quad at nearly every hand-over, and on this machine that is most of a hold. The "
              "paper's holds are equal: its scheduler's data move less, or cost less to move, than is modelled.", fitted="`dirty`, `jitter`"),
    Row("F6", [Sweep("reflex", "numa-q", ["ttas-spin", "fairlock-spin"], [1, 2, 4, 6, 8], ms=500, pinned=True, seeds=3)], [
        Figure("tokens, fairlock / test-and-set, worst", worst_ratio("fairlock-spin", "ttas-spin"), "≈ or better, ≥ 0.9", at_least(0.9)),
    ], fitted="`dirty`, `jitter`"),
]
