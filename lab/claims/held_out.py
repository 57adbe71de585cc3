"""Published numbers that were used for no calibration, and their simulation: lab/results/held-out.json.

Runs `usher sim` (a few minutes), and writes the results with a digest of each machine file. `python3 -m lab.pages held-out` makes the page.
If a machine's file differs from the measured one, no page is made and --check fails: measure again (make held-out).
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness
from lab.claims import sources
from lab.claims.machine_files import digest
from lab.run import packed
from lab.claims.held_out_numbers import CURVES, LIBSLOCK, OVERTAKES, RUNS, SENTENCES, SOURCES, Run, stays_below_from

RESULT = harness.TREE / "lab" / "results" / "held-out.json"
MACHINES = harness.TREE / "lab" / "sim" / "machines"
STEP = 9  # cycles of a step of work (PRNG), if a machine's file has no value
TRIALS = {"none": "nothing", "one": "the answer", "all": "all answers"}  # see trials_of
TRIAL_SEEDS = 2
ANCHORS = ("MCS", "CLH", "TICKET", "TTAS", "TAS")  # the number of the first of these in a curve sets the length of its critical section
GUESS = 100  # steps of a curve's critical section in the first simulation


class Points:
    """The points of one run under one seed."""

    def __init__(self, points):
        self.points = points

    def __call__(self, lock, threads, of="throughput"):
        point = self.points[(lock, threads)]
        for key in of.split("."):
            point = point[key]
        return point

    def counts(self):
        return sorted({threads for _, threads in self.points})


class Settling:
    """Counts the runs, and the runs that had not settled."""

    def __init__(self):
        self.runs, self.unsettled = 0, {}

    def count(self, run, points):
        self.runs += len(points)
        for p in points:
            if not p["settled"]:
                name = f"{run.workload} on {run.machine}, {p['lock']} with {p['threads']} thread{'s' * (p['threads'] != 1)}"
                self.unsettled[name] = self.unsettled.get(name, 0) + 1


def command_of(run):
    words = ["sim", run.workload, "--machine", run.machine, "--locks", ",".join(run.locks), "--threads", ",".join(str(t) for t in run.threads),
             "--seeds", str(run.seeds)]
    if run.ms is not None:
        words += ["--ms", f"{run.ms:g}"]
    for name, value in run.settings.items():
        words += ["--set", f"{name}={value}"]
    if run.placement:
        words += ["--placement", run.placement]
    if run.pinned:
        words.append("--pinned")
    for key, value in run.machine_settings.items():
        words += ["--set-machine", f"{key}={value}"]
    return words


def shown(run):
    return "usher " + " ".join(command_of(run))


def points_of(usher, run, settling):
    """Returns the points of each seed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "points.json"
        words = [str(usher)] + command_of(run) + ["--quiet", "--json", str(out)]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=1200)
        if done.returncode != 0:
            harness.die(f"{' '.join(words)}: {done.stderr.strip()}", 1)
        points = json.loads(out.read_text())["points"]
    settling.count(run, points)
    seeds = {}
    for p in points:
        seeds.setdefault(p["seed"], {})[(p["lock"], p["threads"])] = p
    return [Points(seeds[s]) for s in sorted(seeds)]


def values_of(seeds, of):
    return [None if (value := of(p)) is None else round(float(value), 6) for p in seeds]


# ---- curves ----


def spinning_is_work(machine, machines):
    """Returns the machine setting with which a spinning waiter slows the other hardware threads of its core as much as a working thread:
    libslock's waiting loops are assumed to have no PAUSE."""
    file = tomllib.loads((machines / f"{machine}.toml").read_text())
    threads = file.get("hardware_threads", {})
    if "weight_of_spin" in threads:
        return {"hardware_threads.weight_of_spin": 1}
    return {"hardware_threads.slowed_by_spin": threads["slowed_by_work"]["value"]} if "slowed_by_work" in threads else {}


def runs_of(curve, cs, machines, settings=None, seeds=3):
    """Returns one run for each set of thread counts. Locks that were not published for all counts are in a run of their own."""
    by_counts = {}
    for name, published in curve.published.items():
        by_counts.setdefault(tuple(published), []).append(LIBSLOCK[name])
    return [Run("mutexbench", curve.machine, locks, list(counts), {"cs": cs, "ncs": 0}, curve.ms, seeds, placement="compact",
                machine_settings=spinning_is_work(curve.machine, machines) | (settings or {})) for counts, locks in by_counts.items()]


