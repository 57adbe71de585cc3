"""Measures the cost of condition variables and semaphores through the preload, and the gain of waking the latest waiter first,
in comparison with the C library's own, in interleaved rounds, so that noise affects all alike. Every run is a process of its own
with a time limit from outside; a killed run is reported with the backtraces of its threads.

Groups: costs, instructions, turns, lock, herd (written to waits.json); queue, pool, workers (to condition-variables.json), which are
claims M8, M12 and M26; signalled, held, deadlines, broadcast (to faults.json; `--only faults` is these four, within six minutes).
`python3 -m lab.pages waits condition-variables faults` makes the pages."""

import argparse
import concurrent.futures
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import catalog
import count_instructions
from lab.costs import fault_groups, summaries
from lab.costs.summaries import Column, at, by_name, figure, median, number, of, with_range
import harness
from harness import Build, clean_environment, die, plain_locks
from lab.run import packed

FIFO, MOSTLY_LIFO = "1", "0.001"
FIRST_FILE = ["costs", "instructions", "turns", "lock", "herd"]
SECOND_FILE = ["queue", "pool", "workers"]


@dataclass(frozen=True)
class Candidate:
    """A lock to be measured. None: the C library without libusher.so; "": libusher.so without a lock, which forwards every call."""
    name: str
    lock: str | None = None
    cond: str = ""
    sem: str = ""
    arguments: tuple = ()

    def environment(self, build):
        if self.lock is None:
            return clean_environment()
        extra = {"LD_PRELOAD": catalog.library_with(self.lock, build.library)}
        for variable, value in (("USHER_LOCK", self.lock), ("USHER_COND_APPEND", self.cond),
                                ("USHER_SEM_APPEND", self.sem)):
            if value:
                extra[variable] = value
        return clean_environment(extra)


NATIVE = Candidate("C library")
UNSELECTED = Candidate("library, no lock", "")


@dataclass
class Point:
    """The results of one candidate at one point, round by round."""
    candidate: Candidate
    where: dict
    results: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    def as_json(self):
        return {"candidate": self.candidate.name, **self.where, "rounds": self.results, "failures": self.failures}


class Runner:
    def __init__(self, build, options):
        self.build, self.options = build, options

    def once(self, candidate, program, arguments, limit, read, prefix=()):
        """Runs the program once. Returns (its figures, None) or (None, the reason of the failure)."""
        command = [*prefix, self.build.program(program), *arguments, *candidate.arguments]
        outcome = harness.run(command, limit=limit, env=candidate.environment(self.build))
        if outcome.ok:
            result = read(outcome.stdout)
            if result is not None:
                return result, None
        why = outcome.trouble() if not outcome.ok else "no figure in its output"
        print(f"measure_waits: {candidate.name}: {' '.join(map(str, command))}: {why}", file=sys.stderr)
        if outcome.backtrace:
            print(outcome.backtrace[:20000], file=sys.stderr)
        return None, why

    document = staticmethod(lambda text: document(text))

    def catalog(self):
        """Returns the candidates: the C library, and libusher.so with each of the requested locks."""
        return [NATIVE] + [Candidate(lock, lock) for lock in self.options.locks]

    def point(self, candidates, where, rounds, program, arguments, limit, read, prefix=(), jobs=1):
        """Measures one point: all candidates, in interleaved rounds of varying order. `jobs` candidates run at once, for programs that
        sleep nearly all the time."""
        points = [Point(c, where) for c in candidates]
        for number in range(rounds):
            first = number % len(points)
            # A candidate that has failed twice is not run again: it would probably fail again, and each failure costs the whole time limit.
            due = [p for p in points[first:] + points[:first] if len(p.failures) < 2]
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                outcomes = pool.map(lambda p: self.once(p.candidate, program, arguments, limit, read, prefix), due)
                for p, (result, why) in zip(due, outcomes):
                    if result is None:
                        p.failures.append(why)
                    else:
                        p.results.append(result)
        print(f"  {program} {' '.join(map(str, arguments))}: done", file=sys.stderr)
        return points


