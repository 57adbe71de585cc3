"""The rows of the claims ledger that the simulated machine can show.

Each row runs `usher sim` with up to five seeds and three jitters (the machine's, half and twice of it), computes its figures for each
seed and jitter, and says whether the medians are as the paper says. A row with several forms does so for each of them. It writes a
JSON file a row under lab/results/simulated/ and, with --write-doc, the verdicts in lab/results/claims.json and
lab/pages/claims.md. `python3 -m lab.pages simulated-claims` makes the page of all figures, whose charts --charts draws. With --no-run the
figures come from the JSON files: alone, the option prints them; with --write-doc it writes the verdicts.
"""

import argparse
import dataclasses
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import catalog
from lab.claims import ledger as claims, sources
import harness
from lab.claims.machine_files import digest
from lab.run import packed
from lab.claims.rows import ROWS, Form

MACHINES = harness.TREE / "lab" / "sim" / "machines"
FOLDER = harness.TREE / "lab" / "results" / "simulated"
TEXT = harness.TREE / "lab" / "pages" / "simulated-claims.txt"


def jitter_of(sweep):
    if "coherence.jitter" in sweep.machine_settings:
        return float(sweep.machine_settings["coherence.jitter"])
    return tomllib.loads((MACHINES / f"{sweep.machine}.toml").read_text())["coherence"]["jitter"]["value"]


class Points:
    """The points of one row under one seed and one jitter."""

    def __init__(self, points):
        self.points = points
        self.settled = True  # whether all points that were asked for have settled

    def __call__(self, lock, threads, of="throughput", sweep=0):
        point = self.points[sweep][(lock, threads)]
        self.settled &= point["settled"]
        for key in of.split("."):
            point = point[key]
        return point

    def counts(self, sweep=0):
        return sorted({threads for _, threads in self.points[sweep]})


class Medians(Points):
    """The points of one row under one jitter: each number is the median over the seeds, as in a plot of medians. `runs`: the points of
    each seed."""

    def __init__(self, runs):
        super().__init__(runs[0].points)
        self.runs = runs

    def __call__(self, lock, threads, of="throughput", sweep=0):
        value = statistics.median(run(lock, threads, of, sweep) for run in self.runs)
        self.settled = all(run.settled for run in self.runs)
        return value


def options_of(form):
    """Returns the command-line options of a form."""
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
    if sweep.warm_up is not None:
        words += ["--warm-up", f"{sweep.warm_up:g}"]
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
    """Returns the names of the row's forms, and the options that they add to the commands."""
    return [{"name": f.name, "options": shlex.join(options_of(f))} for f in row.forms.all]


def in_form(sweep, form):
    return dataclasses.replace(sweep, spin=form.spin if sweep.spin is None else sweep.spin,
                               machine_settings={**form.machine_settings, **sweep.machine_settings},
                               settings={**form.settings, **sweep.settings})


def has_no_budget(lock):
    """Whether the lock's waiters use no spin budget: they poll, yield or sleep all the time, or park at once."""
    return lock == "null" or catalog.way_of(lock).limit != "spin"


def parts_of(sweep):
    """Splits a sweep into locks whose waiters use a spin budget, and the others, which need only one run for all budgets."""
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
        """Returns {(seed, index of the jitter): {(lock, threads): point}}."""
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
            # Finds the index of this run's jitter in the list of jitters. All other settings are equal within a sweep.
            place = min(range(len(jitters)), key=lambda i: abs(jitters[i] - p["jitter"]))
            found.setdefault((p["seed"], place), {})[(p["lock"], p["threads"])] = p
        self.done[tuple(words)] = found
        return found


def unsettled_of(sweeps):
    """Returns the number of runs and, by lock and number of threads, of the runs that had not settled."""
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
    """Returns the digests of the row's machine files."""
    names = sorted({sweep.machine for sweep in row.sweeps})
    return {name: digest(MACHINES / f"{name}.toml") for name in names}


def sources_of(row):
    """Returns the digest of the sources from which the row's runs are compiled."""
    return sources.digest({sweep.workload for sweep in row.sweeps}, {lock for sweep in row.sweeps for lock in sweep.locks})


