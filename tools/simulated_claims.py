#!/usr/bin/env python3
"""The rows of the claims ledger that the simulated machine can show.

Each row runs `usher sim` with up to five seeds and three jitters (the machine's, half and twice of it), computes its figures for each
seed and jitter, and says whether the medians are as the paper says. Written down are a JSON file a row under
docs/../results/simulated/ and, with --write-doc, the table in docs/simulated-claims.md and the verdicts in docs/claims.md.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness
from simulated_rows import ROWS

FOLDER = harness.TREE / "results" / "simulated"
DOC = harness.TREE / "docs" / "simulated-claims.md"
LEDGER = harness.TREE / "docs" / "claims.md"


def jitter_of(machine):
    file = harness.TREE / "src" / "sim" / "machines" / f"{machine}.toml"
    return tomllib.loads(file.read_text())["coherence"]["jitter"]["value"]


class Points:
    """The points of one row under one seed and one jitter."""

    def __init__(self, points):
        self.points = points

    def __call__(self, lock, threads, of="throughput", sweep=0):
        point = self.points[sweep][(lock, threads)]
        for key in of.split("."):
            point = point[key]
        return point

    def counts(self, sweep=0):
        return sorted({threads for _, threads in self.points[sweep]})


def command_of(sweep):
    words = ["sim", sweep.workload, "--machine", sweep.machine, "--locks", ",".join(sweep.locks), "--threads",
             ",".join(str(t) for t in sweep.threads), "--seeds", str(sweep.seeds), "--ms", f"{sweep.ms:g}"]
    for name, value in sweep.settings.items():
        words += ["--set", f"{name}={value}"]
    if sweep.pinned:
        words.append("--pinned")
    if sweep.others:
        words += ["--others", str(sweep.others)]
    return words


def run_sweep(usher, sweep):
    """{(seed, jitter): {(lock, threads): point}}"""
    usual = jitter_of(sweep.machine)
    jitters = [round(usual / 2, 6), usual, usual * 2]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "points.json"
        words = [str(usher)] + command_of(sweep) + ["--jitter", ",".join(f"{j:g}" for j in jitters), "--quiet", "--json",
                                                    str(out)]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=3600)
        if done.returncode != 0:
            harness.die(f"{' '.join(words)}: {done.stderr.strip()}", 1)
        points = json.loads(out.read_text())["points"]
    found = {}
    for p in points:
        # Settings that are swept make different sweeps; here the jitter is told from the others by its place.
        place = min(range(3), key=lambda i: abs(jitters[i] - p["jitter"]))
        found.setdefault((p["seed"], place), {})[(p["lock"], p["threads"])] = p
    return found


def measure(usher, row):
    began = time.monotonic()
    sweeps = [run_sweep(usher, s) for s in row.sweeps]
    keys = sorted(set.intersection(*(set(s) for s in sweeps)))
    figures = []
    for figure in row.figures:
        values = {0: [], 1: [], 2: []}
        for key in keys:
            values[key[1]].append(round(float(figure.of(Points([s[key] for s in sweeps]))), 5))
        figures.append({"what": figure.what, "values": list(values.values())})
    return {"row": row.id, "commands": commands_of(row), "commit": harness.commit(), "date": time.strftime("%Y-%m-%d"),
            "seconds": round(time.monotonic() - began, 1), "figures": figures}


def commands_of(row):
    return ["usher " + " ".join(command_of(s)) for s in row.sweeps]


def measured(row):
    """What was written down of the row; None if nothing was."""
    file = FOLDER / f"{row.id}.json"
    if not file.is_file():
        return None
    result = json.loads(file.read_text())
    if result["commands"] != commands_of(row) or [f["what"] for f in result["figures"]] != [f.what for f in row.figures]:
        harness.die(f"{file.name} is of another {row.id} than simulated_rows.py has: measure it again", 1)
    return result


def judge(row, result):
    """Of each figure what is to be shown and whether it is as wanted. What is wanted is the row's as it is now."""
    judged = []
    for figure, written in zip(row.figures, result["figures"]):
        medians = [statistics.median(v) for v in written["values"]]
        usual = written["values"][1]
        judged.append({"what": figure.what, "wanted": figure.wanted, "fitted": figure.fitted, "median": medians[1],
                       "range": [min(usual), max(usual)], "over_jitter": [min(medians), max(medians)],
                       "holds": bool(figure.holds(medians[1])) if figure.holds else None,
                       "holds_at_all_jitters": all(figure.holds(m) for m in medians) if figure.holds else None})
    return judged