def anchor_of(curve):
    """Returns the published number that sets the length of the curve's critical section: of MCS with the fewest threads or, without MCS,
    of another lock."""
    name = next(name for name in ANCHORS if name in curve.published)
    return name, min(curve.published[name])


def set_by(curve):
    """Returns the one published number that determines the length of the critical section."""
    name, threads = anchor_of(curve)
    return [name, threads, curve.published[name][threads]]


def set_section(usher, curve, machines, settling):
    """Returns the length of the critical section, in steps, with which the lock of anchor_of() is as fast as published."""
    name, threads = anchor_of(curve)
    lock = LIBSLOCK[name]
    run = Run("mutexbench", curve.machine, [lock], [threads], {"cs": GUESS, "ncs": 0}, curve.ms, placement="compact")
    seen = statistics.median(p(lock, threads) for p in points_of(usher, run, settling))
    file = tomllib.loads((machines / f"{curve.machine}.toml").read_text())
    cycles = (1 / curve.published[name][threads] - 1 / seen) * file["machine"]["mhz"]["value"]
    step = file["machine"].get("step", {"value": STEP})["value"]
    if threads <= file["machine"]["sockets"]["value"] * file["machine"]["cores"]["value"]:
        step /= file.get("hardware_threads", {}).get("alone", {"value": 1})["value"]
    return max(0, GUESS + round(cycles / step))


def trials_of():
    """Returns settings for three assumptions about the home of a line. After a request, the home accepts the next one for the same line
    at once (none), when the cache that it asks has answered (one), or when all caches have answered (all)."""
    return {name: {"coherence.home_waits_for": value} for name, value in TRIALS.items()}


def trial_of(curve, cs, name, machines):
    return runs_of(curve, cs, machines, trials_of()[name], TRIAL_SEEDS)


def overtakes_of():
    """Returns the runs that show from how many threads on MCS surpasses ticket: with the machine file as it is, and in the trials."""
    return {name: dataclasses.replace(OVERTAKES, machine_settings=settings)
            for name, settings in [("", {}), *trials_of().items()]}


def measure_curve(usher, curve, runs, cs, settling):
    values = {}
    for run in runs:
        points = points_of(usher, run, settling)
        for name, published in curve.published.items():
            if LIBSLOCK[name] in run.locks:
                values[name] = {str(t): values_of(points, lambda p, t=t, n=name: p(LIBSLOCK[n], t)) for t in published}
    return {"cs": cs, "set_by": set_by(curve), "commands": [shown(r) for r in runs], "values": values}


# ---- the stored results, and their machines ----


def machines_used():
    return sorted({run.machine for run in RUNS.values()} | {c.machine for c in CURVES})


def hashes(machines):
    return {name: digest(machines / f"{name}.toml") for name in machines_used()}


def numbers_of(name, seeds):
    return {n.id: values_of(seeds, n.of) for source in SOURCES for n in source.numbers if n.run == name}


def measure_again(usher, machines, result, names):
    """Repeats some of the runs, and keeps the other results."""
    if hashes(machines) != result["machines"]:
        harness.die("a machine file is another than that of the stored results: repeat all runs", 1)
    settling = Settling()
    for name in names:
        seeds = points_of(usher, RUNS[name], settling)
        result["numbers"] |= numbers_of(name, seeds)
        result["sentences"] |= {s.id: values_of(seeds, s.of) for s in SENTENCES if s.run == name}
        result["commands"][name] = shown(RUNS[name])
        result.setdefault("again", {})[name] = {"commit": harness.commit(), "date": harness.day()}
    result["unsettled"] |= settling.unsettled
    return result


def sources_now():
    """Returns the digest of the sources from which the runs are compiled."""
    runs = [*RUNS.values(), *(run for c in CURVES for run in runs_of(c, 1, MACHINES))]
    return sources.digest({run.workload for run in runs}, {lock for run in runs for lock in run.locks})


