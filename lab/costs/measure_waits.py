"""What condition variables and semaphores cost through the preload, and what waking the latest waiter first gains: beside the
C library's own, in interleaved rounds, so that noise affects all alike. Every run is a process of its own with a time limit from
outside; a killed run is reported with the backtraces of its threads.

Groups: costs, instructions, turns, lock, herd (written to waits.md and waits.json); queue, pool, workers (written to
condition-variables.md and condition-variables.json), which are claims M8, M12 and M26; signalled, held, deadlines, broadcast
(written to faults.md and faults.json; `--only faults` is these four, within six minutes)."""

import argparse
import concurrent.futures
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import count_instructions
from lab.costs import fault_groups
import harness
from harness import Build, clean_environment, die, median_range, plain_locks

FIFO, MOSTLY_LIFO = "1", "0.001"
FIRST_FILE = ["costs", "instructions", "turns", "lock", "herd"]
SECOND_FILE = ["queue", "pool", "workers"]


@dataclass(frozen=True)
class Candidate:
    """A lock; None: the C library without libusher.so; "": libusher.so without a lock, which forwards every call."""
    name: str
    lock: str | None = None
    cond: str = ""
    sem: str = ""
    arguments: tuple = ()

    def environment(self, build):
        if self.lock is None:
            return clean_environment()
        extra = {"LD_PRELOAD": str(build.library)}
        for variable, value in (("USHER_LOCK", self.lock), ("USHER_COND_APPEND", self.cond),
                                ("USHER_SEM_APPEND", self.sem)):
            if value:
                extra[variable] = value
        return clean_environment(extra)


NATIVE = Candidate("C library")
UNSELECTED = Candidate("library, no lock", "")


@dataclass
class Point:
    """What one candidate did in one place, round after round."""
    candidate: Candidate
    where: dict
    results: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    def values(self, get):
        return [get(r) for r in self.results]

    def median(self, get):
        return statistics.median(self.values(get)) if self.results else None

    def cell(self, get, form="{:.2f}"):
        text = median_range(self.values(get), form)
        return text + (f", **{len(self.failures)} failed**" if self.failures else "")

    def as_json(self):
        return {"candidate": self.candidate.name, **self.where, "rounds": self.results, "failures": self.failures}


class Runner:
    def __init__(self, build, options):
        self.build, self.options = build, options

    def once(self, candidate, program, arguments, limit, read, prefix=()):
        """(its figures, None) or (None, why there are none)."""
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
        """The C library's, and ours under each of the locks that are asked for."""
        return [NATIVE] + [Candidate(lock, lock) for lock in self.options.locks]

    def point(self, candidates, where, rounds, program, arguments, limit, read, prefix=(), jobs=1):
        """One place: all candidates, interleaved, each round in another order; `jobs` of them at once, which is for programs
        that sleep nearly all the time."""
        points = [Point(c, where) for c in candidates]
        for number in range(rounds):
            first = number % len(points)
            # After two failures it does not get better, and each costs the whole time limit.
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


def itself(value):
    return value


def of(*path):
    """Gets a figure out of a program's JSON."""
    def get(result):
        for key in path:
            result = result[key]
        return result
    return get


# ---- the first file: what calls cost --------------------------------------------------------------------------------

UNCONTENDED = {"signal": "`pthread_cond_signal`, no waiter", "broadcast": "`pthread_cond_broadcast`, no waiter",
               "locked-signal": "lock, signal, unlock; no waiter", "sem": "`sem_wait`, `sem_post`",
               "sem-try": "`sem_trywait`, `sem_post`"}