def number_after(what):
    def read(text):
        found = re.search(re.escape(what) + r": ([\d.]+)", text)
        return float(found.group(1)) if found else None
    return read


def document(text):
    try:
        found = json.loads(text)
    except ValueError:
        return None
    for everywhere in ("machine", "compiler", "commit", "benchmark", "counts"):
        found.pop(everywhere, None)
    return found


# Each group has a function that measures and returns {"points": [...]}, and a function that makes a page's tables from that result. The key
# "run" describes the length of a run, if the points do not.

def measured(points, **more):
    return {**more, "points": [p.as_json() for p in points]}


def rounds_in(points):
    return max((len(p["rounds"]) for p in points), default=0)


def seconds_in(points):
    return next((f"{r['seconds']:.1f} s" for p in points for r in p["rounds"]), "0 s")


def ranges(points, get, form="{:.2f}"):
    """Returns the texts of a column: the median over the rounds, with the range."""
    points = by_name(points)
    return lambda name: (median(points[name], get), with_range(points[name], get, form)) if name in points else None


def medians(points, get, form="{:.2f}"):
    points = by_name(points)
    return lambda name: figure(points.get(name), get, lambda value: number(value, form))


# ---- the first file: the cost of calls ------------------------------------------------------------------------------

UNCONTENDED = {"signal": "signal", "broadcast": "broadcast", "locked-signal": "lock, signal, unlock",
               "sem": "`sem_wait`, `sem_post`", "sem-try": "`sem_trywait`, `sem_post`"}


def costs(runner):
    o = runner.options
    candidates = [NATIVE, UNSELECTED] + [Candidate(lock, lock) for lock in harness.pass_through() + o.locks]
    batch, points = 20000 if o.quick else 200000, []
    for what in UNCONTENDED:
        points += runner.point(candidates, {"what": what}, 3 if o.quick else max(15, o.rounds), "wait_cost",
                               ["--what", what, "--iterations", str(batch), "--batches", "10"], 30,
                               number_after("nanoseconds an operation"))
    return measured(points, run=f"10 × {batch} calls")


def ratio_of_minima(points):
    """Returns the ratio of the minimum to the C library's minimum; for the C library itself, its minimum in ns."""
    points = by_name(points)

    def of_name(name):
        if not points[name]["rounds"] or not points[NATIVE.name]["rounds"]:
            return None, "failed"
        least = min(points[NATIVE.name]["rounds"])
        ratio = min(points[name]["rounds"]) / least
        return ratio, f"{least:.2f} ns" if name == NATIVE.name else f"{ratio:.3f}"
    return of_name


def costs_tables(group):
    points = group["points"]
    names = summaries.names_in(points)
    columns = [Column(title, ratio_of_minima(at(points, what=what))) for what, title in UNCONTENDED.items()]
    text = (f"The calls ran in {rounds_in(points)} interleaved rounds of {group['run']}, in a process that has had a second thread. The "
            "condition variable has no waiter. A cell has the minimum of the rounds: for the C library in ns, for the other rows "
            "relative to the C library.")
    return [("Uncontended calls", text, *summaries.table(names, columns))]


FEW, MANY = 1000, 3000


def instructions_of(build, candidate, what, folder):
    """Returns the number of instructions and of locked instructions in one operation."""
    profiles = []
    for iterations in (FEW, MANY):
        out = Path(folder) / f"{candidate.name.replace(' ', '-')}-{what}-{iterations}"
        found, why = count_instructions.profile([build.program("wait_cost"), "--quiet", "--what", what, "--iterations", str(iterations)],
                                                out, candidate.environment(build))
        if found is None:
            return {"failed": why}
        profiles.append(found)
    return count_instructions.per_operation(*profiles, MANY - FEW, "wait_cost")


