#!/usr/bin/env python3
"""Counts how often `usher diff` is right. Pairs of runs of two builds of one program, of which the second has a longer
critical section and other lines (programs/sections.c), must name that section's mutex; pairs of runs of the same build
must be silent. At least 19 of 20 of each are expected. The pairs alternate, and the first side too, so that a drift of
the machine meets all alike.

The environment variable USHER_BIN names the command `usher`. --keep FOLDER keeps the recordings; --show FOLDER judges
recordings that were kept.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent / "programs" / "sections.c"
WANTED = 0.95
PLANTED = "make_table"  # the function that makes the longer section's mutex


def build(folder, name, section):
    """Builds the program with a section of this length. All lines of the builds with different lengths differ."""
    text = SOURCE.read_text()
    assert "table_section = 20" in text
    source = folder / name / "sections.c"
    source.parent.mkdir()
    source.write_text("// another line\n" * section + text.replace("table_section = 20", f"table_section = {section}"))
    program = folder / name / f"server-{section}"
    subprocess.run([os.environ.get("CC", "cc"), "-g", "-O2", "-pthread", "-o", program, source], check=True, timeout=100)
    return program


def record(program, options, file):
    subprocess.run([os.environ["USHER_BIN"], "stat", "--json", file, "-o", os.devnull, "--", program, str(options.seconds), options.mode],
                   check=True, stdout=subprocess.DEVNULL, timeout=100 + 10 * options.seconds)


def diff(a, b, result):
    subprocess.run([os.environ["USHER_BIN"], "diff", "--json", result, a, b], check=True, stdout=subprocess.DEVNULL, timeout=100)
    return json.loads(result.read_text())


def share_of(recording):
    """Returns the share of the threads' time that was waited for the planted section's mutex."""
    waited = sum(row["waiting"]["total"] for row in recording["rows"] if PLANTED in row["name"])
    return waited / recording["thread_seconds"]


def judged(folder, pairs):
    """Yields (kind of pair, whether the comparison was right, the verdict, whether the runs could show a difference)."""
    for i in range(pairs):
        for kind, a, b in (("planted", "a", "b"), ("same", "a", "a2")):
            said = diff(folder / f"{i}-{a}.json", folder / f"{i}-{b}.json", folder / f"{i}-{kind}.diff.json")
            changed = [o for o in said["objects"] if o["change"] in ("hotter", "cooler")]
            if kind == "planted":
                right = bool(changed) and PLANTED in changed[0]["name"] and changed[0]["change"] == "hotter"
            else:
                right = not changed
            yield kind, right, said["verdict"], said["judged"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.5, help="of a run")
    parser.add_argument("--section", type=int, default=40, help="of the second build; the first has 20")
    parser.add_argument("--mode", choices=("sleep", "compute"), default="sleep", help="what the sections do")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the recordings")
    parser.add_argument("--show", type=pathlib.Path, help="judge the recordings of this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="usher-diff-") as temporary:
        folder = options.show or options.keep or pathlib.Path(temporary)
        if not options.show:
            folder.mkdir(exist_ok=True)
            programs = pathlib.Path(temporary) / "programs"
            programs.mkdir()
            first, second = build(programs, "first", 20), build(programs, "second", options.section)
            for i in range(options.pairs):
                runs = [(first, "a"), (second, "b"), (first, "a2")]
                for program, name in runs if i % 2 else runs[::-1]:
                    record(program, options, folder / f"{i}-{name}.json")
        right, unable = {"planted": 0, "same": 0}, 0
        for kind, good, verdict, able in judged(folder, options.pairs):
            right[kind] += good
            unable += not able
            if not good:
                print(f"{kind}: {verdict}")
        for name in ("a", "b"):
            shares = [share_of(json.loads(f.read_text())) for f in sorted(folder.glob(f"*-{name}*.json")) if ".diff" not in f.name]
            print(f"{name}: waited {statistics.mean(shares):.3f} of the threads' time, from {min(shares):.3f} to {max(shares):.3f}, "
                  f"relative standard deviation {statistics.stdev(shares) / statistics.mean(shares):.3f} of {len(shares)} runs")
    print(f"planted: named in {right['planted']} of {options.pairs}; the same build: silent in {right['same']} of {options.pairs}; "
              f"{unable} pairs could not show it")
    return 0 if min(right.values()) >= WANTED * options.pairs else 1


if __name__ == "__main__":
    sys.exit(main())