def points_for(figure, sweeps, keys):
    """Yields the points from which the figure is computed, with the index of their jitter: those of each seed or, for a figure of
    medians, those of all seeds together."""
    of_seeds = {}
    for key in keys:
        of_seeds.setdefault(key[1], []).append(Points([s[key] for s in sweeps]))
    for place, runs in of_seeds.items():
        for points in [Medians(runs)] if figure.of_medians else runs:
            yield place, points


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
            for place, points in points_for(figure, sweeps, keys):
                values[place].append(round(float(figure.of(points)), 5))
                unsettled += not points.settled
            figures.append({"what": figure.what, "values": values, "unsettled": unsettled})
        forms.append({"name": form.name, "options": shlex.join(options_of(form)), **unsettled_of(sweeps), "figures": figures})
    return {"row": row.id, "commands": commands_of(row), "machines": hashes(row), "sources": sources_of(row), "jitters": list(row.forms.jitters), "commit": harness.commit(),
            "date": harness.day(), "seconds": round(time.monotonic() - began, 1), "forms": forms}


def measured(row):
    """Returns the stored result of the row; None if there is none."""
    file = FOLDER / f"{row.id}.json"
    if not file.is_file():
        return None
    result = json.loads(file.read_text())
    same = ("forms" in result and result["commands"] == commands_of(row)
            and [{"name": f["name"], "options": f["options"]} for f in result["forms"]] == forms_of(row)
            and all([f["what"] for f in form["figures"]] == [f.what for f in row.figures] for form in result["forms"]))
    if not same:
        print(f"{file.name} is of another {row.id} than lab/claims/rows.py has: measure it again", file=sys.stderr)
        return None
    now = hashes(row)
    changed = [name for name, found in now.items() if result.get("machines", {}).get(name) != found]
    if changed:
        print(f"{file.name} is of another {listed([f'{name}.toml' for name in changed])}: measure it again", file=sys.stderr)
        return None
    if result.get("sources") != sources_of(row):
        print(f"{file.name} is of another simulator, program or lock: measure it again", file=sys.stderr)
        return None
    return result