def instructions(runner):
    for tool in ("valgrind", "objdump"):
        if not shutil.which(tool):
            die(f"{tool} is not installed (or leave out the group 'instructions')")
    names = ["loiter"] if runner.options.quick else runner.options.locks
    candidates = [NATIVE, Candidate("pthread", "pthread")] + [Candidate(lock, lock) for lock in names]
    jobs = [(what, c) for what in UNCONTENDED for c in candidates]
    with tempfile.TemporaryDirectory(prefix="usher-count-") as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        counted = list(pool.map(lambda job: instructions_of(runner.build, job[1], job[0], folder), jobs))
    return {"points": [{"what": what, "candidate": c.name, **n} for (what, c), n in zip(jobs, counted)]}


def instructions_tables(group):
    points = group["points"]

    def count(what):
        here = by_name(at(points, what=what))
        return lambda name: (here[name].get("instructions"), str(here[name].get("instructions", "failed")))

    names, by_locked = summaries.names_in(points), {}
    for what, title in UNCONTENDED.items():
        locked = {p.get("locked") for p in at(points, what=what)}
        if len(locked) == 1 and None not in locked:
            by_locked.setdefault(locked.pop(), []).append(title)
    columns = [Column(title, count(what)) for what, title in UNCONTENDED.items()]
    text = ("The table has exact counts of instructions, without the instructions of the loop. A count comes from the difference between "
            "two runs of different length under callgrind. Locked instructions, under every lock: " +
            ", ".join(f"{n} ({'; '.join(calls)})" for n, calls in by_locked.items()) + ".")
    return [("Instructions of the same calls", text, *summaries.table(names, columns))]


def contended_candidates(runner):
    """Returns the candidates for contended measurements: the C library, and locks that represent the others."""
    chosen = [lock for lock in ("loiter", "futex", "mcs", "mcscr") if lock in runner.options.locks]
    return [NATIVE, Candidate("pthread", "pthread")] + [Candidate(lock, lock) for lock in chosen]


def semaphore_candidates():
    return [NATIVE, Candidate("pthread", "pthread"), Candidate("ours, FIFO", "loiter", sem=FIFO),
            Candidate("ours, mostly LIFO", "loiter", sem=MOSTLY_LIFO)]


INSIDE, OUTSIDE, SEMAPHORES = "condition variable, signal inside", "condition variable, signal outside", "semaphores"
PLACES = {"any CPU": (), "one CPU": ("taskset", "-c", "0")}


def turns(runner):
    o = runner.options
    seconds = 0.1 if o.quick else 0.5
    rounds = 2 if o.quick else o.rounds
    points = []
    for place, prefix in PLACES.items():
        for title, candidates, arguments in (
                (INSIDE, contended_candidates(runner), ["--what", "cond-turns"]),
                (OUTSIDE, contended_candidates(runner), ["--what", "cond-turns", "--outside"]),
                (SEMAPHORES, semaphore_candidates(), ["--what", "sem-turns"])):
            points += runner.point(candidates, {"what": title, "place": place}, rounds, "wait_cost",
                                   arguments + ["--seconds", str(seconds)], 20, number_after("operations a second"), prefix)
    return measured(points, run=f"{seconds} s")


def turns_tables(group):
    points = group["points"]

    def columns(*whats):
        return [Column(", ".join([*([what.split(", ")[1]] if len(whats) > 1 else []), place]),
                       ranges(at(points, what=what, place=place), lambda v: v / 1e3, "{:.1f}"), least=True)
                for place in PLACES for what in whats]

    runs = (f"A cell has thousands of turns a second (a turn wakes the other thread once): the median (range) of {rounds_in(points)} "
            f"interleaved rounds of {group['run']}.")
    text = (f"Two threads take turns: each wakes the other by a signal and waits. {runs} \"Outside\" means that the signal comes after the "
            "unlock. Most of a turn's time is spent in the kernel. This time depends on the CPUs that the kernel chooses for the threads; "
            "for comparison the threads also ran on one CPU.")
    tables = []
    for title, explanation, whats in (("Two threads take turns: condition variables", text, (INSIDE, OUTSIDE)),
                                      ("Two threads take turns: semaphores", f"Two threads wake each other by two semaphores. "
                                                                             f"{runs}", (SEMAPHORES,))):
        cells = columns(*whats)
        names = summaries.names_in(p for p in points if p["what"] in whats)
        tables.append((title, explanation, *summaries.table(names, cells, "semaphore" if whats == (SEMAPHORES,) else "lock")))
    return tables


