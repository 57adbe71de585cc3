"""Checks `usher predict` on programs with known answers: each runs on a simulated machine, is recorded there with few threads, and is
simulated with more threads and other locks, as itself and as a replay of the recording. Writes lab/results/replayed.json;
`python3 -m lab.pages replayed` makes the page.

  python3 -m lab.cases.replayed                      all programs; three minutes on two CPUs
  python3 -m lab.cases.replayed --only mutex-short   some; the others' results stay
  python3 -m lab.cases.replayed --costly             the same with a recorder that takes 30 ns of a call

The list, the parameters, the metrics and the bars below were committed before the first run of any program of the list.

The recording is of 10 ms under `futex`, with the list's number of threads. A point is a lock and a number of threads. Its value is the
number of lock operations a second, the median of three seeds; the prediction is the median over three seeds and both limits of the moved
lines. The runs of the program and of its replay are equally long.

Bars: the prediction of each point is within 5 % of the program's value, and of two locks of one program and number of threads whose values
differ by 10 % or more, the faster is predicted to be the faster."""

import concurrent.futures
import itertools
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import TREE, between_markers, die
from lab.run import packed, rounds, script

RESULT = TREE / "lab/results/replayed.json"
LIMIT = 1200
BAR, ORDER_FROM = 0.05, 0.10
LOCKS = "futex,steady,loiter-park,mcs,twa,mcscr"
THREADS = {"x5-2": "2,8,32,72", "epyc-zen4-vm-2": "2,8,32"}


@dataclass
class Program:
    name: str
    title: str
    program: str
    set: dict = field(default_factory=dict)
    recorded: int = 2  # threads
    machine: str = "x5-2"
    threads: str = ""


PROGRAMS = [
    Program("mutex-short", "MutexBench: 4 steps inside, up to 200 outside", "mutexbench"),
    Program("mutex-long", "MutexBench: 200 inside, up to 2000 outside", "mutexbench", {"cs": 200, "ncs": 2000}),
    Program("mutex-only", "MutexBench: 20 inside, nothing outside", "mutexbench", {"cs": 20, "ncs": 0}),
    Program("mutex-seldom", "MutexBench: 20 inside, up to 20000 outside", "mutexbench", {"cs": 20, "ncs": 20000}),
    Program("mutex-shared", "MutexBench with a shared generator: sections move lines", "mutexbench", {"shared": 1, "cs": 20, "ncs": 400}),
    Program("interlock", "one of 64 locks, drawn anew each time", "interlock", {"locks": 64}),
    Program("throwing", "a list that each section reorders", "throwing"),
    Program("keymap", "lookups in a map larger than the caches", "keymap"),
    Program("stripes", "8 locks, half of all sections under one of them", "mixed", {"locks": 8, "hot": 500}),
    Program("two-lengths", "one section in twenty is twenty times as long", "mixed", {"long": 50}),
    Program("nested", "two of 8 locks at once, in their order", "mixed", {"locks": 8, "nested": 300}),
    Program("sleeping", "sleeps of about 36 µs between sections", "mixed", {"sleeps": 100000}),
    Program("neighbours", "16 locks, each used by two threads of eight", "mixed", {"locks": 16, "own": 1}, recorded=8),
    Program("queue", "bounded queue, one consumer for a producer", "bounded_queue", recorded=4),
    Program("queue-outside", "the same, signals after the unlock", "bounded_queue", {"outside": 1}, recorded=4),
    Program("queue-starved", "three consumers for a slow producer", "bounded_queue", {"kinds": 4, "produces": 6000}, recorded=4),
    Program("jobs", "8 jobs in a queue; each worker puts its job back", "job_queue", recorded=4),
    Program("rounds", "a leader opens rounds for all workers, by a broadcast", "rounds", recorded=4),
    Program("connections", "a semaphore of three, and a counted lock", "connections", recorded=4),
    Program("readers", "a read-write lock, one write in twenty, and a lock", "readers"),
    Program("vm-short", "MutexBench as above, on two CPUs", "mutexbench", machine="epyc-zen4-vm-2"),
    Program("vm-long", "MutexBench: 200 inside, up to 2000 outside, on two CPUs", "mutexbench", {"cs": 200, "ncs": 2000},
            machine="epyc-zen4-vm-2"),
    Program("vm-sleeping", "sleeps of about 50 µs, on two CPUs", "mixed", {"sleeps": 180000}, machine="epyc-zen4-vm-2"),
    Program("vm-queue", "bounded queue, on two CPUs", "bounded_queue", recorded=4, machine="epyc-zen4-vm-2", threads="4,8,32"),
]


# The options of --costly, added after the first run: the simulated recorder takes 10 ns within a call and 20 ns after it, about as much as
# `usher record` takes natively. The replay knows these costs. The predictions are compared with the program without a recorder.
COSTLY = ["--cost-within", "10", "--cost-between", "20"]


def command_of(p, binary):
    words = [binary, "--machine", TREE / f"lab/sim/machines/{p.machine}.toml", "--program", p.program, "--recorded-threads", p.recorded,
             "--locks", LOCKS, "--threads", p.threads or THREADS[p.machine]]
    for name, value in p.set.items():
        words += ["--set", f"{name}={value}"]
    return [str(w) for w in words]