def measure(usher, machines):
    began, settling = time.monotonic(), Settling()
    numbers, sentences, curves, trials = {}, {}, {}, {name: {} for name in TRIALS}
    for name, run in RUNS.items():
        seeds = points_of(usher, run, settling)
        numbers |= numbers_of(name, seeds)
        sentences |= {s.id: values_of(seeds, s.of) for s in SENTENCES if s.run == name}
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    for curve in CURVES:
        cs = set_section(usher, curve, machines, settling)
        curves[curve.id] = measure_curve(usher, curve, runs_of(curve, cs, machines), cs, settling)
        for name in TRIALS:
            trials[name][curve.id] = measure_curve(usher, curve, trial_of(curve, cs, name, machines), cs, settling)
        print(f"{curve.id}: {time.monotonic() - began:.0f} s", flush=True)
    overtakes = {name: {"command": shown(run), "values": values_of(points_of(usher, run, settling), stays_below_from(*run.locks))}
                 for name, run in overtakes_of().items()}
    print(f"{OVERTAKES.machine}, trials: {time.monotonic() - began:.0f} s", flush=True)
    return {"commit": harness.commit(), "date": harness.day(), "seconds": round(time.monotonic() - began), "machines": hashes(machines),
            "sources": sources_now(), "runs": settling.runs, "unsettled": settling.unsettled, "commands": {name: shown(run) for name, run in RUNS.items()},
            "numbers": numbers, "sentences": sentences, "curves": curves, "trials": trials, "overtakes": overtakes}


def same_curve(curve, written, trial, machines):
    """Whether the stored results of a curve belong to the present runs and published numbers, and the same published number has set the
    critical section."""
    if written.get("set_by") != set_by(curve):
        return False
    runs = trial_of(curve, written["cs"], trial, machines) if trial else runs_of(curve, written["cs"], machines)
    return (written["commands"] == [shown(run) for run in runs]
            and {name: set(v) for name, v in written["values"].items()} == {name: {str(t) for t in v} for name, v in curve.published.items()})


def same(result, machines):
    """Whether the stored results belong to the present held_out_numbers.py."""
    ids = {n.id for source in SOURCES for n in source.numbers}
    return ("runs" in result and result["commands"] == {name: shown(run) for name, run in RUNS.items()} and set(result["numbers"]) == ids
            and set(result["sentences"]) == {s.id for s in SENTENCES} and set(result["trials"]) == set(TRIALS)
            and all(set(curves) == {c.id for c in CURVES} for curves in [result["curves"], *result["trials"].values()])
            and all(same_curve(c, result["curves"][c.id], "", machines) for c in CURVES)
            and all(same_curve(c, result["trials"][name][c.id], name, machines) for name in TRIALS for c in CURVES)
            and {name: found["command"] for name, found in result["overtakes"].items()}
            == {name: shown(run) for name, run in overtakes_of().items()})


def measured(machines):
    """Returns the stored results, if the machine files and the runs are unchanged."""
    if not RESULT.is_file():
        harness.die(f"{RESULT.relative_to(harness.TREE)} is missing: make held-out", 1)
    result = packed.document(RESULT)
    for name, found in hashes(machines).items():
        if result["machines"].get(name) != found:
            harness.die(f"{name}.toml is another than when lab/results/held-out.json was measured: make held-out", 1)
    if result.get("sources") != sources_now():
        harness.die("lab/results/held-out.json is of another simulator, program or lock: make held-out", 1)
    if not same(result, machines):
        harness.die("lab/results/held-out.json is of other runs or numbers than held_out_numbers.py has: make held-out", 1)
    return result


# ---- the page ----


def fitted_keys(machines, name):
    """Returns the keys that a machine's file marks as fitted."""
    keys = set()
    for section, values in tomllib.loads((machines / f"{name}.toml").read_text()).items():
        keys |= {f"{section}.{key}" for key, value in values.items() if isinstance(value, dict) and value.get("fitted")}
    return keys


def median(values):
    """Returns the median of the values; None if most runs have no value."""
    seen = [v for v in values if v is not None]
    return statistics.median(seen) if 2 * len(seen) > len(values) else None


