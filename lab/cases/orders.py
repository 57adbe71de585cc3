"""Orders of admission under real programs, written to lab/results/orders.json: LevelDB with FIFO locks and with locks that restrict
concurrency (claim M6), and perl with condition variables in FIFO and in mostly LIFO order (claim M11). All candidates of a program and
number of threads run in turn in one measurement.

  python3 -m lab.cases.orders                    measure: a quarter of an hour
  python3 -m lab.cases.orders --show             print the stored results; measures nothing"""

import re
import statistics
from pathlib import Path

import harness
from harness import TREE, Build
from lab.run import case, packed, rounds, runner, script
from lab.run.runner import Failed

RESULT = TREE / "lab" / "results" / "orders.json"
THREADS = [2, 5, 8, 16, 32]
FIFO, LIFO = "FIFO", "mostly LIFO"
PREPEND = {"USHER_COND_APPEND": "0.001"}
# By program: the candidates by name. Each is a lock and further environment variables; the first one is the reference.
CANDIDATES = {
    "leveldb": {"pthread": ("pthread", {})} | {lock: (lock, {}) for lock in ("mcs", "mcscr", "mcs-park", "mcscr-park", "twa", "steady")},
    "perl": {f"{lock}, {order}": (lock, extra) for lock in ("steady", "mcs") for order, extra in ((FIFO, {}), (LIFO, PREPEND))},
}
LIMIT = 60  # seconds, for a run; one that takes longer has no figure


def figure(place, one, folder, threads, candidate):
    """Returns the program's figure in one run, or None if the run failed."""
    lock, extra = CANDIDATES[one.name][candidate]
    filled = one.at(threads, 1)
    try:
        text, _ = runner.run_case(place, filled, folder, LIMIT, env=place.environment(lock, filled.environment | extra))
    except Failed as error:
        print(f"{one.name}, {candidate}, {threads} threads: {error}", flush=True)
        return None
    return float(re.search(one.metric, text, re.M).group(1))


def measure(build, options):
    build.need(build.usher, build.library)
    place, others, points, packages = runner.Place(build), harness.OthersShare(), [], []
    report = script.Report()

    def work(one, folder):
        for threads in options.threads:
            found = rounds.sampled(CANDIDATES[one.name], options.rounds, lambda c: figure(place, one, Path(folder), threads, c))
            points.extend({"program": one.name, "threads": threads, "candidate": c, "rounds": values} for c, values in found.items())
            print(one.name, threads, {c: statistics.median(v or 0 for v in values) for c, values in found.items()}, flush=True)
        packages.extend(one.packages())

    report.each_case(case.chosen(case.TRIED, ",".join(CANDIDATES)), place, work, "usher-orders-")
    rounds.put(RESULT, {"measurement": "orders of admission under real programs", **harness.provenance(build, others),
                        "virtual": rounds.machine().get("virtual"), "packages": place.versions(packages), "points": points})
    return 1 if report.failed or report.skipped else 0


def ratio(values, base):
    """Returns the median and the range of the ratios of the two candidates in each round."""
    found = [a / b for a, b in zip(values, base) if a and b]
    return f"{statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})" if found else "no run ended"


def show():
    result = packed.document(RESULT)
    at = {(p["program"], p["candidate"], p["threads"]): p["rounds"] for p in result["points"]}
    counts = list(dict.fromkeys(p["threads"] for p in result["points"]))
    pairs = {"leveldb": [(lock, "pthread") for lock in list(CANDIDATES["leveldb"])[1:]]
             + [("mcscr", "mcs"), ("mcscr-park", "mcs-park"), ("mcscr", "twa")],
             "perl": [(f"{lock}, {LIFO}", f"{lock}, {FIFO}") for lock in ("steady", "mcs")]}
    for program, compared in pairs.items():
        rows = [[f"{a} / {b}", *(ratio(at[(program, a, n)], at[(program, b, n)]) for n in counts)] for a, b in compared]
        print(harness.table(rows, [program, *(f"{n} threads" for n in counts)]))
    print(harness.provenance_line(result))
    return 0


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print the stored results")
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=THREADS)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    return show() if options.show else measure(Build(options.build), options)


if __name__ == "__main__":
    script.entry(main)
