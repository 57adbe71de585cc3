"""Writes tests/unit/data/recorded_runs.txt: the run times of the C library's mutex in the arena's results, in the order of the runs.
There is one series for each point and session, in which each time is relative to the median. The simulated trials of `usher try` use
these series as recorded noise."""

import json
import statistics

from harness import TREE
from lab.run import packed

SOURCES = ["lab/results/arena/native-2.jsonl", "lab/results/arena/native-16.jsonl"]


def series_of(source):
    """Returns, by point and session, the seconds for the same amount of work, in the order of the runs."""
    series = {}
    for line in packed.text_of(TREE / source).splitlines():
        run = json.loads(line)
        if run.get("candidate") in ("libc", "libc-again") and run["rate"] > 0:
            series.setdefault((run["point"], run["session"]), []).append(1 / run["rate"])
    return series


def main():
    lines = ["# Run times of the C library's mutex against itself, in the order of the runs, as shares of each series' median.",
             f"# Written by python3 -m lab.cases.recorded_runs from {' and '.join(SOURCES)}."]
    for source in SOURCES:
        for (point, _), values in series_of(source).items():
            middle = statistics.median(values)
            lines.append(" ".join([point] + [f"{v / middle:.4g}" for v in values]))
    (TREE / "tests/unit/data/recorded_runs.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