def costs(runner):
    o = runner.options
    candidates = [NATIVE, UNSELECTED] + [Candidate(lock, lock) for lock in harness.pass_through() + o.locks]
    everything, rows = [], []
    batch = 20000 if o.quick else 200000
    for what, title in UNCONTENDED.items():
        points = runner.point(candidates, {"what": what}, 3 if o.quick else max(15, o.rounds), "wait_cost",
                              ["--what", what, "--iterations", str(batch), "--batches", "10"], 30,
                              number_after("nanoseconds an operation"))
        everything += points
        base = points[0].results
        for p in points:
            if not p.results or not base:
                rows.append([title, p.candidate.name, "failed", "", "", ""])
                continue
            paired = sorted(a / b for a, b in zip(p.results, base))
            rows.append([title, p.candidate.name, f"{min(p.results):.2f}", f"{statistics.median(p.results):.2f}",
                         f"{min(p.results) / min(base):.3f}",
                         f"{paired[len(paired) // 10]:.2f}–{paired[-1 - len(paired) // 10]:.2f}"])
    heading = ["call", "lock", "fastest ns", "median ns", "ratio of minima", "paired ratios, 10–90 %"]
    text = (f"{len(everything[0].results)} interleaved rounds of 10 × {batch} calls, in a process that has had a second "
            "thread. Ratios are to the C library's without ours.")
    return [p.as_json() for p in everything], [("Without company", text, heading, rows)]


FEW, MANY = 1000, 3000


def instructions_of(build, candidate, what, folder):
    """Instructions and locked ones of one operation."""
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
    rows = [[UNCONTENDED[what], c.name, str(n.get("instructions", "failed")), str(n.get("locked", ""))]
            for (what, c), n in zip(jobs, counted)]
    text = "Exact: the difference between two lengths of run under callgrind, without the loop itself."
    return ([{"what": what, "candidate": c.name, **n} for (what, c), n in zip(jobs, counted)],
            [("Instructions", text, ["call", "lock", "instructions", "of these locked"], rows)])


def contended_candidates(runner):
    """The C library's, and ours with the locks that stand for the others."""
    chosen = [lock for lock in ("loiter", "futex", "mcs", "mcscr") if lock in runner.options.locks]
    return [NATIVE, Candidate("pthread", "pthread")] + [Candidate(lock, lock) for lock in chosen]


def semaphore_candidates():
    return [NATIVE, Candidate("pthread", "pthread"), Candidate("ours, FIFO", "loiter", sem=FIFO),
            Candidate("ours, mostly LIFO", "loiter", sem=MOSTLY_LIFO)]


def throughput_rows(points, title):
    base = points[0].median(itself)
    rows = []
    for p in points:
        ratio = f"{p.median(itself) / base:.2f}" if base and p.results else "–"
        rows.append([title, p.candidate.name, p.cell(lambda v: v / 1e3, "{:.1f}"), ratio])
    return rows


def turns(runner):
    o = runner.options
    seconds = 0.1 if o.quick else 0.5
    rounds = 2 if o.quick else o.rounds
    everything, rows = [], []
    for place, prefix in (("any CPU", ()), ("one CPU", ("taskset", "-c", "0"))):
        for title, candidates, arguments in (
                ("condition variable, signal inside", contended_candidates(runner), ["--what", "cond-turns"]),
                ("condition variable, signal outside", contended_candidates(runner), ["--what", "cond-turns", "--outside"]),
                ("semaphores", semaphore_candidates(), ["--what", "sem-turns"])):
            points = runner.point(candidates, {"what": title, "place": place}, rounds, "wait_cost",
                                  arguments + ["--seconds", str(seconds)], 20, number_after("operations a second"),
                                  prefix)
            everything += points
            rows += throughput_rows(points, f"{title}; {place}")
    text = (f"Two threads take turns: thousand turns a second, median (range) of {rounds} interleaved rounds of {seconds} s, "
            "and the ratio of medians to the C library's. A turn's time is mostly the kernel's, and where it runs the "
            "threads: on two CPUs, the range says more than the median; hence also both on one CPU.")
    return ([p.as_json() for p in everything],
            [("Taking turns", text, ["what", "lock", "thousand turns a second", "ratio"], rows)])


def rate_and_share(text):
    rate, share = number_after("operations a second")(text), number_after("smallest share")(text)
    return None if rate is None or share is None else {"rate": rate, "smallest_share": share}