def rate_and_share(text):
    rate, share = number_after("operations a second")(text), number_after("smallest share")(text)
    return None if rate is None or share is None else {"rate": rate, "smallest_share": share}


def lock(runner):
    o = runner.options
    seconds, rounds = (0.1, 2) if o.quick else (1, o.rounds)
    points = []
    for threads in (2, 4, 16):
        points += runner.point(semaphore_candidates(), {"threads": threads}, rounds, "wait_cost",
                               ["--what", "sem-lock", "--threads", str(threads), "--seconds", str(seconds)], 30,
                               rate_and_share)
    return measured(points, run=f"{seconds} s")


def values_of(points, name):
    return sorted({p[name] for p in points})


def lock_tables(group):
    points = group["points"]
    names, counts = summaries.names_in(points), values_of(points, "threads")
    columns = [Column(f"{n} threads", ranges(at(points, threads=n), lambda r: r["rate"] / 1e3, "{:.0f}"), least=True) for n in counts]
    shares = [Column(f"smallest share, {n}", ranges(at(points, threads=n), of("smallest_share")), least=True) for n in counts[-1:]]
    text = ("A semaphore with one credit serves as the lock around one addition. A cell has thousand pairs of wait and post a second, the "
            f"median (range) of {rounds_in(points)} interleaved rounds of {group['run']}. The smallest share is that of the thread with "
            f"the "
            "fewest pairs, relative to an equal share. If the rate is high and the share small, one thread acquires the semaphore many "
            "times "
            "in a row.")
    return [("A semaphore as a lock", text, *summaries.table(names, columns + shares, "semaphore"))]


def herd(runner):
    o = runner.options
    rounds, inner = (2, 3) if o.quick else (o.rounds, 10)
    points = []
    for waiters in (64,) if o.quick else (8, 64):
        points += runner.point(contended_candidates(runner), {"waiters": waiters}, rounds, "herd",
                               ["--waiters", str(waiters), "--rounds", str(inner)], 60, document)
    return measured(points)


def herd_tables(group):
    points = group["points"]
    names, counts = summaries.names_in(points), values_of(points, "waiters")
    columns = []
    for n in counts:
        here = at(points, waiters=n)
        most = {p["candidate"]: max((r["most_runnable"]["max"] for r in p["rounds"]), default=0) for p in here}
        columns += [Column(f"{n}: switches", medians(here, of("voluntary_per_waiter", "median"))),
                    Column("runnable", medians(here, of("most_runnable", "median"), "{:.0f}")),
                    Column("at most", lambda name, most=most: (most[name], f"{most[name]:.0f}")),
                    Column("µs until all are through", ranges(here, of("us_until_through", "median"), "{:.0f}"))]
    returns = max((median(p, of("returns_per_waiter", "median")) or 0 for p in points), default=0)
    involuntary = max((median(p, of("involuntary_per_waiter", "median")) or 0 for p in points), default=0)
    inner = next((r["rounds"] for p in points for r in p["rounds"]), 0)
    text = (f"A thread broadcasts to {' or '.join(map(str, counts))} waiters with the mutex held, and holds it for another 2 ms. A cell "
            f"has the median of {rounds_in(points)} interleaved processes, each of which has the median of {inner} broadcasts. "
            f"\"Switches\" "
            "are the voluntary context switches of a waiter. \"Runnable\" is the number of threads that were runnable at the same time, "
            "sampled from /proc in separate broadcasts, so it is a lower bound. The time begins when the broadcaster unlocks and ends when "
            f"the last waiter is about to unlock. A waiter had at most {involuntary:.2f} involuntary switches and {returns:.2f} returns "
            f"from "
            "its wait (largest medians); 1 return means that no wake-up was spurious.")
    return [("A broadcast to many waiters", text, *summaries.table(names, columns))]


