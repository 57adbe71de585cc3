"""Wall time of an uncontended pthread_mutex_lock and unlock through the preload, for every plain lock, beside the C
library's mutex without the library. Rounds are interleaved, and a lock's figure is its fastest round over the C library's
fastest: noise on a shared machine only ever adds time.

A kind may be followed by "alone", a process that never had a second thread, and "trylock", which takes the place of lock:
--kinds "normal,normal alone,recursive alone,normal trylock". `python3 -m lab.pages pair-cost pair-cost-tickets` makes pages of the stored
results."""

import statistics
from pathlib import Path

import catalog
import harness
from harness import Build, die, plain_locks
from lab.run import packed, rounds, script
from lab.run.runner import pair_ns, preloaded

NATIVE = "C library"
UNSELECTED = "library, no lock"  # preloaded without USHER_LOCK: the library forwards every call


def environment(build, lock):
    return preloaded(build.library, None if lock == NATIVE else "" if lock == UNSELECTED else lock)


def measure(build, locks, kind, options):
    """Returns the fastest and the median nanoseconds of a lock and unlock, for each lock, from interleaved rounds in varying order."""
    samples = rounds.sampled(locks, options.rounds, lambda lock: pair_ns(
        build, kind, options.iterations, options.batches, environment(build, lock)))
    base = min(samples[NATIVE])
    result = []
    for lock in locks:
        paired = sorted(a / b for a, b in zip(samples[lock], samples[NATIVE]))
        result.append({"lock": lock, "kind": kind, "minimum_ns": min(samples[lock]),
                       "median_ns": statistics.median(samples[lock]), "ratio_of_minima": min(samples[lock]) / base,
                       "ratio_low": paired[len(paired) // 10], "ratio_high": paired[-1 - len(paired) // 10],
                       "rounds_ns": samples[lock]})
    return result


HEADING = ["kind", "lock", "fastest ns", "median ns", "ratio of minima", "paired ratios, 10–90 %"]
RESULTS = harness.TREE / "lab" / "results"
TITLES = {
    "pair-cost": "# What an uncontended lock and unlock costs through the preload\n\n",
    "pair-cost-tickets": "# What an uncontended lock and unlock of the ticket family costs through the preload\n\n"
                         "For the claims T22 and T23. Other programs used the machine during all of the measurements, so the paired ratios "
                         "vary. The fastest batches, of a quarter of a millisecond each, agree between rounds.\n\n"}


def rows_of(results):
    return [[r["kind"], r["lock"], f"{r['minimum_ns']:.2f}", f"{r['median_ns']:.2f}", f"{r['ratio_of_minima']:.3f}",
             f"{r['ratio_low']:.2f}–{r['ratio_high']:.2f}"] for r in results]


def stored_page(name, _):
    document = packed.document(RESULTS / f"{name}.json")
    return (f"{TITLES[name]}The pairs of lock and unlock ran in {document['rounds']} interleaved rounds of {document['batches']} batches of "
            f"{document['iterations']} pairs, in a process that has had a second thread. (In a process that has had none, a row marked alone, "
            "the C library uses no atomic operations.) Ratios are relative to the C library's mutex without Usher.\n\n"
            f"{harness.markdown(rows_of(document['results']), HEADING)}\n\n{harness.provenance_line(document)}\n")


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--iterations", type=int, default=200000, help="pairs in a batch (200000)")
    parser.add_argument("--batches", type=int, default=10, help="batches in a round; the fastest counts (10)")
    parser.add_argument("--locks", help="comma-separated names or forms (all plain names and the pass-through ones)")
    parser.add_argument("--kinds", default="normal",
                        help=f"comma-separated, of {', '.join(harness.MUTEX_KINDS)} (normal)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.rounds < 1 or options.iterations < 1 or options.batches < 1:
        parser.error("--rounds, --iterations and --batches start at 1")
    build = Build(options.build)
    build.need(build.library, build.program("pair_cost") or build.programs / "pair_cost")
    kinds = options.kinds.split(",")
    for kind in kinds:
        harness.pair_options(kind)
    known = plain_locks() + harness.pass_through()
    chosen = options.locks.split(",") if options.locks else known
    for lock in chosen:
        if lock not in known and catalog.family(lock) not in known:
            die(f"unknown lock '{lock}': {', '.join(known)}")
    locks = [NATIVE, UNSELECTED] + chosen

    others = harness.OthersShare()
    results = [row for kind in kinds for row in measure(build, locks, kind, options)]
    provenance = harness.provenance(build, others)

    print(harness.table(rows_of(results), HEADING, right=(2, 3, 4)))
    print("\n" + harness.provenance_line(provenance))
    if options.json:
        rounds.put(Path(options.json), {"measurement": "pair_cost", **provenance, "rounds": options.rounds,
                                        "iterations": options.iterations, "batches": options.batches, "results": results})
    return 0


if __name__ == "__main__":
    script.entry(main)
