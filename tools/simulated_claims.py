#!/usr/bin/env python3
"""The rows of the claims ledger that the simulated machine can show.

Each row runs `usher sim` with up to five seeds and three jitters (the machine's, half and twice of it), computes its figures for each
seed and jitter, and says whether the medians are as the paper says. Written down are a JSON file a row under
docs/measurements/simulated/ and, with --write-doc, the table in docs/simulated-claims.md and the verdicts in docs/claims.md.
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

FOLDER = harness.TREE / "docs" / "measurements" / "simulated"
DOC = harness.TREE / "docs" / "simulated-claims.md"
LEDGER = harness.TREE / "docs" / "claims.md"


def jitter_of(machine):
    file = harness.TREE / "sim" / "machines" / f"{machine}.toml"
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
        medians = [statistics.median(values[j]) for j in range(3)]
        figures.append({"what": figure.what, "wanted": figure.wanted, "median": medians[1],
                        "range": [min(values[1]), max(values[1])], "over_jitter": [min(medians), max(medians)],
                        "fitted": figure.fitted, "holds": bool(figure.holds(medians[1])) if figure.holds else None,
                        "holds_at_all_jitters": all(figure.holds(m) for m in medians) if figure.holds else None,
                        "values": values})
    return {"row": row.id, "commands": ["usher " + " ".join(command_of(s)) for s in row.sweeps],
            "commit": harness.commit(), "date": time.strftime("%Y-%m-%d"),
            "seconds": round(time.monotonic() - began, 1), "figures": figures}


def judged_again(row, result):
    """The result by the row as it is now: what a figure must be may have been made stricter since it was measured."""
    figures = {f.what: f for f in row.figures}
    for f in result["figures"]:
        now = figures.get(f["what"])
        if now is None:
            continue
        medians = [statistics.median(v) for v in f["values"].values()]
        f["wanted"] = now.wanted
        f["fitted"] = now.fitted
        f["holds"] = bool(now.holds(f["median"])) if now.holds else None
        f["holds_at_all_jitters"] = all(now.holds(m) for m in medians) if now.holds else None
    return result


def verdict_of(result):
    judged = [f for f in result["figures"] if f["holds"] is not None]
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
        wanted += " (fitted)" if figure.get("fitted") else " (not judged)"
    return f"{figure['what']}: {text}{wanted}{mark}"


def row_text(row, result):
    commands = "<br>".join(f"`{c.removeprefix('usher ')}`" for c in result["commands"])
    what = "<br>".join(seen(f) for f in result["figures"])
    remark = f"<br>{row.remark}" if row.remark else ""
    return f"| {row.id} | {commands} | {what} | {verdict_of(result)}{remark} | {row.fitted or '–'} |"


def table_of():
    lines = ["| row | `usher …` | seen: median (seeds) [jitters] | verdict | fitted numbers |", "|---|---|---|---|---|"]
    for row in ROWS:
        file = FOLDER / f"{row.id}.json"
        if file.is_file():
            lines.append(row_text(row, judged_again(row, json.loads(file.read_text()))))
        else:
            lines.append(f"| {row.id} | – | – | not run | – |")
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


def with_verdicts(ledger):
    """The ledger's page, with what was simulated in the last cells."""
    known = {row.id: row for row in ROWS}
    lines = []
    for line in ledger.split("\n"):
        cells = line.split(" | ")
        names = [n for n in rows_named(cells[0].removeprefix("| ")) if n in known] if re.match(r"\| [TGMF]\d", line) else []
        verdicts = []
        for name in names:
            file = FOLDER / f"{name}.json"
            if file.is_file():
                verdict = verdict_of(judged_again(known[name], json.loads(file.read_text())))
                verdicts.append(f"{name + ' ' if len(names) > 1 else ''}{verdict}")
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
            print(f"{row.id}: {verdict_of(result)} ({result['seconds']} s)")
            for figure in result["figures"]:
                print("   " + seen(figure))
            sys.stdout.flush()
    if options.write_doc:
        LEDGER.write_text(with_verdicts(LEDGER.read_text()))
        DOC.write_text(harness.between_markers(DOC.read_text(), "simulated claims", table_of()))


if __name__ == "__main__":
    main()