def lock(runner):
    o = runner.options
    seconds, rounds = (0.1, 2) if o.quick else (1, o.rounds)
    everything, rows = [], []
    for threads in (2, 4, 16):
        points = runner.point(semaphore_candidates(), {"threads": threads}, rounds, "wait_cost",
                              ["--what", "sem-lock", "--threads", str(threads), "--seconds", str(seconds)], 30,
                              rate_and_share)
        everything += points
        base = points[0].median(of("rate"))
        rows += [[str(threads), p.candidate.name, p.cell(lambda r: r["rate"] / 1e3, "{:.0f}"),
                  f"{p.median(of('rate')) / base:.2f}" if base and p.results else "–",
                  p.cell(of("smallest_share"))] for p in points]
    text = (f"A semaphore of 1 as a lock around one addition: thousand pairs a second, median (range) of {rounds} "
            f"interleaved rounds of {seconds} s. The smallest share is that of the thread that got least, relative to an "
            "equal part: a high rate with a small share is one thread that goes through again and again.")
    return ([p.as_json() for p in everything],
            [("A semaphore as a lock", text, ["threads", "semaphore", "thousand pairs a second", "ratio", "smallest share"],
              rows)])


def herd(runner):
    o = runner.options
    rounds, inner = (2, 3) if o.quick else (o.rounds, 10)
    everything, rows = [], []
    for waiters in (64,) if o.quick else (8, 64):
        points = runner.point(contended_candidates(runner), {"waiters": waiters}, rounds, "herd",
                              ["--waiters", str(waiters), "--rounds", str(inner)], 60, document)
        everything += points
        rows += [[str(waiters), p.candidate.name, p.cell(of("voluntary_per_waiter", "median")),
                  p.cell(of("involuntary_per_waiter", "median")), p.cell(of("most_runnable", "median"), "{:.0f}"),
                  str(int(max(p.values(of("most_runnable", "max")), default=0))),
                  p.cell(of("us_until_through", "median"), "{:.0f}"),
                  p.cell(of("returns_per_waiter", "median"))] for p in points]
    text = (f"A broadcast to all waiters under the mutex, which is then held for another 2 ms. Per waiter; median (range) of "
            f"{rounds} interleaved processes, each of which tells the median of {inner} broadcasts. How many could run at "
            "once is sampled from /proc, in broadcasts of their own, and so is a lower bound. The time begins when the "
            "broadcaster unlocks and ends when the last waiter is about to. Returns: from a wait; 1 means nobody woke "
            "without cause.")
    heading = ["waiters", "lock", "voluntary switches", "involuntary switches", "runnable at once", "at most",
               "µs until all are through", "returns"]
    return [p.as_json() for p in everything], [("A herd", text, heading, rows)]


# ---- the second file: which waiter a signal wakes ---------------------------------------------------------------------------

