"""MutexBench with two threads at every place that a mutex can have in a cache line, under this build's library and another one,
in turn: lab/results/alignment.json, from which `python3 -m lab.pages alignment` makes a page. To be run on a machine that does nothing
else."""

import statistics

import harness
from lab.run import packed, rounds, script
from lab.run.runner import Failed, preloaded

PLACES = list(range(0, 64, 8))
HEADING = ["lock", "library"] + [str(p) for p in PLACES]
RESULT = harness.TREE / "lab/results/alignment.json"


def rows_of(figures):
    """`figures` contains, by lock, library and place: the least, median and largest number of acquisitions a millisecond."""
    for lock, libraries in figures.items():
        medians = {which: [at[str(p)][1] for p in PLACES] for which, at in libraries.items()}
        for which, values in medians.items():
            yield [lock, which] + [f"{value:.0f}" for value in values]
        yield [lock, "ratio"] + [f"{after / before:.2f}" for before, after in zip(medians["before"], medians["after"])]


def page(_):
    result = packed.document(RESULT)
    seconds = result["command"].rpartition("--seconds ")[2].split()[0]
    return f"""# A mutex at each place in a cache line

Two threads run MutexBench (4 PRNG steps inside the lock, at most 200 outside) on one `pthread_mutex_t` whose address is
0, 8, … 56 modulo 64. A cell has the acquisitions a millisecond, the median of {result["rounds"]} interleaved runs of {seconds} s. In the library
*before* ({result["before"]}) every lock lies at offset 24 of the mutex, and the tag that names the owner at offset 0. In the library
*after* a lock of one word that is 0 when free lies at offset 0, and the tag at offset 4. `ticket32`, `twa32` and `loiter` lie at the
same offset in both libraries, so their ratios show the noise.

{harness.markdown(list(rows_of(result["acquisitions_a_millisecond"])), HEADING)}

{harness.provenance_line(result)}
"""


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--before", required=True, metavar="LIBRARY", help="another libusher.so, to compare with")
    parser.add_argument("--before-is", required=True, metavar="TEXT", help="the commit of that library")
    parser.add_argument("--locks", default="tas,ttas,futex,ticket32,lifo,lifo-cr,qspinlock,twa32,loiter")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a run")
    options = parser.parse_args()
    build = harness.Build(options.build)
    build.need(build.library, build.program("alignment") or build.programs / "alignment", options.before)
    libraries = {"before": options.before, "after": str(build.library)}
    others = harness.OthersShare()
    locks = options.locks.split(",")

    def medians(candidate):
        """Returns {place: median of the acquisitions a millisecond} of one run."""
        lock, which = candidate
        outcome = harness.run([build.program("alignment"), "--rounds", "1", "--seconds", str(options.seconds)], limit=60,
                              env=preloaded(libraries[which], lock))
        if not outcome.ok:
            raise Failed(outcome.trouble())
        lines = [line.split() for line in outcome.stdout.splitlines()]
        return {int(place): float(median) for place, _, median, _ in lines}

    samples = rounds.sampled([(lock, which) for lock in locks for which in libraries], options.rounds, medians)
    figures = {}
    for lock in locks:
        figures[lock] = {}
        for which in libraries:
            at = {p: [one[p] for one in samples[lock, which]] for p in PLACES}
            figures[lock][which] = {str(p): [min(v), statistics.median(v), max(v)] for p, v in at.items()}
    print(harness.table(list(rows_of(figures)), HEADING, right=range(2, len(HEADING))))
    rounds.put(RESULT, {"measurement": "alignment", **harness.provenance(build, others), "rounds": options.rounds,
                        "before": options.before_is, "acquisitions_a_millisecond": figures})


if __name__ == "__main__":
    script.entry(main)
