"""MutexBench with two threads at every place that a mutex can have in a cache line, under this build's library and another one,
in turn: lab/pages/alignment.md and lab/results/alignment.json. To be run on a machine that does nothing else."""

import statistics

import harness
from lab.run import rounds, script
from lab.run.runner import Failed, preloaded

PLACES = list(range(0, 64, 8))


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
    rows, figures = [], {}
    for lock in locks:
        figures[lock] = {}
        for which in libraries:
            at = {p: [one[p] for one in samples[lock, which]] for p in PLACES}
            figures[lock][which] = {p: [min(v), statistics.median(v), max(v)] for p, v in at.items()}
        for which in libraries:
            rows.append([lock, which] + [f"{figures[lock][which][p][1]:.0f}" for p in PLACES])
        rows.append([lock, "ratio"] + [f"{figures[lock]['after'][p][1] / figures[lock]['before'][p][1]:.2f}" for p in PLACES])
    heading = ["lock", "library"] + [str(p) for p in PLACES]
    print(harness.table(rows, heading, right=range(2, len(heading))))
    provenance = harness.provenance(build, others)
    rounds.put(harness.TREE / "lab/results/alignment.json",
               {"measurement": "alignment", **provenance, "rounds": options.rounds, "before": options.before_is,
                "acquisitions_a_millisecond": figures})
    (harness.TREE / "lab" / "pages" / "alignment.md").write_text(
        f"""# A mutex at each place in a cache line

Two threads run MutexBench (4 PRNG steps inside the lock, at most 200 outside) on one `pthread_mutex_t` whose address is \
0, 8, … 56 modulo 64. A cell
has the acquisitions a millisecond, the median of {options.rounds} interleaved runs of {options.seconds} s. In the library *before* \
({options.before_is}) every lock lies at offset 24
of the mutex, and the tag that names the owner at offset 0. In the library *after* a lock of one word that is 0 when free lies at offset 0, and the
tag at offset 4 (`library/preload/layout.hpp`).
`ticket32`, `twa32` and `loiter` lie at the same offset in both libraries, so their ratios show the noise.

{harness.markdown(rows, heading)}

{harness.provenance_line(provenance)}
""")


if __name__ == "__main__":
    script.entry(main)