# ---- the second file: which waiter a signal wakes ---------------------------------------------------------------------------

def queue(runner):
    """Claim M8."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.seconds, o.rounds)
    candidates, points = [NATIVE], []
    for name in ("mcs", "mcscr", "loiter"):
        candidates += [Candidate(f"{name}, FIFO", name, cond=FIFO), Candidate(f"{name}, mostly LIFO", name, cond=MOSTLY_LIFO)]
    for n in (4, 32) if o.quick else (1, 2, 4, 8, 16, 32):
        points += runner.point(candidates, {"producers": n}, rounds, "producer_consumer",
                               ["--producers", str(n), "--seconds", str(seconds)], 4 * seconds + 30, document)
    return measured(points)


def a_message(name):
    return lambda r: r[name] / max(r["messages"], 1)


def queue_tables(group):
    points = group["points"]
    names, counts = summaries.names_in(points), values_of(points, "producers")
    most = at(points, producers=counts[-1])
    acquisitions = [Column(str(n), medians(at(points, producers=n), of("acquisitions_per_message"))) for n in counts]
    text = ("A message of a bounded queue costs 2 acquisitions of its mutex, and a third if the producer finds the queue full and waits on "
            "the condition variable. The Malthusian paper (§6.7, Fig. 10) has 3 with a FIFO mutex, and 2 with a mutex that restricts "
            "concurrency, because producers then wait for the mutex and not on the condition variable. A column is a number of "
            f"producers; a cell has the acquisitions a message, the median of {rounds_in(points)} "
            f"interleaved runs of {seconds_in(points)}.")
    columns = [Column("thousand messages a second", ranges(most, lambda r: r["messages_per_second"] / 1e3, "{:.0f}"), least=True),
               Column("switches a message", ranges(most, of("switches_per_message"), "{:.3f}")),
               Column("waits on not_full a message", ranges(most, a_message("waits_not_full"), "{:.3f}")),
               Column("futile wake-ups a message", ranges(most, a_message("futile_wakeups"), "{:.3f}"))]
    more = (f"The table has further figures of these runs with {counts[-1]} producers, median (range). A wake-up is futile if the thread "
            "finds the queue still full (or empty) and waits again; each costs another acquisition.")
    first = "mutex, condition variables"
    return [("M8: acquisitions a message", text, *summaries.table(names, acquisitions, first)),
            (f"M8: throughput and wake-ups with {counts[-1]} producers", more, *summaries.table(names, columns, first))]


APPENDS = (FIFO, "0.5", "0.1", "0.01", MOSTLY_LIFO)


def pool(runner):
    """Claim M12."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.pool_seconds, o.rounds)
    appends = (FIFO, MOSTLY_LIFO) if o.quick else APPENDS
    semaphore = ("--semaphore",)
    candidates = [NATIVE] + [Candidate(f"loiter, P = {p}", "loiter", cond=p) for p in appends]
    candidates += [Candidate(f"mcs, P = {p}", "mcs", cond=p) for p in (FIFO, MOSTLY_LIFO)]
    candidates += [Candidate("semaphore: C library", None, arguments=semaphore)]
    candidates += [Candidate(f"semaphore: P = {p}", "loiter", sem=p, arguments=semaphore) for p in appends]
    points = []
    for buffers in (5, 1):
        for n in (8, 32) if o.quick else (5, 8, 16, 32):
            points += runner.point(candidates, {"threads": n, "buffers": buffers}, rounds, "buffer_pool",
                                   ["--threads", str(n), "--buffers", str(buffers), "--seconds", str(seconds)],
                                   4 * seconds + 30, document)
    return measured(points)