def verdict_of(figures):
    judged = [f for f in figures if f["holds"] is not None]
    good = sum(f["holds"] for f in judged)
    if not judged:
        return "seen"
    if good == len(judged):
        return "reproduced" if all(f["holds_at_all_jitters"] for f in judged) else "reproduced, not at every jitter"
    return "in part" if good else "not reproduced"


def number(value):
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seen(figure):
    low, high = figure["range"]
    text = number(figure["median"])
    if number(low) != number(high):
        text += f" ({number(low)}–{number(high)})"
    low, high = figure["over_jitter"]
    if number(low) != number(high):
        text += f" [{number(low)}–{number(high)}]"
    mark = "" if figure["holds"] is not False else " ✗"
    wanted = f", wanted {figure['wanted']}" if figure["wanted"] else ""
    if figure["wanted"] and figure["holds"] is None:
        wanted += " (fitted)" if figure["fitted"] else " (not judged)"
    return f"{figure['what']}: {text}{wanted}{mark}"


def row_text(row, figures):
    commands = "<br>".join(f"`{c.removeprefix('usher ')}`" for c in commands_of(row))
    what = "<br>".join(seen(f) for f in figures)
    remark = f"<br>{row.remark}" if row.remark else ""
    return f"| [{row.id}](../results/simulated/{row.id}.json) | {commands} | {what} | {verdict_of(figures)}{remark} | {row.fitted or '–'} |"


def table_of(results):
    """`results`: of each row its judged figures, or nothing."""
    lines = ["| row | `usher …` | seen: median (seeds) [jitters] | verdict | fitted numbers |", "|---|---|---|---|---|"]
    for row in ROWS:
        figures = results.get(row.id)
        lines.append(row_text(row, figures) if figures else f"| {row.id} | – | – | not run | – |")
    return "\n".join(lines)


def rows_named(cell):
    """The rows that a first cell of the ledger names: "T3, T4", "G1, G2, G4–G7"."""
    names = []
    for part in cell.replace(" ", "").split(","):
        first, _, last = part.partition("–")
        if last:
            names += [f"{first[0]}{i}" for i in range(int(first[1:]), int(last[1:]) + 1)]
        else:
            names.append(part)
    return names


def with_verdicts(ledger, results):
    """The ledger's page, with what was simulated in the last cells."""
    lines = []
    for line in ledger.split("\n"):
        cells = line.split(" | ")
        names = [n for n in rows_named(cells[0].removeprefix("| ")) if n in results] if re.match(r"\| [TGMF]\d", line) else []
        verdicts = [(f"{n} " if len(names) > 1 else "") + verdict_of(results[n]) for n in names]
        if verdicts:
            last = cells[-1].removesuffix("|").strip()
            last = re.sub(r"(; )?\[simulated\].*$", "", last)
            last = last.replace("waits: kernel, simulator", "waits: kernel")
            last = re.sub(r"(^|\.\s+|;\s+)([^.;]*: )?waits: [^.;]*simulator[^.;]*$", "", last)
            text = "[simulated](simulated-claims.md): " + "; ".join(verdicts)
            cells[-1] = (last + "; " if last else "") + text + " |"
            line = " | ".join(cells)
        lines.append(line)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="of these rows only")
    parser.add_argument("--build", default=harness.TREE / "build" / "release", type=Path)
    parser.add_argument("--write-doc", action="store_true", help="the table in docs/simulated-claims.md, the verdicts in docs/claims.md")
    parser.add_argument("--no-run", action="store_true", help="with --write-doc: from what was written down")
    options = parser.parse_args()
    known = {row.id for row in ROWS}
    for name in options.rows:
        if name not in known:
            harness.die(f"there is no row {name}; known are {' '.join(sorted(known))}")
    if not options.no_run:
        build = harness.Build(options.build)
        build.need(build.usher)
        FOLDER.mkdir(parents=True, exist_ok=True)
        for row in ROWS:
            if options.rows and row.id not in options.rows:
                continue
            result = measure(build.usher, row)
            (FOLDER / f"{row.id}.json").write_text(json.dumps(result, indent=1) + "\n")
            figures = judge(row, result)
            print(f"{row.id}: {verdict_of(figures)} ({result['seconds']} s)")
            for figure in figures:
                print("   " + seen(figure))
            sys.stdout.flush()
    if options.write_doc:
        results = {row.id: judge(row, result) for row in ROWS if (result := measured(row)) is not None}
        LEDGER.write_text(with_verdicts(LEDGER.read_text(), results))
        DOC.write_text(harness.between_markers(DOC.read_text(), "simulated claims", table_of(results)))


if __name__ == "__main__":
    main()
