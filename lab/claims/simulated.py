"""The rows of the claims ledger that the simulated machine can show.

Each row runs `usher sim` with up to five seeds and three jitters (the machine's, half and twice of it), computes its figures for each
seed and jitter, and says whether the medians are as the paper says. A row with several forms does so for each of them. Written down
are a JSON file a row under lab/results/simulated/ and, with --write-doc, the tables in lab/pages/simulated-claims.md and the verdicts in
lab/results/claims.json, with the page that is made of it. --charts draws the charts of lab/pages/simulated-claims.md.
"""

import argparse
import dataclasses
import hashlib
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import catalog
from lab.claims import ledger as claims
import harness
from lab.claims.machine_files import digest
from lab.claims.rows import ROWS, Form

MACHINES = harness.TREE / "src" / "sim" / "machines"
FOLDER = harness.TREE / "lab" / "results" / "simulated"
BEFORE = FOLDER / "before.json"
DOC = harness.TREE / "lab" / "pages" / "simulated-claims.md"


def jitter_of(sweep):
    if "coherence.jitter" in sweep.machine_settings:
        return float(sweep.machine_settings["coherence.jitter"])
    return tomllib.loads((MACHINES / f"{sweep.machine}.toml").read_text())["coherence"]["jitter"]["value"]


class Points:
    """The points of one row under one seed and one jitter."""

    def __init__(self, points):
        self.points = points
        self.settled = True  # all that was asked for

    def __call__(self, lock, threads, of="throughput", sweep=0):
        point = self.points[sweep][(lock, threads)]
        self.settled &= point["settled"]
        for key in of.split("."):
            point = point[key]
        return point

    def counts(self, sweep=0):
        return sorted({threads for _, threads in self.points[sweep]})


def options_of(form):
    """What a form adds to a command."""
    words = ["--spin", str(form.spin)] if form.spin is not None else []
    for name, value in form.machine_settings.items():
        words += ["--set-machine", f"{name}={value}"]
    for name, value in form.settings.items():
        words += ["--set", f"{name}={value}"]
    return words


def command_of(sweep):
    words = ["sim", sweep.workload, "--machine", sweep.machine, "--locks", ",".join(sweep.locks), "--threads",
             ",".join(str(t) for t in sweep.threads), "--seeds", str(sweep.seeds)]
    if sweep.ms is not None:
        words += ["--ms", f"{sweep.ms:g}"]
    for name, value in sweep.settings.items():
        words += ["--set", f"{name}={value}"]
    if sweep.pinned:
        words.append("--pinned")
    if sweep.others:
        words += ["--others", str(sweep.others)]
    if sweep.placement:
        words += ["--placement", sweep.placement]
    return words + options_of(Form(machine_settings=sweep.machine_settings, spin=sweep.spin))


def commands_of(row):
    return ["usher " + shlex.join(command_of(s)) for s in row.sweeps]


def forms_of(row):
    """The names of the forms, and their additions to the commands."""
    return [{"name": f.name, "options": shlex.join(options_of(f))} for f in row.forms.all]


def in_form(sweep, form):
    return dataclasses.replace(sweep, spin=form.spin if sweep.spin is None else sweep.spin,
                               machine_settings={**form.machine_settings, **sweep.machine_settings},
                               settings={**form.settings, **sweep.settings})


def has_no_budget(lock):
    """Its waiters read no spin budget: they poll, yield or sleep all the time, or park at once."""
    return lock == "null" or catalog.way_of(lock).limit != "spin"


def parts_of(sweep):
    """Locks whose waiters do not ask for a budget need not run once for each."""
    if sweep.spin is None:
        return [sweep]
    without = [lock for lock in sweep.locks if has_no_budget(lock)]
    others = [lock for lock in sweep.locks if not has_no_budget(lock)]
    parts = [dataclasses.replace(sweep, locks=without, spin=None)] if without else []
    return parts + ([dataclasses.replace(sweep, locks=others)] if others else [])