def pool_tables(group):
    points = group["points"]
    counts = values_of(points, "threads")
    between = tuple(f"P = {p}" for p in APPENDS if p not in (FIFO, MOSTLY_LIFO))
    everything = summaries.names_in(points)
    names = [name for name in everything if not name.endswith(between)]
    expected = ("Threads share a pool of buffers, and a waiter goes to the tail of the pool's list with probability P, otherwise to the "
                "head. In the Malthusian paper (§6.11, Fig. 14) throughput falls as P grows, P = 1/1000 keeps most of the gain of LIFO, "
                "and a semaphore has the same effect. "
                "With fewer CPUs than buffers, as here, a thread finds the pool empty only if some threads that have a buffer do not "
                "run, so P has little effect. ")
    tables = []
    for buffers, title in ((5, "5 buffers"), (1, "1 buffer")):
        most, before = at(points, threads=counts[-1], buffers=buffers), at(points, threads=counts[-2], buffers=buffers)
        rate = of("iterations_per_second")
        columns = [Column(f"{counts[-2]} threads", ranges(before, rate, "{:.0f}"), least=True),
                   Column(f"{counts[-1]} threads", ranges(most, rate, "{:.0f}"), least=True),
                   Column("distinct threads", medians(most, of("distinct_threads"), "{:.1f}")),
                   Column("smallest share", medians(most, of("share", "smallest")), least=True),
                   Column("switches", medians(most, of("switches_per_iteration"), "{:.3f}"))]
        by_p = []
        for kind in ("loiter, P = ", "semaphore: P = "):
            medians_of = {p["candidate"].removeprefix(kind): median(p, rate) for p in most if p["candidate"].startswith(kind)}
            by_p.append(f"{kind.split()[0][:-1]} with P of {', '.join(medians_of)}: " +
                        ", ".join("–" if v is None else f"{v:.0f}" for v in medians_of.values()))
        text = (expected if buffers == 5 else "With a single buffer threads wait for the buffer even on a machine with few CPUs. ")
        text += (f"A cell has iterations a second, the median (range) of {rounds_in(points)} interleaved runs of {seconds_in(points)}. The "
                 f"other columns, with {counts[-1]} threads, have the distinct threads among 1000 admissions, the smallest share of a "
                 f"thread "
                 f"relative to an equal share, and the context switches an iteration. Iterations a second with {counts[-1]} threads, by P: "
                 f"{'; '.join(by_p)}.")
        tables.append((f"M12: a pool of {title}", text, *summaries.table(names, columns, "waiting")))
    return tables


