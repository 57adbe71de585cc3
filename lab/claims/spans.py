"""What the numbers of the NUMA-Q that have no source decide about the rows F1 to F6.

Each choice gives each of these keys a random value of its range, and simulates the row once. A figure is not answerable if its limits are
met by some choices and not by others; it is not reproduced if no choice meets them. For F5 and F6 the length of a system call is chosen,
too, and only choices with which test-and-set is found free as often as in the paper count.
"""

import argparse
import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness
from lab.claims.rows import ROWS, Form
from lab.claims.simulated import Points, command_of, in_form

MACHINE = harness.TREE / "lab" / "sim" / "machines" / "numa-q.toml"
# The limits for figures that the rows do not judge, because the simulation cannot answer them.
LIMITS = {"F1": {"test-and-set, quad 0 / quad 1": (15, 60), "fairlock": (1.2, 1.47), "total, fairlock / test-and-set": (0.6, 0.74)},
          "F2": {"total, fairlock / test-and-set": (0.6, 0.74)},
          "F4": {"fairlock / test-and-set, mean of 1–8": (0.58, 0.7)},
          "F5": {"mean wait of those who wait, fairlock / test-and-set": (0.56, 0.88)},
          "F6": {"tokens, fairlock / test-and-set, worst": (0.9, 1e9)}}
FREE = (0.32, 0.39)  # accepted share of attempts that find test-and-set free; the paper's is 0.353
LENGTHS = (100, 300000)  # range of the length of a system call, in cycles
LISTS = ("clean", "dirty", "invalidate", "memory")


def choice(chance):
    """Returns a random value for each key of the machine's coherence that has no source."""
    def any_of(low, high):
        return round(low * (high / low) ** chance.random())

    far = any_of(350, 4200)  # 0.5 to 6 µs between quads
    near = {"clean": 114, "dirty": any_of(59, 120), "invalidate": any_of(80, 133), "memory": 114}  # ranges: other readings of the sources
    between = {"clean": far, "dirty": round(far * chance.uniform(0.7, 1.4)), "invalidate": round(far * chance.uniform(0.5, 1.4)), "memory": far}
    kinds = {"per_sharer": (0, 4, 20, 40), "per_read": (0, 28, 60, 120), "modify": (20, 30, 41), "poll_period": (3, 6, 12),
             "exit_penalty": (5, 10, 20), "home_waits_for": ("nothing", "the answer", "all answers"), "ownership_ahead": ("no", "until a hit"),
             "load_then_store": ("two trips", "one trip"), "home": (0, 1)}
    return ({key: f"[{near[key]}, {between[key]}]" for key in LISTS} | {"jitter": str(round(chance.uniform(0.02, 0.5), 2))}
            | {key: str(chance.choice(values)) for key, values in kinds.items()})


def figures_of(usher, row, form):
    """Returns the figures of one run of the row with one seed."""
    points = []
    for sweep in row.sweeps:
        short = dataclasses.replace(in_form(sweep, form), seeds=1, ms=min(sweep.ms, 500 if sweep.workload == "reflex" else 200))
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "points.json"
            subprocess.run([str(usher), *command_of(short), "--quiet", "--json", str(out)], check=True, stdout=subprocess.DEVNULL, timeout=300)
            points.append({(p["lock"], p["threads"]): p for p in json.loads(out.read_text())["points"]})
    seen = Points(points)
    return {figure.what: value_of(figure, seen) for figure in row.figures}


def value_of(figure, seen):
    """Returns the value of a figure; None if it has none, because no thread waited, or no thread of a NUMA node got the lock."""
    try:
        return figure.of(seen)
    except ZeroDivisionError:
        return None


def met(row, what, value):
    """Whether a value is within the limits of a figure; None if the figure has no limits."""
    if what in LIMITS.get(row.id, {}):
        low, high = LIMITS[row.id][what]
        return low <= value <= high
    judge = next(figure for figure in row.figures if figure.what == what).holds
    return bool(judge(value)) if judge else None


def summary(row, runs):
    """Returns lines for each figure with limits: its least and largest value, and the number of choices that meet the limits, in all and
    for each value of two keys."""
    lines = []
    for what in (figure.what for figure in row.figures):
        shown = [(chosen, figures[what]) for chosen, figures in runs if figures[what] is not None]
        marks = [met(row, what, value) for _, value in shown]
        if marks and marks[0] is not None:
            values = [value for _, value in shown]
            lines.append(f"   {what}: {min(values):.3g} to {max(values):.3g}, limits met by {sum(marks)} of {len(marks)}")
            for key in ("home", "home_waits_for"):
                parts = []
                for kind in sorted({chosen[key] for chosen, _ in shown}):
                    of = [(mark, value) for (chosen, _), mark, value in zip(shown, marks, values) if chosen[key] == kind]
                    parts.append(f"{kind}: {sum(m for m, _ in of)} of {len(of)}, {min(v for _, v in of):.3g} to {max(v for _, v in of):.3g}")
                lines.append(f"      {key}: {'; '.join(parts)}")
    every = sum(all(value is not None and met(row, what, value) is not False for what, value in figures.items()) for _, figures in runs)
    return lines + [f"   all together: {every} of {len(runs)}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="F1, F2, F4, F5, F6")
    parser.add_argument("--build", default=harness.TREE / "build" / "release", type=Path)
    parser.add_argument("--choices", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build = harness.Build(options.build)
    for row in (r for r in ROWS if r.id in (options.rows or LIMITS)):
        began, chance, runs = time.monotonic(), random.Random(options.seed), []
        for _ in range(options.choices):
            chosen, settings = choice(chance), {}
            if row.sweeps[0].workload == "reflex":
                settings["work"] = round(LENGTHS[0] * (LENGTHS[1] / LENGTHS[0]) ** chance.random())
                free = figures_of(build.usher, next(r for r in ROWS if r.id == "F5"), form_of(chosen, settings))["found free, test-and-set"]
                if not FREE[0] <= free <= FREE[1]:
                    continue
            runs.append((chosen | settings, figures_of(build.usher, row, form_of(chosen, settings))))
        print(f"{row.id}: {len(runs)} choices ({time.monotonic() - began:.0f} s)")
        print("\n".join(summary(row, runs)), flush=True)


def form_of(chosen, settings):
    return Form(machine_settings={f"coherence.{key}": value for key, value in chosen.items()}, settings=settings)


if __name__ == "__main__":
    main()