def measured(p, binary, more=()):
    """Returns the points of a program, or the reason why there are none."""
    try:
        run = subprocess.run([*command_of(p, binary), *more], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    if run.returncode != 0:
        lines = run.stderr.strip().splitlines() or [f"status {run.returncode}"]
        return lines[-1].replace(f"{TREE}/", "").removeprefix("replayed: ")
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def error_of(point):
    actual, predicted = point["actual"][0], point["predicted"][0]
    return abs(predicted / actual - 1) if actual else (0 if predicted == 0 else float("inf"))


def in_range(point):
    """Whether the range of the prediction and that of the program overlap."""
    return point["predicted"][1] <= point["actual"][2] and point["actual"][1] <= point["predicted"][2]


def orders(points):
    """Returns (number of pairs of locks that differ by at least a tenth, number of these pairs that are predicted in the right order)."""
    pairs = right = 0
    by_threads = {}
    for p in points:
        by_threads.setdefault(p["threads"], []).append(p)
    for same in by_threads.values():
        for a, b in itertools.combinations(same, 2):
            x, y = a["actual"][0], b["actual"][0]
            if max(x, y) < (1 + ORDER_FROM) * min(x, y):
                continue
            pairs += 1
            right += (a["predicted"][0] - b["predicted"][0]) * (x - y) > 0
    return pairs, right


def judged(points):
    errors = sorted(error_of(p) for p in points)
    pairs, right = orders(points)
    return {"points": len(points), "within": sum(e <= BAR for e in errors), "median": statistics.median(errors), "worst": errors[-1],
            "in_range": sum(in_range(p) for p in points), "pairs": pairs, "right": right}


def percent(x):
    return f"{100 * x:.1f} %" if x < 10 else f"×{1 + x:.0f}"


def totals(programs):
    sums = [judged(points) for points in programs.values() if isinstance(points, list)]
    found = {key: sum(j[key] for j in sums) for key in ("points", "within", "pairs", "right", "in_range")}
    found["median"] = statistics.median(error_of(p) for points in programs.values() if isinstance(points, list) for p in points)
    found["passed"] = sum(j["within"] == j["points"] and j["right"] == j["pairs"] for j in sums)
    return found


def page_table(results):
    """Returns the page's table: programs with the most points beyond the bar first."""
    costly = results.get("costly", {})
    rows = []
    for p in PROGRAMS:
        points, with_costs = results["programs"].get(p.name), costly.get(p.name)
        if not isinstance(points, list):
            rows.append((0, f"| {p.title} | not run: {points} | | | | | |"))
            continue
        j = judged(points)
        other = "–"
        if isinstance(with_costs, list):
            k = judged(with_costs)
            other = f"{k['within']} of {k['points']}"
        rows.append((j["within"] / j["points"],
                     f"| {p.title} | {j['within']} of {j['points']} | {percent(j['median'])} | {percent(j['worst'])} | "
                     f"{j['right']} of {j['pairs']} | {j['in_range']} of {j['points']} | {other} |"))
    rows.sort(key=lambda row: row[0])
    t = totals(results["programs"])
    head = (f"Of {len(PROGRAMS)} programs, {t['passed']} meet both bars. {t['within']} of {t['points']} points are within 5 % (median error "
            f"{percent(t['median'])}), and {t['right']} of {t['pairs']} pairs of locks that differ by 10 % are in order.\nThe ranges of "
            f"prediction and program overlap at {t['in_range']} points.")
    if costly:
        c = totals(costly)
        head += (f" With a recorder that takes 30 ns of a call, {c['within']} points are\nwithin 5 % (median error "
                 f"{percent(c['median'])}), and {c['right']} of {c['pairs']} pairs in order (last column; not judged).")
    heading = ["program", "points within 5 %", "median error", "largest", "pairs in order", "ranges that overlap", "at 30 ns a call"]
    return "\n".join([head, "", f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *(row for _, row in rows)])


def page(text):
    return between_markers(text, "replayed", page_table(packed.document(RESULT)))


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--only", metavar="NAMES", help="comma-separated (all)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--costly", action="store_true", help="a recorder that takes 30 ns of a call; not judged")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [p.name for p in PROGRAMS]
    if unknown := set(names) - {p.name for p in PROGRAMS}:
        die(f"no program {', '.join(sorted(unknown))}")
    chosen = [p for p in PROGRAMS if p.name in names]
    binary = Path(options.build).resolve() / "lab/programs/replayed"
    if not binary.exists():
        die(f"no {binary}: build the target replayed")
    results = packed.document(RESULT) if packed.is_there(RESULT) else {"programs": {}}
    commit = subprocess.run(["git", "-C", str(TREE), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        into = results.setdefault("costly", {}) if options.costly else results["programs"]
        for p, found in zip(chosen, pool.map(lambda p: measured(p, binary, COSTLY if options.costly else ()), chosen)):
            into[p.name] = found
            line = found if isinstance(found, str) else judged(found)
            print(f"{p.name}: {line}", flush=True)
    results["commit"] = commit
    results["command"] = "python3 -m lab.cases.replayed"
    rounds.put(RESULT, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