def factor(published, seen):
    """Returns the factor between two numbers, at least 1; 1 means equal. None if one of them is 0."""
    if seen is None:
        return float("inf")
    if published == 0 or seen == 0:
        return 1.0 if published == seen else None if published == 0 else float("inf")
    return max(seen / published, published / seen)


def text(value):
    if value is None:
        return "none"
    if value == 0:
        return "0"
    if abs(value) >= 100000:
        return f"{value / 1e6:.3g} million"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio_text(published, seen):
    if seen is None:
        return "–"
    return "–" if published == 0 else f"{seen / published:.2f}" if 0.005 < seen / published < 100 else f"{seen / published:.1g}"


def shares(factors):
    """Returns the cells of the columns: how many numbers, the median factor, the shares within 1.25, 1.5 and 2."""
    if not factors:
        return "0 | – | – | – | –"
    middle = statistics.median(factors)
    within = " | ".join(f"{100 * sum(f <= limit for f in factors) / len(factors):.0f} %" for limit in (1.25, 1.5, 2))
    return f"{len(factors)} | {f'{middle:.2f}' if middle != float('inf') else '–'} | {within}"


def judged_numbers(result, machines):
    """Returns for each source the held-out numbers, and the other numbers with the reason why they are not held out."""
    judged = []
    for source in SOURCES:
        kept, others = [], []
        for n in source.numbers:
            seen = median(result["numbers"][n.id])
            set_for = sorted(set(n.fitted) & fitted_keys(machines, RUNS[n.run].machine))
            why = n.spent or (f"`{'`, `'.join(set_for)}` of {RUNS[n.run].machine} {'were' if len(set_for) > 1 else 'was'} set for it" if set_for else "")
            (others if why else kept).append((n, seen, why))
        judged.append((source, kept, others))
    return judged


def order_right(curve, measured_curve):
    """Returns (number of pairs of locks in their published order, number of all pairs). The pairs are of locks with the same number of
    threads that are at least 10 % apart."""
    pairs = right = 0
    values = measured_curve["values"]
    names = list(curve.published)
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            for t in set(curve.published[a]) & set(curve.published[b]):
                was = curve.published[a][t] / curve.published[b][t]
                if max(was, 1 / was) >= 1.1:
                    pairs += 1
                    right += (median(values[a][str(t)]) / median(values[b][str(t)]) > 1) == (was > 1)
    return right, pairs


def crossing(a, b, least):
    """Returns the two numbers of threads between which lock `a`, which was ahead of `b` by at least `least`, falls behind by as much.
    None if that does not happen."""
    ahead = None
    for t in sorted(set(a) & set(b)):
        if a[t] >= b[t] * least:
            ahead = t
        elif ahead is not None and b[t] >= a[t] * least:
            return ahead, t
    return None


def crossings(curve, measured_curve):
    """Returns sentences about locks that overtake each other by 10 % in the published curves, with the number of threads at which this
    happens in the simulation."""
    seen = {name: {int(t): median(v) for t, v in row.items()} for name, row in measured_curve["values"].items()}
    found = []
    for a in curve.published:
        for b in curve.published:
            was = crossing(curve.published[a], curve.published[b], 1.1)
            if was is None:
                continue
            now = crossing(seen[a], seen[b], 1)
            found.append(f"{a} falls below {b} between {was[0]} and {was[1]} threads in the published figures, and in the simulation "
                         + (f"between {now[0]} and {now[1]}" if now else
                            "is always below" if seen[a][was[0]] < seen[b][was[0]] else "never"))
    return found


def curve_numbers(curve, measured_curve):
    """Returns (lock, threads, published, simulated) for all numbers except the one that has set the critical section."""
    values = measured_curve["values"]
    return [(name, t, published, median(values[name][str(t)])) for name, row in curve.published.items() for t, published in row.items()
            if (name, t) != anchor_of(curve)]


def curve_factors(curve, measured_curve, lock=None):
    return [factor(p, seen) for name, _, p, seen in curve_numbers(curve, measured_curve) if lock in (None, name)]


def settling_text(result):
    if not result["unsettled"]:
        return f"All {result['runs']} runs had settled."
    return (f"Of {result['runs']} runs {sum(result['unsettled'].values())} had not settled: {harness.counted(result['unsettled'])}.")