def workers(runner):
    """Claim M26."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.pool_seconds, o.rounds)
    semaphore = ("--semaphore",)
    candidates = [NATIVE, Candidate("loiter, FIFO", "loiter", cond=FIFO),
                  Candidate("loiter, mostly LIFO", "loiter", cond=MOSTLY_LIFO),
                  Candidate("semaphore: C library", None, arguments=semaphore),
                  Candidate("semaphore: FIFO", "loiter", sem=FIFO, arguments=semaphore),
                  Candidate("semaphore: mostly LIFO", "loiter", sem=MOSTLY_LIFO, arguments=semaphore)]
    loads = ((10000, 1), (10000, 20)) if o.quick else ((1000, 1), (10000, 1), (20000, 1), (10000, 20))
    points = []
    for rate, burst in loads:
        points += runner.point(candidates, {"rate": rate, "burst": burst}, rounds, "thread_pool",
                               ["--workers", "32", "--rate", str(rate), "--burst", str(burst), "--seconds", str(seconds)],
                               4 * seconds + 30, document)
    return measured(points)


def workers_tables(group):
    points = group["points"]
    names = summaries.names_in(points)
    circulate, costs_of = [], []
    for rate, burst in dict.fromkeys((p["rate"], p["burst"]) for p in points):
        here = at(points, rate=rate, burst=burst)
        load = f"{rate}" + (f" in bursts of {burst}" if burst > 1 else "")
        circulate.append(Column(load, medians(here, of("distinct_workers_in_100"), "{:.1f}")))
        costs_of += [Column(f"{load}: switches", medians(here, of("switches_per_job"))),
                     Column("µs", medians(here, of("waited_us", "p50"), "{:.0f}")),
                     Column("99 %", medians(here, of("waited_us", "p99"), "{:.0f}"))]
    runs = f"Medians of {rounds_in(points)} interleaved runs of {seconds_in(points)}."
    text = ("In the Malthusian paper (§6.11 and Fig. 13) a mostly LIFO order wakes only the workers that the load needs, with fewer "
            "context switches. Here 32 workers wait for jobs of 5000 steps of a mt19937. A column is a load in jobs a second; a cell has "
            "the "
            f"number of distinct workers among 100 jobs. {runs}")
    more = ("The table has further figures of the runs with 32 workers. Each load, in jobs a second, has three columns: the context "
            "switches "
            "a job, and the median and the 99th percentile of the time in µs from the submission of a job until a worker begins it.")
    return [("M26: workers that circulate", text, *summaries.table(names, circulate, "waiting")),
            ("M26: context switches and waits", more, *summaries.table(names, costs_of, "waiting"))]


# ---- all of it -------------------------------------------------------------------------------------------------------

GROUPS = {"costs": costs, "instructions": instructions, "turns": turns, "lock": lock, "herd": herd, "queue": queue,
          "pool": pool, "workers": workers, **fault_groups.MEASURE}
TABLES = {"costs": costs_tables, "instructions": instructions_tables, "turns": turns_tables, "lock": lock_tables, "herd": herd_tables,
          "queue": queue_tables, "pool": pool_tables, "workers": workers_tables, **fault_groups.TABLES}
ORDERS = ("The page belongs to the [claims](claims.md) M8, M12 and M26. A condition variable or semaphore appends a new waiter at the tail "
          f"of its list with a probability P, otherwise at the head. FIFO means P = {FIFO}, mostly LIFO P = {MOSTLY_LIFO}.")
FILES = {"waits": FIRST_FILE, "condition-variables": SECOND_FILE, fault_groups.FILE: fault_groups.GROUPS}
TITLES = {"waits": "What condition variables and semaphores cost through the preload",
          "condition-variables": "Whom a condition variable or a semaphore wakes",
          fault_groups.FILE: fault_groups.TITLE}


def exports_semaphores(build):
    names = subprocess.run(["nm", "-D", "--defined-only", str(build.library)], capture_output=True, text=True,
                           timeout=60).stdout
    return re.search(r"\bsem_wait\b", names) is not None


RESULTS = harness.TREE / "lab" / "results"


def groups_in(file):
    if not packed.is_there(file):
        return {}
    try:
        return packed.document(file)["groups"]
    except (ValueError, KeyError) as error:
        die(f"{file} is not one of ours: {error}")


def page(name, groups):
    names = summaries.names_in(p for group in groups.values() for p in group["points"])
    introduction = (f"{ORDERS if name == 'condition-variables' else summaries.CELLS} "
                    f"{summaries.without_default(name.split(', ')[0] for name in names)}")
    return summaries.page(TITLES[name], introduction, groups, lambda group: TABLES[group](groups[group]),
                          packed.stored(RESULTS / f"{name}.json").name)


def stored_page(name, _):
    return page(name, groups_in(RESULTS / f"{name}.json"))


def write(folder, group, content):
    """Writes the group's results into its file. Groups that are not measured now stay unchanged."""
    name = next(name for name, groups in FILES.items() if group in groups)
    file = Path(folder) / (name + ".json")
    groups = {**groups_in(file), group: content}
    groups = {g: groups[g] for g in FILES[name] if g in groups}
    packed.write(file, summaries.compact(name, groups))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--only", metavar="GROUPS", help="comma-separated (all); faults: signalled, held, "
                        "deadlines, broadcast")
    parser.add_argument("--programs", metavar="DIR", help="take the programs from this build, and from --build the library "
                        "alone")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (7; uncontended costs: at least 15; faults: 1 to 3)")
    parser.add_argument("--seconds", type=float, default=5, help="of a run of the queue (5)")
    parser.add_argument("--pool-seconds", type=float, default=2, help="of a run of the buffer pool and the workers (2)")
    parser.add_argument("--locks", help="comma-separated: those of the groups costs and instructions and of the faults (all "
                        "plain names)")
    parser.add_argument("--quick", action="store_true", help="shows within a minute or two that all of it works")
    parser.add_argument("--out", metavar="DIR", help="where to write JSON, as lab/results; groups that are there and not "
                        "measured now stay (nowhere)")
    parser.add_argument("--hold", choices=("auto", "spin", "sleep"), default="auto", help="group signalled: how the mutex is "
                        "held (auto: awake below 1 ms, asleep from there on)")
    parser.add_argument("--outside-us", type=int, default=0, metavar="N", help="groups signalled and broadcast: the time "
                        "between two uses of the mutex by a user's thread (0)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="faults: at most so many processes at once, where "
                        "they sleep (as many as the point bears)")
    parser.add_argument("--note", metavar="TEXT", help="a remark under the tables of the measured groups")
    options = parser.parse_args()
    options.given_rounds = options.rounds  # used by the groups of faults, which have default numbers of rounds of their own
    if options.rounds is None:
        options.rounds = 7
    if options.rounds < 1 or options.seconds < 0.01 or options.pool_seconds < 0.01:
        parser.error("--rounds starts at 1, --seconds and --pool-seconds at 0.01")
    if options.out and not Path(options.out).is_dir():
        die(f"{options.out} is not a folder")
    return options