class Runner:
    def __init__(self, usher):
        self.usher = usher
        self.done = {}

    def points(self, sweep, jitters):
        """{(seed, place of the jitter): {(lock, threads): point}}"""
        found = {}
        for part in parts_of(sweep):
            for key, points in self.run(part, jitters).items():
                found.setdefault(key, {}).update(points)
        return found

    def run(self, sweep, jitters):
        usual = jitter_of(sweep)
        jitters = [round(usual * j, 6) for j in jitters]
        words = command_of(sweep) + ["--jitter", ",".join(f"{j:g}" for j in jitters)]
        if tuple(words) in self.done:
            return self.done[tuple(words)]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "points.json"
            done = subprocess.run([str(self.usher)] + words + ["--quiet", "--json", str(out)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=3600)
            if done.returncode != 0:
                harness.die(f"{' '.join(words)}: {done.stderr.strip()}", 1)
            points = json.loads(out.read_text())["points"]
        found = {}
        for p in points:
            # Swept settings are sweeps of their own; the jitter is identified by its place in the list.
            place = min(range(len(jitters)), key=lambda i: abs(jitters[i] - p["jitter"]))
            found.setdefault((p["seed"], place), {})[(p["lock"], p["threads"])] = p
        self.done[tuple(words)] = found
        return found


def unsettled_of(sweeps):
    """How many runs there were, and of which lock with how many threads how many had not settled."""
    runs, unsettled = 0, {}
    for sweep in sweeps:
        for points in sweep.values():
            runs += len(points)
            for (lock, threads), point in points.items():
                if not point["settled"]:
                    name = f"{lock} with {threads} thread{'s' * (threads != 1)}"
                    unsettled[name] = unsettled.get(name, 0) + 1
    return {"runs": runs, "unsettled": unsettled}


def hashes(row):
    """Of the files of its machines."""
    names = sorted({sweep.machine for sweep in row.sweeps})
    return {name: digest(MACHINES / f"{name}.toml") for name in names}


def measure(usher, row):
    began = time.monotonic()
    runner = Runner(usher)
    forms = []
    for form in row.forms.all:
        sweeps = [runner.points(in_form(s, form), row.forms.jitters) for s in row.sweeps]
        keys = sorted(set.intersection(*(set(s) for s in sweeps)))
        figures = []
        for figure in row.figures:
            values, unsettled = [[] for _ in row.forms.jitters], 0
            for key in keys:
                points = Points([s[key] for s in sweeps])
                values[key[1]].append(round(float(figure.of(points)), 5))
                unsettled += not points.settled
            figures.append({"what": figure.what, "values": values, "unsettled": unsettled})
        forms.append({"name": form.name, "options": shlex.join(options_of(form)), **unsettled_of(sweeps), "figures": figures})
    return {"row": row.id, "commands": commands_of(row), "machines": hashes(row), "jitters": list(row.forms.jitters), "commit": harness.commit(),
            "date": harness.day(), "seconds": round(time.monotonic() - began, 1), "forms": forms}


def measured(row):
    """What was written down of the row; None if nothing was."""
    file = FOLDER / f"{row.id}.json"
    if not file.is_file():
        return None
    result = json.loads(file.read_text())
    same = ("forms" in result and result["commands"] == commands_of(row)
            and [{"name": f["name"], "options": f["options"]} for f in result["forms"]] == forms_of(row)
            and all([f["what"] for f in form["figures"]] == [f.what for f in row.figures] for form in result["forms"]))
    if not same:
        print(f"{file.name} is of another {row.id} than simulated_rows.py has: measure it again", file=sys.stderr)
        return None
    now = hashes(row)
    changed = [name for name, found in now.items() if result.get("machines", {}).get(name) != found]
    if changed:
        print(f"{file.name} is of another {listed([f'{name}.toml' for name in changed])}: measure it again", file=sys.stderr)
        return None
    return result


def judge(row, result):
    """For each form, of each figure its values and whether they are as wanted, by the present row."""
    judged = []
    for form in result["forms"]:
        figures = []
        for figure, written in zip(row.figures, form["figures"]):
            medians = [statistics.median(v) for v in written["values"]]
            usual = len(medians) // 2
            figures.append({"what": figure.what, "wanted": figure.wanted, "fitted": figure.fitted, "median": medians[usual],
                            "range": [min(written["values"][usual]), max(written["values"][usual])],
                            "over_jitter": [min(medians), max(medians)], "unsettled": written["unsettled"],
                            "holds": bool(figure.holds(medians[usual])) if figure.holds else None,
                            "holds_at_all_jitters": all(figure.holds(m) for m in medians) if figure.holds else None})
        judged.append({"name": form["name"], "runs": form["runs"], "unsettled": form["unsettled"], "figures": figures})
    return judged


def verdict_of_form(figures):
    judged = [f for f in figures if f["holds"] is not None]
    good = sum(f["holds"] for f in judged)
    if not judged:
        return "seen"
    if good == len(judged):
        return "reproduced" if all(f["holds_at_all_jitters"] for f in judged) else "reproduced, not at every jitter"
    return "in part" if good else "not reproduced"


def listed(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def verdict_of(row, forms):
    """One verdict if all forms agree. Otherwise the verdicts with their forms, the best first."""
    by_verdict = {}
    for form in forms:
        by_verdict.setdefault(verdict_of_form(form["figures"]), []).append(form["name"])
    if len(by_verdict) == 1:
        text = next(iter(by_verdict))
        if len(forms) > 1:
            text += f" over {'both' if len(forms) == 2 else 'all'} {row.forms.what}"
    else:
        order = ["reproduced", "reproduced, not at every jitter", "in part", "not reproduced"]
        best, *rest = sorted(by_verdict, key=order.index)
        text, _, jitter = best.partition(", ")
        text += f" only with {listed(by_verdict[best])}" + (f", {jitter}" if jitter else "")
        text += "".join(f"; {v} with {listed(by_verdict[v])}" for v in rest)
    if row.unanswerable:
        text = "not answerable here" if text.startswith("seen") else text + "; a part is not answerable here"
    return text


def number(value):
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def wanted(figure):
    text = figure["wanted"] or "–"
    if figure["wanted"] and figure["holds"] is None:
        text += " (fitted)" if figure["fitted"] else " (not judged)"
    return text


def number_of(figure):
    return number(figure["median"]) + ("*" if figure["unsettled"] else "")


def seen(figure):
    low, high = figure["range"]
    text = number_of(figure)
    if number(low) != number(high):
        text += f" ({number(low)}–{number(high)})"
    low, high = figure["over_jitter"]
    if number(low) != number(high):
        text += f" [{number(low)}–{number(high)}]"
    return text + ("" if figure["holds"] is None else " ✓" if figure["holds"] else " ✗")


def seen_shortly(figure):
    return number_of(figure) + ("" if figure["holds"] is None else " ✓" if figure["holds"] else " ✗")


def over_all(figures):
    """The same figure under all forms: where its seeds and its jitters' medians lie."""
    ends = [end for f in figures for end in f["range"] + f["over_jitter"]]
    low, high = number(min(ends)), number(max(ends))
    return low if low == high else f"{low}–{high}"


def settling_of(forms):
    """What of a row has not settled, as a sentence; empty if all has."""
    told = []
    for form in forms:
        if form["unsettled"]:
            told.append((f"{form['name']}: " if form["name"] else "") + f"{sum(form['unsettled'].values())} of {form['runs']} ({harness.counted(form['unsettled'])})")
    legend = "\\*: of runs that had not settled: their halves differ, or they have fewer operations than threads. Such are "
    return legend + ", ".join(told) + "." if told else ""


def section_of(row, forms):
    """A section: the row, its commands, its figures."""
    lines = [f"### {row.id}", "", f"{row.title}. **{sentence(verdict_of(row, forms))}.** "
             f"{'Some runs had not settled. ' if any(f['unsettled'] for f in forms) else ''}[Each seed](../results/simulated/{row.id}.json).", "", "```sh"]
    lines += commands_of(row)
    lines += ["```", ""]
    if len(forms) > 1:
        lines += ["With each of " + "; ".join(f"`{f['options']}`" if f["options"] else "nothing more" for f in forms_of(row)) + ":", ""]
    head = [f["name"] for f in forms] if len(forms) > 1 else ["seen"]
    more = ["range of all"] if len(forms) > 1 else []
    lines += ["| figure | wanted | " + " | ".join(head + more) + " |", "|---" * (2 + len(head) + len(more)) + "|"]
    for i in range(len(row.figures)):
        same = [f["figures"][i] for f in forms]
        shown = [seen_shortly(f) for f in same] + [over_all(same)] if more else [seen(same[0])]
        cells = [same[0]["what"], wanted(same[0])] + shown
        lines.append("| " + " | ".join(cells) + " |")
    if settling := settling_of(forms):
        lines += ["", settling]
    if row.unanswerable:
        lines += ["", f"Not answerable here: {row.unanswerable}."]
    if row.remark:
        lines += ["", row.remark]
    if row.fitted:
        lines += ["", f"Fitted numbers: {row.fitted}."]
    return "\n".join(lines) + "\n"


def sentence(text):
    return text[0].upper() + text[1:]


def reason(row, before, now):
    if row.why:
        return row.why
    if before is None:
        return "–"
    return "as before" if now == before or now.startswith(before + " over ") else "**the reason is not yet said**"


def table_of(rows):
    """`rows`: with the judged forms of each, or None."""
    before = json.loads(BEFORE.read_text())["rows"]
    lines = ["| row | | before | now | reason for the change |", "|---|---|---|---|---|"]
    for row, forms in rows:
        was = before[row.id]["verdict"] if row.id in before else None
        if forms is None:
            lines.append(f"| {row.id} | {row.title} | {was or 'no row'} | not run | – |")
            continue
        now = verdict_of(row, forms)
        lines.append(f"| [{row.id}](#{row.id.lower()}) | {row.title} | {was or 'no row'} | {now} | {reason(row, was, now)} |")
    return "\n".join(lines)


def charts_of(page):
    """Of each chart on the page the file, and the arguments of the command that draws it."""
    files = re.findall(r"\]\(\.\./(lab/results/simulated/\w+\.svg)\)", page)
    commands = [shlex.split(line)[1:] for line in re.findall(r"^    (usher sim .+)$", page, re.M)]
    if len(files) != len(commands):
        harness.die(f"{DOC.name} has {len(files)} charts and {len(commands)} commands that draw one", 1)
    return list(zip(files, commands))


def draw(usher):
    for file, words in charts_of(DOC.read_text()):
        done = subprocess.run([str(usher)] + words + ["--quiet", "--chart", str(harness.TREE / file)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=600)
        if done.returncode != 0:
            harness.die(f"{' '.join(words)}: {done.stderr.strip()}", 1)
        print(file, flush=True)


def fit_reflex(usher):
    """Of both branches the length of a system call under which test-and-set is found free as often as in Fairlocks, Table 4."""
    asked = 0.353
    row = next(r for r in ROWS if r.id == "F5")
    sweep = dataclasses.replace(row.sweeps[0], locks=row.sweeps[0].locks[:1])

    def found_free(work):
        points = Runner(usher).points(dataclasses.replace(sweep, settings={"work": work}), (1,)).values()
        return statistics.median(p["found_free"] / p["admissions"] for by_lock in points for p in by_lock.values())

    for name, least, most, grows in (("short", 10000, 50000, False), ("long", 60000, 250000, True)):
        while most - least > 1000:
            middle = (least + most) // 2
            if (found_free(middle) < asked) == grows:
                least = middle
            else:
                most = middle
        work = round((least + most) / 2, -3)
        print(f"{name} calls: work={work:.0f}, found free {found_free(int(work)):.3f}")


def run_rows(usher, names):
    """All rows, or those with these names: measured, written down, and printed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for row in ROWS:
        if names and row.id not in names:
            continue
        result = measure(usher, row)
        (FOLDER / f"{row.id}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        forms = judge(row, result)
        print(f"{row.id}: {verdict_of(row, forms)} ({result['seconds']} s)")
        for i, figure in enumerate(row.figures):
            print(f"   {figure.what}, wanted {wanted(forms[0]['figures'][i])}: "
                  + "; ".join((f"{f['name']}: " if f["name"] else "") + seen(f["figures"][i]) for f in forms))
        if settling := settling_of(forms):
            print("   " + settling.removeprefix("\\"))
        sys.stdout.flush()


def write_pages():
    rows = [(row, judge(row, result) if (result := measured(row)) else None) for row in ROWS]
    run = [(row, forms) for row, forms in rows if forms is not None]
    ledger = claims.read()
    ledger["simulated"].update({row.id: verdict_of(row, forms) for row, forms in run})
    claims.write(ledger)
    page = harness.between_markers(DOC.read_text(), "verdicts", table_of(rows))
    page = harness.between_markers(page, "simulated claims", "\n".join(section_of(row, forms) for row, forms in run))
    DOC.write_text(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="of these rows only")
    parser.add_argument("--build", default=harness.TREE / "build" / "release", type=Path)
    parser.add_argument("--write-doc", action="store_true",
                        help="the tables in lab/pages/simulated-claims.md, the verdicts in lab/results/claims.json and lab/pages/claims.md")
    parser.add_argument("--no-run", action="store_true", help="measure nothing; with --write-doc: from what was written down")
    parser.add_argument("--charts", action="store_true", help="draw the charts of lab/pages/simulated-claims.md, by its commands")
    parser.add_argument("--fit-reflex", action="store_true", help="say what `work` is to be in F5 and F6")
    options = parser.parse_args()
    known = {row.id for row in ROWS}
    for name in options.rows:
        if name not in known:
            harness.die(f"there is no row {name}; known are {' '.join(sorted(known))}")
    usher = None
    if options.fit_reflex or options.charts or not options.no_run:
        build = harness.Build(options.build)
        build.need(build.usher)
        usher = build.usher
    if options.fit_reflex:
        return fit_reflex(usher)
    if not options.no_run:
        run_rows(usher, options.rows)
    if options.charts:
        draw(usher)
    if options.write_doc:
        write_pages()


if __name__ == "__main__":
    main()
