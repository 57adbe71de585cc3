"""Readers without writers on simulated machines of 20 to 384 hardware threads, under the read-write locks phase-fair and bravo, and
under the operations that a reader of glibc's lock executes while no thread writes.

  python3 -m lab.cases.readers_simulated            run: some minutes; writes lab/results/readers-simulated.json
  python3 -m lab.cases.readers_simulated --show     print the stored results; runs nothing

Each thread has a core of its own, so that throughput could be linear: the number of threads times the throughput of one. Figures are medians
over the seeds. A run is deterministic."""

import statistics

import harness
from harness import TREE, Build
from lab.run import packed, rounds, script, simulated

RESULT = TREE / "lab" / "results" / "readers-simulated.json"
CORES = {"xeon-e5-2680v2": 20, "x5-2": 36, "x5-4": 72, "graviton4-2": 192, "epyc-9654-2": 192, "xeon-8260-8": 192}
THREADS = [1, 2, 8, 16, 32, 64, 128, 192]
SECTIONS = [0, 100, 1000]  # iterations of an empty loop, a third to half a nanosecond each
LOCKS = {"glibc": 5, "phase-fair": 0, "bravo": 2}
SEEDS = 3


def simulate(build, machine, section, number):
    """Returns the median throughput for each number of threads, in operations a microsecond."""
    threads = [n for n in THREADS if n <= CORES[machine]]
    points = simulated.points(build, "rwbench", machine, ["ttas-spin"], threads, SEEDS,
                              {"rwlock": number, "writes": 0, "inside": section, "outside": 0}, options=["--pinned"])
    return {n: statistics.median(p["throughput"] for p in points if p["threads"] == n) for n in threads}


def summary(points):
    """Returns the lines of a table: the lock's throughput relative to that of glibc's lock, and as a share of linear scaling."""
    rows = []
    for point in points:
        one, of = point["throughput"], {}
        for lock in ("phase-fair", "bravo"):
            of[lock] = {n: one[lock][n] / one["glibc"][n] for n in one[lock]}
        most = max(one["bravo"], key=int)
        rows.append([point["machine"], str(point["section"]), most, *(f"{min(of[lock].values()):.2f} … {max(of[lock].values()):.2f}" for lock in of),
                     *(f"{one[lock][most] / (int(most) * one[lock]['1']):.2f}" for lock in LOCKS)])
    return rows


def show(points):
    heads = ["machine", "section", "most threads", "phase-fair / glibc", "bravo / glibc", *(f"{lock}: of linear" for lock in LOCKS)]
    print(harness.table(summary(points), heads, right={1, 2, 5, 6, 7}))


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print the stored results")
    options = parser.parse_args()
    if options.show:
        show(packed.document(RESULT)["points"])
        return 0
    build = Build(options.build)
    build.need(build.usher)
    points, others = [], harness.OthersShare()
    for machine in CORES:
        for section in SECTIONS:
            throughput = {lock: {str(n): round(t, 3) for n, t in simulate(build, machine, section, number).items()}
                          for lock, number in LOCKS.items()}
            points.append({"machine": machine, "section": section, "throughput": throughput})
            print(machine, section, flush=True)
    rounds.put(RESULT, {"measurement": "readers without writers, simulated", **harness.provenance(build, others), "seeds": SEEDS,
                        "points": points})
    show(points)
    return 0


if __name__ == "__main__":
    script.entry(main)