def judge(row, result):
    """Returns, for each form, the values of each figure, and whether they are as the present row requires."""
    judged = []
    for form in result["forms"]:
        figures = []
        for figure, written in zip(row.figures, form["figures"]):
            medians = [statistics.median(v) for v in written["values"]]
            usual = len(medians) // 2
            figures.append({"what": figure.what, "name": figure.alone or figure.what, "wanted": figure.wanted, "fitted": figure.fitted,
                            "told": figure.told, "test": figure.holds, "median": medians[usual],
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
    """Returns one verdict if all forms agree; otherwise the verdicts with their forms, the best first."""
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


def settling_of(forms):
    """Returns a sentence about the row's runs that have not settled; empty if all have settled."""
    told = []
    for form in forms:
        if form["unsettled"]:
            told.append((f"{form['name']}: " if form["name"] else "") + f"{sum(form['unsettled'].values())} of {form['runs']} ({harness.counted(form['unsettled'])})")
    legend = "*: of runs that had not settled: their halves differ, or they have fewer operations than threads. Such are "
    return legend + ", ".join(told) + "." if told else ""


def listed_figures(row, forms):
    """Returns (name, required value, result) of each figure on the page: figures that decide the verdict, figures that are only
    reported, and all figures of a row that judges none."""
    names, verdicts = [form["name"] for form in forms], [verdict_of_form(form["figures"]) for form in forms]
    for i, figure in enumerate(forms[0]["figures"]):
        same = [form["figures"][i] for form in forms]
        missed = [(f, name) for f, name, verdict in zip(same, names, verdicts)
                  if f["holds"] is False or f["holds"] and not f["holds_at_all_jitters"] and "jitter" in verdict]
        if missed:
            yield figure["name"], wanted(figure), missed_text(missed, names)
        elif figure["told"] or set(verdicts) == {"seen"}:
            yield figure["name"], wanted(figure), told_text(same, names)


def telling(value, holds):
    """Returns a number with enough digits to show on which side of its bound it lies."""
    for text in [number(value)] + [f"{value:.{digits}g}" for digits in (4, 5, 6)]:
        if bool(holds(float(text))) == bool(holds(value)):
            break
    return text


def span(ends, holds):
    low, high = telling(min(ends), holds), telling(max(ends), holds)
    return low if low == high else f"{low}–{high}"


def missed_text(missed, forms):
    """Returns the medians that are not as required, by form. For a row with one form it adds the ranges over the seeds and over the
    jitters, if one end of a range is judged differently from the median."""
    holds = missed[0][0]["test"]
    star = "*" * any(f["unsettled"] for f, _ in missed)
    text = span([f["median"] for f, _ in missed], holds) + star
    if len(forms) == 1:
        figure = missed[0][0]
        for ends, form in ((figure["range"], " ({})"), (figure["over_jitter"], " [{}]")):
            if any(bool(holds(end)) != figure["holds"] for end in ends):
                text += form.format(span(ends, holds))
        return text
    return text + (", all forms" if len(missed) == len(forms) else " with " + named([name for _, name in missed], forms))


def named(some, forms):
    rest = [name for name in forms if name not in some]
    return f"all but {rest[0]}" if len(rest) == 1 and len(some) > 2 else listed(some)


def told_text(figures, forms):
    """Returns the medians of the forms; medians within 10 % of each other are written as one range."""
    groups = []
    for figure, name in sorted(zip(figures, forms), key=lambda pair: pair[0]["median"]):
        if not groups or figure["median"] > 1.1 * groups[-1][0][0]["median"]:
            groups.append([])
        groups[-1].append((figure, name))
    texts = []
    for group in groups:
        low, high = number(group[0][0]["median"]), number(group[-1][0]["median"])
        text = (low if low == high else f"{low}–{high}") + "*" * any(f["unsettled"] for f, _ in group)
        in_order = [name for name in forms if name in [n for _, n in group]]
        texts.append(text + (f" with {named(in_order, forms)}" if len(groups) > 1 else ""))
    return "; ".join(texts)


def is_plain(row, forms):
    """Whether a row is reproduced without restriction."""
    return not row.unanswerable and all(verdict_of_form(form["figures"]) == "reproduced" for form in forms)


def figures_file(row):
    return f"../results/simulated/{row.id}.json"


def lines_of(text, indent=""):
    """Wraps a paragraph at 148 columns. A comparison sign stays with its number, because a line that begins with > would be a quotation."""
    bound = re.sub(r"([<>≤≥]) ", "\\1\u00a0", re.sub(r" ([<>])", "\u00a0\\1", text))
    return textwrap.fill(bound, 148, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).replace("\u00a0", " ")


def words_of(row):
    """Returns the remarks on a row."""
    parts = [row.why, row.remark]
    parts += [f"Not answerable here: {row.unanswerable}."] if row.unanswerable else []
    parts += [f"Fitted: {row.fitted}."] if row.fitted else []
    return " ".join(part for part in parts if part)


def entry_of(row, forms):
    """Returns the page's entry for a row that is not plainly reproduced: the results, and the reason."""
    judged = any(f["holds"] is not None for form in forms for f in form["figures"])
    words = words_of(row) + ("" if row.why or row.unanswerable or not judged else " Not explained.")
    return lines_of(f'- <a id="{row.id.lower()}"></a>**{row.id}, {row.title}** ([figures]({figures_file(row)})). {words.strip()}', "  ")


def section_of(title, rows):
    """Returns the section of a paper: its rows that are not plainly reproduced, with remarks and deciding figures, and the remarks on
    the other rows."""
    plain = [row for row, forms in rows if is_plain(row, forms)]
    parts = [f"## {title}"]
    others = [(row, forms) for row, forms in rows if not is_plain(row, forms)]
    if others:
        parts.append("\n".join(entry_of(row, forms) for row, forms in others))
        cells = [[row.id, *texts] for row, forms in others for texts in listed_figures(row, forms)]
        if cells:
            parts.append(harness.markdown(cells, ["row", "figure", "wanted", "seen"]))
    told = [f"{row.id}: {words}" for row in plain if (words := words_of(row))]
    if told:
        parts.append(lines_of("These remarks belong to rows that are reproduced. " + " ".join(told)))
    return "\n\n".join(parts) + "\n"


def papers_of(ledger):
    """Returns each paper's title and, by row, the place of the claim in the paper."""
    return [(paper["title"], {name: row["source"] for row in paper["rows"] for name in claims.rows_named(row["row"])})
            for paper in ledger["papers"]]


def table_of(rows, places):
    """Returns a table of the rows. `rows`: the judged forms of each row, or None; `places`: each row's place in the paper."""
    cells = []
    for row, forms in rows:
        if forms is None:
            cells.append([row.id, row.title, places[row.id], "not run"])
            continue
        link = figures_file(row) if is_plain(row, forms) else f"#{row.id.lower()}"
        cells.append([f"[{row.id}]({link})", row.title, places[row.id], verdict_of(row, forms)])
    return harness.markdown(cells, ["row", "claim", "in the paper", "verdict"])


def page_of(page, rows, ledger):
    """Returns the page with new content between its markers."""
    papers = papers_of(ledger)
    places = {name: place for _, of_paper in papers for name, place in of_paper.items()}
    page = harness.between_markers(page, "verdicts", table_of(rows, places))
    run = [(row, forms) for row, forms in rows if forms is not None]
    of_papers = [(title, [(row, forms) for row, forms in run if row.id in places]) for title, places in papers]
    sections = [section_of(title, of_paper) for title, of_paper in of_papers if of_paper]
    return harness.between_markers(page, "simulated claims", "\n" + "\n".join(sections))


def charts_of(page):
    """Returns, for each chart on the page, the file, and the arguments of the command that draws it."""
    files = [f"lab/{name}" for name in re.findall(r"\]\(\.\./(results/simulated/\w+\.svg)\)", page)]
    commands = [shlex.split(line)[1:] for line in re.findall(r"^    (usher sim .+)$", page, re.M)]
    if len(files) != len(commands):
        harness.die(f"{TEXT.name} has {len(files)} charts and {len(commands)} commands that draw one", 1)
    return list(zip(files, commands))


def draw(usher):
    for file, words in charts_of(TEXT.read_text()):
        done = subprocess.run([str(usher)] + words + ["--quiet", "--chart", str(harness.TREE / file)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=600)
        if done.returncode != 0:
            harness.die(f"{' '.join(words)}: {done.stderr.strip()}", 1)
        print(file, flush=True)


def fit_reflex(usher):
    """Finds, for both branches, the length of a system call with which test-and-set is found free as often as in Fairlocks, Table 4."""
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


def print_row(row, result):
    forms = judge(row, result)
    print(f"{row.id}: {verdict_of(row, forms)} ({result['seconds']} s)")
    for i in range(len(row.figures)):
        same = [f["figures"][i] for f in forms]
        print(f"   {same[0]['what']}, wanted {wanted(same[0])}: "
              + "; ".join((f"{f['name']}: " if f["name"] else "") + seen(figure) for f, figure in zip(forms, same)))
    for text in (settling_of(forms), words_of(row)):
        if text:
            print(f"   {text}")
    sys.stdout.flush()


def run_rows(usher, rows):
    """Measures the rows, writes and prints the results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for row in rows:
        result = measure(usher, row)
        file = FOLDER / f"{row.id}.json"
        file.write_text(json.dumps(packed.without_stamp(file, result), indent=1, ensure_ascii=False) + "\n")
        print_row(row, result)


def judged_rows():
    """Returns all rows, with the judged forms of each; None for rows without figures."""
    return [(row, judge(row, result) if (result := measured(row)) else None) for row in ROWS]


def whole_page(text):
    return page_of(text, judged_rows(), claims.read())


def write_verdicts():
    rows = judged_rows()
    ledger = claims.read()
    ledger["simulated"].update({row.id: verdict_of(row, forms) for row, forms in rows if forms is not None})
    claims.write(ledger)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="of these rows only")
    parser.add_argument("--build", default=harness.TREE / "build" / "release", type=Path)
    parser.add_argument("--write-doc", action="store_true",
                        help="the verdicts, in lab/results/claims.json and lab/pages/claims.md")
    parser.add_argument("--no-run", action="store_true", help="measure nothing: print or, with --write-doc, write the stored results")
    parser.add_argument("--charts", action="store_true", help="draw the charts of the page, by its commands")
    parser.add_argument("--fit-reflex", action="store_true", help="print the values of `work` for F5 and F6")
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
    rows = [row for row in ROWS if not options.rows or row.id in options.rows]
    if not options.no_run:
        run_rows(usher, rows)
    elif not options.charts and not options.write_doc:
        for row in rows:
            if result := measured(row):
                print_row(row, result)
    if options.charts:
        draw(usher)
    if options.write_doc:
        write_verdicts()


if __name__ == "__main__":
    main()