def queue(runner):
    """M8."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.seconds, o.rounds)
    places = (4, 32) if o.quick else (1, 2, 4, 8, 16, 32)
    candidates = [NATIVE]
    for name in ("mcs", "mcscr", "loiter"):
        candidates += [Candidate(f"{name}, FIFO", name, cond=FIFO), Candidate(f"{name}, mostly LIFO", name, cond=MOSTLY_LIFO)]
    at = {n: runner.point(candidates, {"producers": n}, rounds, "producer_consumer",
                          ["--producers", str(n), "--seconds", str(seconds)], 4 * seconds + 30, document)
          for n in places}
    heading = ["mutex, condition variables"] + [str(n) for n in places]

    def rows(get, form):
        return [[c.name] + [at[n][i].cell(get, form) for n in places] for i, c in enumerate(candidates)]

    note = f"Columns: number of producers. Median (range) of {rounds} interleaved runs of {seconds} s."
    expected = ("Expected (paper, §6.7, Fig. 10): 3 acquisitions a message with a FIFO mutex, as every producer finds the queue "
                "full, waits on not_full and acquires the mutex again; 2 with a CR mutex, where threads wait on the mutex "
                "instead. The paper's condition variables are FIFO.")
    seen = []
    for i, c in enumerate(candidates):
        value = at[places[-1]][i].median(of("acquisitions_per_message"))
        if value is not None:
            seen.append(f"{c.name} {value:.2f}")
    expected += f" Seen with {places[-1]} producers: " + "; ".join(seen) + "."
    return ([p.as_json() for points in at.values() for p in points],
            [("M8: acquisitions a message", expected + " " + note, heading, rows(of("acquisitions_per_message"), "{:.2f}")),
             ("M8: thousand messages a second", note, heading,
              rows(lambda r: r["messages_per_second"] / 1e3, "{:.0f}")),
             ("M8: context switches a message", note, heading, rows(of("switches_per_message"), "{:.3f}")),
             ("M8: waits on not_full a message", note, heading,
              rows(lambda r: r["waits_not_full"] / max(r["messages"], 1), "{:.3f}")),
             ("M8: futile wake-ups a message", "Returns from a wait that found the queue as it was before: each is another "
              "acquisition. " + note, heading,
              rows(lambda r: r["futile_wakeups"] / max(r["messages"], 1), "{:.3f}"))])


def pool(runner):
    """M12."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.pool_seconds, o.rounds)
    places = (8, 32) if o.quick else (5, 8, 16, 32)
    appends = (FIFO, MOSTLY_LIFO) if o.quick else (FIFO, "0.5", "0.1", "0.01", MOSTLY_LIFO)
    semaphore = ("--semaphore",)
    candidates = [NATIVE] + [Candidate(f"loiter, P = {p}", "loiter", cond=p) for p in appends]
    candidates += [Candidate(f"mcs, P = {p}", "mcs", cond=p) for p in (FIFO, MOSTLY_LIFO)]
    candidates += [Candidate("semaphore: C library", None, arguments=semaphore)]
    candidates += [Candidate(f"semaphore: P = {p}", "loiter", sem=p, arguments=semaphore) for p in appends]
    everything, tables = [], []
    for buffers in (5, 1):
        at = {n: runner.point(candidates, {"threads": n, "buffers": buffers}, rounds, "buffer_pool",
                              ["--threads", str(n), "--buffers", str(buffers), "--seconds", str(seconds)],
                              4 * seconds + 30, document) for n in places}
        everything += [p for points in at.values() for p in points]
        heading = ["waiting"] + [f"{n} threads" for n in places]

        def rows(get, form):
            return [[c.name] + [at[n][i].cell(get, form) for n in places] for i, c in enumerate(candidates)]

        note = f"Median (range) of {rounds} interleaved runs of {seconds} s; P: chance that a waiter is appended."
        if buffers == 5:
            name = "M12, 5 buffers"
            expected = ("Expected (paper, §6.11, Fig. 14): throughput falls as P grows, 1/1000 keeps most of what LIFO gains, a "
                        "semaphore gives the same. With fewer CPUs than buffers a thread finds the pool empty only when "
                        "those that hold buffers do not run, so most iterations wait for nothing, whatever P is. ")
        else:
            name = "M12, 1 buffer"
            expected = ("The same with one buffer, for a machine with few CPUs: here threads do wait. ")
        tables.append((f"{name}: iterations a second", expected + note, heading, rows(of("iterations_per_second"), "{:.0f}")))
        tables.append((f"{name}: different threads among 1000 admissions", note, heading,
                       rows(of("distinct_threads"), "{:.1f}")))
        tables.append((f"{name}: the smallest thread's share of an equal part", note, heading,
                       rows(of("share", "smallest"), "{:.2f}")))
        tables.append((f"{name}: context switches an iteration", note, heading,
                       rows(of("switches_per_iteration"), "{:.3f}")))
    return [p.as_json() for p in everything], tables