def groups_wanted(options):
    """Returns the groups in the order in which they run."""
    named = list(GROUPS) if not options.only else [
        group for name in options.only.split(",")
        for group in (fault_groups.GROUPS if name == "faults" else [name])]
    for group in named:
        if group not in GROUPS:
            die(f"unknown group '{group}': {', '.join(GROUPS)}")
    return [g for g in GROUPS if g in named]


def choose_locks(options, build):
    known = plain_locks()
    options.locks_named = bool(options.locks)
    options.locks = options.locks.split(",") if options.locks else known
    for name in options.locks:
        if name not in known:
            die(f"unknown lock '{name}': {', '.join(known)}")


def need_programs(build, wanted):
    programs = {fault_groups.PROGRAMS[g] for g in wanted if g in fault_groups.PROGRAMS}
    if not set(wanted) <= set(fault_groups.GROUPS):
        programs |= {"wait_cost", "herd", "producer_consumer", "buffer_pool", "thread_pool"}
    build.need(build.library, *(build.program(name) or build.programs / name for name in sorted(programs)))


def remarks_on(options, build):
    remarks = []
    if options.quick:
        remarks.append("A quick run, which shows that the programs work; its figures are worth nothing.")
    if not exports_semaphores(build):
        remarks.append("This libusher.so has no semaphores: wherever they are named, they are the C library's.")
    if options.note:
        remarks.append(options.note)
    return remarks


def run_group(group, runner, remarks):
    """Measures, prints and writes one group; returns False if a run of it failed. Each group is written at its end, so
    that an interrupted run keeps the groups before."""
    others = harness.OthersShare()
    found = GROUPS[group](runner)
    content = {**harness.provenance(runner.build, others), "remarks": remarks, **found}
    for title, explanation, heading, rows in TABLES[group](content):
        print(f"{title}\n{explanation}\n\n{harness.table(rows, heading)}\n")
    print(harness.provenance_line(content) + "\n", flush=True)
    if runner.options.out:
        write(runner.options.out, group, content)
    return not any(point.get("failures") or point.get("failed") for point in content["points"])


def main():
    options = parse_options()
    build = Build(options.build)
    if options.programs:
        build.programs = Path(options.programs).resolve() / "lab" / "programs"
    wanted = groups_wanted(options)
    need_programs(build, wanted)
    choose_locks(options, build)
    remarks = remarks_on(options, build)
    for remark in remarks:
        print(remark + "\n")
    runner = Runner(build, options)
    good = [run_group(group, runner, remarks) for group in wanted]
    return 0 if all(good) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