def fenced(commands):
    return ["```sh", *commands, "```"]


def page(result, machines):
    judged = judged_numbers(result, machines)
    again = "".join(f"The run \"{name}\" was repeated on {found['date']} at commit {found['commit']}. "
                    for name, found in result.get("again", {}).items())
    lines = ["", f"The simulations ran on {result['date']} at commit {result['commit']}, in {result['seconds']} seconds. {again}"
                 f"{settling_text(result)}", "",
             "| source | numbers | median factor | within 1.25 | 1.5 | 2 |", "|---|---|---|---|---|---|"]
    everything = []
    for source, kept, _ in judged:
        factors = [f for n, seen, _ in kept if (f := factor(n.published, seen)) is not None]
        if source.counted:
            everything += factors
        lines.append(f"| {source.title}{'' if source.counted else ' (other programs, not counted)'} | {shares(factors)} |")
    for curve in CURVES:
        factors = curve_factors(curve, result["curves"][curve.id])
        if curve.held_out:
            everything += factors
        lines.append(f"| mctop, locks on {curve.machine}{'' if curve.held_out else ' (not held out)'} | {shares(factors)} |")
    lines += [f"| **all that are held out** | {shares(everything)} |", ""]
    lines += trial_tables(result)
    for source, kept, _ in judged:
        lines += [f"## {source.title}", "", source.text, "", "| number | published | simulated | ratio |", "|---|---|---|---|"]
        for n, seen, _ in kept:
            unit = f" {n.unit}" if n.unit else ""
            lines.append(f"| {n.what} | {text(n.published)}{unit} | {text(seen)}{unit if seen is not None else ''} | {ratio_text(n.published, seen)} |")
        lines.append("")
        lines += fenced(dict.fromkeys(result["commands"][n.run] for n, _, _ in kept)) + [""]
    for curve in CURVES:
        lines += curve_text(curve, result)
    lines += ["## Sentences", "", "| sentence | seen | wanted | |", "|---|---|---|---|"]
    for s in SENTENCES:
        seen = median(result["sentences"][s.id])
        lines.append(f"| {s.what} | {text(seen)} | {s.wanted} | {'as it says' if s.holds(seen) else '✗'} |")
    lines += [""] + fenced(dict.fromkeys(result["commands"][s.run] for s in SENTENCES))
    lines += ["", "## Not held out", "", "| number | published | simulated | because |", "|---|---|---|---|"]
    for source, _, others in judged:
        lines += [f"| {source.title.split(',')[0]}: {n.what} | {text(n.published)} | {text(seen)} | {why} |" for n, seen, why in others]
    for curve in CURVES:
        name, t = anchor_of(curve)
        seen = median(result["curves"][curve.id]["values"][name][str(t)])
        lines.append(f"| {curve.machine}: {name}, {t} threads, M/s | {text(curve.published[name][t])} | {text(seen)} | the critical section "
                     f"{'is set by it' if result['curves'][curve.id]['cs'] > 0 else 'would be set by it'} |")
    lines += ["", "## Machine files", "", "| file | SHA-256 of its values |", "|---|---|"]
    lines += [f"| [{name}.toml](../../lab/sim/machines/{name}.toml) | `{found}` |" for name, found in result["machines"].items()]
    return "\n".join(lines)


def share_texts(factors):
    """Returns the cells of shares() as one text."""
    numbers, middle, *within = shares(factors).split(" | ")
    return f"{middle} ({', '.join(w.removesuffix(' %') for w in within)})"