def workers(runner):
    """M26."""
    o = runner.options
    seconds, rounds = (0.3, 1) if o.quick else (o.pool_seconds, o.rounds)
    semaphore = ("--semaphore",)
    candidates = [NATIVE, Candidate("loiter, FIFO", "loiter", cond=FIFO),
                  Candidate("loiter, mostly LIFO", "loiter", cond=MOSTLY_LIFO),
                  Candidate("semaphore: C library", None, arguments=semaphore),
                  Candidate("semaphore: FIFO", "loiter", sem=FIFO, arguments=semaphore),
                  Candidate("semaphore: mostly LIFO", "loiter", sem=MOSTLY_LIFO, arguments=semaphore)]
    loads = ((10000, 1), (10000, 20)) if o.quick else ((1000, 1), (10000, 1), (20000, 1), (10000, 20))
    everything, rows = [], []
    for rate, burst in loads:
        points = runner.point(candidates, {"rate": rate, "burst": burst}, rounds, "thread_pool",
                              ["--workers", "32", "--rate", str(rate), "--burst", str(burst), "--seconds", str(seconds)],
                              4 * seconds + 30, document)
        everything += points
        load = f"{rate}" + (f" in bursts of {burst}" if burst > 1 else "")
        rows += [[load, p.candidate.name, p.cell(of("distinct_workers_in_100"), "{:.1f}"),
                  p.cell(of("distinct_workers_in_1000"), "{:.1f}"), p.cell(of("switches_per_job")),
                  p.cell(of("waited_us", "p50"), "{:.0f}"), p.cell(of("waited_us", "p99"), "{:.0f}"),
                  p.cell(of("cpu_share"))] for p in points]
    text = ("Expected (paper, §6.11 and Fig. 13): mostly-LIFO wakes only the workers that the load needs, with fewer context "
            f"switches. 32 workers; a job is 5000 steps of a mt19937. Median (range) of {rounds} interleaved runs of "
            f"{seconds} s. µs: from submission until a worker begins. CPU: of all threads, in CPUs.")
    heading = ["jobs a second", "waiting", "workers among 100 jobs", "among 1000", "switches a job", "µs, median",
               "µs, 99 %", "CPU"]
    return [p.as_json() for p in everything], [("M26: a pool of workers", text, heading, rows)]


# ---- all of it -------------------------------------------------------------------------------------------------------

GROUPS = {"costs": costs, "instructions": instructions, "turns": turns, "lock": lock, "herd": herd, "queue": queue,
          "pool": pool, "workers": workers, **fault_groups.MEASURE}
TITLES = {"waits": "What condition variables and semaphores cost through the preload",
          "condition-variables": "Whom a condition variable or a semaphore wakes"}


def exports_semaphores(build):
    names = subprocess.run(["nm", "-D", "--defined-only", str(build.library)], capture_output=True, text=True,
                           timeout=60).stdout
    return re.search(r"\bsem_wait\b", names) is not None


RESULTS = harness.TREE / "lab" / "results"


def is_pages(folder):
    return Path(folder).resolve() == (harness.TREE / "lab" / "pages").resolve()


def write(folder, name, order, measured):
    """The file's JSON, and the markdown made from it. Groups that are not measured now stay as they were."""
    file = RESULTS / (name + ".json") if is_pages(folder) else Path(folder, name + ".json")
    groups = {}
    if file.is_file():
        try:
            groups = json.loads(file.read_text())["groups"]
        except (ValueError, KeyError) as error:
            die(f"{file} is not one of ours: {error}")
    groups.update(measured)
    groups = {g: groups[g] for g in order if g in groups}
    file.write_text(json.dumps({"measurement": name, "groups": groups}, indent=1) + "\n")
    text = [f"# {TITLES[name]}\n"]
    for group in groups.values():
        for table in group["tables"]:
            text.append(f"## {table['title']}\n\n{table['text']}\n\n{harness.markdown(table['rows'], table['heading'])}\n")
        text += [f"**{remark}**\n" for remark in group["remarks"]]
        text.append(harness.provenance_line(group) + "\n")
    Path(folder, name + ".md").write_text("\n".join(text))


def groups_in(file):
    try:
        return json.loads(Path(file).read_text())["groups"]
    except (OSError, ValueError, KeyError) as error:
        die(f"{file} is not one of ours: {error}")


