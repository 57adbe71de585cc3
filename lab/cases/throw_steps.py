"""The steps of a throw, from which the simulated program `throwing` (claim T5) has its numbers; written to
lab/results/throw-steps.json.

  python3 -m lab.cases.throw_steps            measure: a minute
  python3 -m lab.cases.throw_steps --show     print the stored results; measures nothing

The program throwing runs with one thread: as it is, and with unwind_lock.so, which takes a mutex for each search for a frame's tables. The
time of a search is the slope over the number of searches. Times are CPU time, which other processes do not take, and the
least of the rounds. `walk`: before a search the list of modules is gone through, as in runtimes without _dl_find_object(). Cycles are
those of the clock that `usher sim calibrate` measures."""

import json
import re
import tempfile
import tomllib
from pathlib import Path

import harness
from harness import TREE, Build
from lab.run import packed, rounds, runner, script

RESULT = TREE / "lab" / "results" / "throw-steps.json"
OPERATIONS, MORE, LIMIT = 400_000, 10, 60
CANDIDATES = {"no lock": None, "search": {}, "more searches": {"UNWIND_LOCK_MORE": str(MORE)}, "walk": {"UNWIND_LOCK_WALK": "1"},
              "more walks": {"UNWIND_LOCK_WALK": "1", "UNWIND_LOCK_MORE": str(MORE)}}


def measure(place, folder, name):
    """Returns the nanoseconds of CPU time of a throw, and the number of searches in a throw."""
    extra = CANDIDATES[name]
    if extra is not None:
        extra = {"LD_PRELOAD": str(place.build.program("unwind_lock.so")), "UNWIND_LOCK_REPORT": "1"} | extra
    outcome = place.run(["throwing", "--threads", "1", "--operations", str(OPERATIONS)], place.environment(None, extra), folder, LIMIT)
    if not outcome.ok:
        raise runner.Failed(f"{name}: {outcome.trouble()}")
    found = re.search(r"unwind_lock: (\d+) searches", outcome.stderr)
    return 1e9 * outcome.cpu_seconds / OPERATIONS, int(found[1]) / OPERATIONS if found else 0


def clock_of(place, folder):
    file = Path(folder) / "here.toml"
    outcome = place.run(["usher", "sim", "calibrate", "-o", str(file)], place.environment(), folder, LIMIT)
    if not outcome.ok:
        raise runner.Failed(f"usher sim calibrate: {outcome.trouble()}")
    return tomllib.loads(file.read_text())["machine"]["mhz"]["value"]


def steps_of(samples, mhz):
    """Returns the steps in ns and in cycles."""
    least = {name: min(ns for ns, _ in values) for name, values in samples.items()}
    searches = round(max(n for _, n in samples["search"]))
    kinds = {}
    of_search = (least["more searches"] - least["search"]) / MORE / searches
    outside = least["no lock"] / searches - of_search
    for kind, inside in (("search", of_search), ("walk", (least["more walks"] - least["walk"]) / MORE / searches)):
        kinds[kind] = {"inside_ns": round(inside, 1), "outside_ns": round(outside, 1),
                       "inside_cycles": round(inside * mhz / 1000), "outside_cycles": round(outside * mhz / 1000)}
    return {"searches": searches, "least_ns": {name: round(ns, 1) for name, ns in least.items()}, **kinds}


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print the stored results")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.show:
        print(json.dumps(packed.document(RESULT), indent=1))
        return 0
    build = Build(options.build)
    build.need(build.usher, build.programs / "throwing", build.programs / "unwind_lock.so")
    place, others = runner.Place(build), harness.OthersShare()
    with tempfile.TemporaryDirectory() as folder:
        mhz = clock_of(place, folder)
        samples = rounds.sampled(CANDIDATES, options.rounds, lambda name: measure(place, folder, name))
    steps = steps_of(samples, mhz)
    rounds.put(RESULT, {"measurement": "the steps of a throw", **harness.provenance(build, others), "virtual": rounds.machine().get("virtual"),
                        "run": f"throwing --threads 1 --operations {OPERATIONS}", "mhz": mhz, "steps": steps,
                        "ns": {name: [round(ns, 1) for ns, _ in values] for name, values in samples.items()}})
    print(json.dumps(steps, indent=1))
    return 0


if __name__ == "__main__":
    script.entry(main)