def trial_tables(result):
    """Returns the errors of the curves, with the machine files as they are and in the trials: by lock, by machine, and of the order of
    the locks."""
    kinds = {"as the files are": result["curves"], **{name: result["trials"][name] for name in TRIALS}}
    head, line = " | ".join(kinds), "---|" * (len(kinds) + 2)
    lines = ["The next two tables have the errors of mctop's lock curves, by lock and by machine. A cell has the median factor between "
             "simulated and published figures, and the percentage of figures within a factor of 1.25, 1.5 and 2.", "",
             f"| lock | numbers | {head} |", f"|{line}"]
    for lock in LIBSLOCK:
        cells = [[f for c in CURVES for f in curve_factors(c, kind[c.id], lock)] for kind in kinds.values()]
        lines.append(f"| {lock} | {len(cells[0])} | {' | '.join(map(share_texts, cells))} |")
    lines += ["", f"| machine | numbers | {head} |", f"|{line}"]
    for name, curves in [*((c.machine, [c]) for c in CURVES), ("**all**", CURVES)]:
        cells = [[f for c in curves for f in curve_factors(c, kind[c.id])] for kind in kinds.values()]
        lines.append(f"| {name} | {len(cells[0])} | {' | '.join(map(share_texts, cells))} |")
    lines += ["", "The next table counts pairs of locks whose published figures differ by at least 10 % with the same number of threads: "
                  "all "
                  "of them, and those that have the same order in the simulation.", "",
              f"| machine | pairs | {head} |", f"|{line}"]
    for name, curves in [*((c.machine, [c]) for c in CURVES), ("**all**", CURVES)]:
        cells = [[sum(x) for x in zip(*(order_right(c, kind[c.id]) for c in curves))] for kind in kinds.values()]
        lines.append(f"| {name} | {cells[0][1]} | {' | '.join(str(right) for right, _ in cells)} |")
    seen = {name: median(found["values"]) for name, found in result["overtakes"].items()}
    counts = ", ".join(f"{name}: {text(seen[name])}" for name in TRIALS)
    return lines + ["", f"On the {OVERTAKES.machine} MCS surpasses the ticket lock at 24 threads in the TWA paper, and in the simulation from "
                        f"{text(seen[''])} threads on; under the other rules from these numbers of threads on: {counts}.", ""]


def section_text(curve, result):
    cs = result["curves"][curve.id]["cs"]
    name, threads = anchor_of(curve)
    if cs == 0:
        return f"The critical section is empty: even so {name} with {threads} threads is not as fast as published."
    return f"The length of the critical section, {cs} steps, was set so that {name} with {threads} threads is as fast as published."


def curve_text(curve, result):
    """Returns a table of threads by locks: published → simulated."""
    right, pairs = order_right(curve, result["curves"][curve.id])
    counts = sorted({t for row in curve.published.values() for t in row})
    crossed = crossings(curve, result["curves"][curve.id])
    values = result["curves"][curve.id]["values"]
    lines = [f"## {curve.machine}: locks of mctop's [{curve.file}](https://github.com/LPD-EPFL/mctop/tree/master/results/locks)", "",
             f"A cell has million acquisitions a second: published → simulated (ratio). Of {pairs} pairs of locks whose published figures "
             f"differ by at least 10 % with the same number of threads, {right} have the same order in the simulation. "
             + section_text(curve, result) + (f" {'. '.join(crossed)}." if crossed else ""), "",
             "| threads | " + " | ".join(curve.published) + " |", "|---" * (len(curve.published) + 1) + "|"]
    for t in counts:
        cells = []
        for name, row in curve.published.items():
            if t not in row:
                cells.append("–")
                continue
            seen = median(values[name][str(t)])
            mark = "set" if (name, t) == anchor_of(curve) and result["curves"][curve.id]["cs"] > 0 else ratio_text(row[t], seen)
            cells.append(f"{text(row[t])} → {text(seen)} ({mark})")
        lines.append(f"| {t} | " + " | ".join(cells) + " |")
    return lines + [""] + fenced(result["curves"][curve.id]["commands"]) + [""]


def whole_page(text):
    return harness.between_markers(text, "held out", page(measured(MACHINES), MACHINES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=harness.TREE / "build" / "release", type=Path)
    parser.add_argument("--run", choices=RUNS, action="append", help="repeat this run only; the other results stay")
    parser.add_argument("--check", action="store_true", help="only whether results and machine files belong together")
    parser.add_argument("--machines", default=MACHINES, type=Path, help=argparse.SUPPRESS)  # for the test
    options = parser.parse_args()
    if options.check:
        measured(options.machines)
    else:
        build = harness.Build(options.build)
        build.need(build.usher)
        result = (measure_again(build.usher, options.machines, packed.document(RESULT), options.run) if options.run
                  else measure(build.usher, options.machines))
        RESULT.write_text(json.dumps(packed.without_stamp(RESULT, result), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