def write_faults(options, before, measured):
    """The same for the groups of faults, whose tables need all groups: JSON alone, or with the page."""
    file = Path(options.keep) if options.keep else Path(
        RESULTS if is_pages(options.out) else options.out, fault_groups.FILE + ".json")
    groups = {**(groups_in(file) if file.is_file() else {}), **measured}
    groups = {g: groups[g] for g in fault_groups.GROUPS if g in groups}
    if groups:
        document_text = json.dumps({"measurement": fault_groups.FILE, "groups": groups}, separators=(",", ":"))
        # One point a line, so that a diff shows the changed points.
        file.write_text(document_text.replace('{"candidate"', '\n{"candidate"') + "\n")
    if options.out and not options.keep:
        Path(options.out, fault_groups.FILE + ".md").write_text(
            fault_groups.page(groups, before, harness.markdown, harness.provenance_line))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--only", metavar="GROUPS", help="comma-separated (all); faults: signalled, held, "
                        "deadlines, broadcast; none: only writes the page of faults anew")
    parser.add_argument("--programs", metavar="DIR", help="take the programs from this build, and from --build the library "
                        "alone")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (7; uncontended costs: at least 15; faults: 1 to 3)")
    parser.add_argument("--seconds", type=float, default=5, help="of a run of the queue (5)")
    parser.add_argument("--pool-seconds", type=float, default=2, help="of a run of the buffer pool and the workers (2)")
    parser.add_argument("--locks", help="comma-separated: those of the groups costs and instructions and of the faults (all "
                        "plain names)")
    parser.add_argument("--quick", action="store_true", help="shows within a minute or two that all of it works")
    parser.add_argument("--out", metavar="DIR", help="where to write JSON and markdown; docs/measurements: the JSON goes to "
                        "results/. Groups that are there and not measured now stay (nowhere)")
    parser.add_argument("--hold", choices=("auto", "spin", "sleep"), default="auto", help="group signalled: how the mutex is "
                        "held (auto: awake below 1 ms, asleep from there on)")
    parser.add_argument("--outside-us", type=int, default=0, metavar="N", help="groups signalled and broadcast: what those who "
                        "use the mutex leave between two uses (0)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="faults: at most so many processes at once, where "
                        "they sleep (as many as the point bears)")
    parser.add_argument("--before", metavar="FILE", help="faults: an earlier run's JSON, to put beside this one's in the page")
    parser.add_argument("--keep", metavar="FILE", help="faults: write their JSON here, for a later --before, and no page")
    parser.add_argument("--note", metavar="TEXT", help="to be said under the tables, with what was measured")
    options = parser.parse_args()
    options.given_rounds = options.rounds  # the groups of faults have numbers of their own
    if options.rounds is None:
        options.rounds = 7
    if options.rounds < 1 or options.seconds < 0.01 or options.pool_seconds < 0.01:
        parser.error("--rounds starts at 1, --seconds and --pool-seconds at 0.01")
    if options.out and not Path(options.out).is_dir():
        die(f"{options.out} is not a folder")
    return options


def groups_wanted(options):
    """In the order in which they run."""
    named = list(GROUPS) if not options.only else [
        group for name in options.only.split(",")
        for group in (fault_groups.GROUPS if name == "faults" else [] if name == "none" else [name])]
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


def run_group(group, runner, before, remarks):
    """Measures, prints and writes one group; false if a run of it failed. Each group is written at its end, so that an interrupted run
    keeps the groups before."""
    options, faults = runner.options, group in fault_groups.GROUPS
    others = harness.OthersShare()
    if faults:
        data = GROUPS[group](runner)
        tables = fault_groups.TABLES[group](data, before.get(group, {}).get("points", []))
    else:
        data, tables = GROUPS[group](runner)
    provenance = harness.provenance(runner.build, others)
    for title, explanation, heading, rows in tables:
        print(f"{title}\n{explanation}\n\n{harness.table(rows, heading)}\n")
    print(harness.provenance_line(provenance) + "\n", flush=True)
    if faults and (options.out or options.keep):
        write_faults(options, before, {group: {**provenance, "remarks": remarks, "points": data}})
    if not faults and options.out:
        measured = {group: {**provenance, "remarks": remarks, "tables": [
            dict(zip(("title", "text", "heading", "rows"), table)) for table in tables], "points": data}}
        for name, order in (("waits", FIRST_FILE), ("condition-variables", SECOND_FILE)):
            if group in order:
                write(options.out, name, order, measured)
    return not any(entry.get("failures") or entry.get("failed") for entry in data)


def main():
    options = parse_options()
    build = Build(options.build)
    if options.programs:
        build.programs = Path(options.programs).resolve() / "lab" / "programs"
    wanted = groups_wanted(options)
    need_programs(build, wanted)
    choose_locks(options, build)
    before = groups_in(options.before) if options.before else {}
    remarks = remarks_on(options, build)
    for remark in remarks:
        print(remark + "\n")
    if not wanted and options.out:
        write_faults(options, before, {})
    runner = Runner(build, options)
    good = [run_group(group, runner, before, remarks) for group in wanted]
    return 0 if all(good) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
