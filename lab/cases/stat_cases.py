"""`usher stat` on real programs, and the cost of recording: lab/results/stat. The programs are those of `usher
try` (lab/run/case.py) and three more; each result is the JSON and the table of one `usher stat` with the machine and the
command.

  python3 -m lab.cases.stat_cases --list                        the cases, and missing programs
  python3 -m lab.cases.stat_cases [--only redis,node]           record each once: a minute or two
  python3 -m lab.cases.stat_cases --cost [--only redis]         the cost of recording: interleaved rounds, some ten minutes
  python3 -m lab.cases.stat_cases --pairs                       the cost for an uncontended lock and unlock
  python3 -m lab.pages stat                                     make the page

The programs run in a scratch folder, with the build's programs and Debian's in PATH."""

import json
import re
import statistics
import tempfile
import time
from pathlib import Path

import harness
from harness import TREE, Build, between_markers, clean_environment
from lab.cases import stat_agrees
from lab.cases.try_cases import HINT, quantity, wrapped
from lab.run import packed, rounds, runner, script
from lab.run.case import MORE, TRIED, chosen
from lab.run.runner import Failed

# perl-lifo differs from perl only by a setting of Usher's condition variables, which has no effect here: the runs of this script use the C
# library's condition variables.
COSTED = [case for case in TRIED if case.name != "perl-lifo"]
CASES = COSTED + MORE
RESULTS = TREE / "lab/results/stat"
LIBRARY, RECORDED = ["run", "--lock", "pthread", "--"], ["stat", "-o", "/dev/null", "--"]


# ---- one run ---------------------------------------------------------------------------------------------------------

# Runs a command, and then prints the CPU time of that command on stderr.
TIMED = ["sh", "-c", '"$@"; status=$?; echo "CPU time:" >&2; times >&2; exit $status', "sh"]


def cpu_seconds(text):
    found = re.search(r"^CPU time:\n.*\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", text, re.M)
    return sum(float(part) * unit for part, unit in zip(found.groups(), (60, 1, 60, 1))) if found else 0.0


def run_once(case, prefix, place, folder, options):
    """Runs the program once, with the words of `prefix` before its command; a server runs with its load. Returns the program's figure
    (if it prints none, the seconds of the run), and its standard error."""
    text, outcome = runner.run_case(place, case, folder, 30 + 10 * options.seconds, prefix)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return runner.figure(case.metric, text) if case.metric else outcome.seconds, outcome.stderr


def without_folder(text, folder):
    """Returns a result without the paths of the scratch folder and of the tree."""
    return text.replace(str(folder) + "/", "").replace(str(TREE) + "/", "")


def shortened(result):
    """Returns the first rows of a result, with only the necessary parts of each row. Otherwise the result for Java would have two
    megabytes."""
    for row in result["rows"]:
        for key, most in (("each", 5), ("waiters", 3), ("holders", 3), ("threads", 10)):
            if isinstance(row.get(key), list):
                row[key] = row[key][:most]
        for each in row.get("each") or []:
            each["threads"] = (each.get("threads") or [])[:3]
    return result | {"rows": [row for i, row in enumerate(result["rows"]) if i < 20]}


# ---- a record of each ------------------------------------------------------------------------------------------------

def record(case, place, folder, options):
    """Runs one `usher stat`, which writes its result to the output folder."""
    others = harness.OthersShare()
    with tempfile.TemporaryDirectory(prefix="usher-stat-") as output:
        raw, table = Path(output) / "result.json", Path(output) / "table"
        run_once(case, [str(place.build.usher), "stat", "--json", str(raw), "-o", str(table), "--"], place, folder, options)
        text, result = table.read_text(), json.loads(without_folder(raw.read_text(), folder))
    rounds.put(options.out / f"{case.name}.json", {
        "case": case.name, "threads": options.threads, "command": case.line("usher", "stat", "--"), "load": case.until,
        "prepare": case.prepare, "seconds": options.seconds, **rounds.origin(place.build),
        "others_cpu_share": round(others.share(), 4), "packages": place.versions(case.packages()),
        "text": without_folder(text, folder).splitlines(), "result": shortened(result)})
    return result.get("verdict", "recorded")


# ---- the cost --------------------------------------------------------------------------------------------------------

WAYS = {"without": [], "library": LIBRARY, "recorded": RECORDED}


def prefix_of(words, build):
    return [str(build.usher)] + words if words else []


def measure_costs(case, place, folder, options):
    """Runs interleaved rounds of all ways of running, after one round that does not count. A CPU time of 0 (for a server) means unknown."""
    others = harness.OthersShare()
    timed = [] if case.until else TIMED
    found = rounds.sampled(WAYS, options.rounds, lambda way: run_once(
        case, prefix_of(WAYS[way], place.build) + timed, place, folder, options), warm_up=1)
    return {"case": case.name, "threads": options.threads, "unit": case.unit, "lower": case.lower, "command": case.line(),
            "figures": {way: [figure for figure, _ in values] for way, values in found.items()},
            "cpu_seconds": {way: [cpu_seconds(text) if timed else 0.0 for _, text in values] for way, values in found.items()},
            **rounds.origin(place.build), "packages": place.versions(case.packages()), "others_cpu_share": round(others.share(), 4)}


def ratio(row, way, base="without"):
    """Returns the throughput of one way of running relative to that of another: the ratio of the medians, and the range of the rounds'
    ratios without the lowest and the highest tenth."""
    above, below = row["figures"][way], row["figures"][base]
    if row["lower"]:
        above, below = below, above
    pairs = sorted(a / b for a, b in zip(above, below))
    cut = len(pairs) // 10
    return statistics.median(above) / statistics.median(below), pairs[cut], pairs[-1 - cut]


def cpu_ratio(row, way, base="without"):
    """Returns the ratio of the work for a second of CPU time, from the medians. It does not depend on the CPU time of other processes."""
    def per_second(which):
        pairs = zip(row["figures"][which], row.get("cpu_seconds", {}).get(which, []))
        each = [(1 if row["lower"] else figure) / seconds for figure, seconds in pairs if seconds > 0]
        return statistics.median(each) if each else None
    above, below = per_second(way), per_second(base)
    return f"{above / below:.2f}" if above and below else "–"


def ratio_cell(row, way, base="without"):
    middle, low, high = ratio(row, way, base)
    return f"{middle:.3f} ({low:.2f}–{high:.2f})"


def cost_rows(documents):
    rows = []
    for row in documents:
        rows.append([row["case"], f"{quantity(statistics.median(row['figures']['without']))} {row['unit']}",
                     ratio_cell(row, "library"), ratio_cell(row, "recorded"), cpu_ratio(row, "recorded"),
                     f"{100 * row['others_cpu_share']:.0f} %", str(len(row["figures"]["without"]))])
    return rows


COST_HEADING = ["program", "without Usher", "library, not recorded", "recorded", "recorded, by CPU time", "others' CPU",
                "rounds"]

PAIR_WAYS = {"C library": [], "library, not recorded": LIBRARY, "recorded": RECORDED,
             "recorded, --hold-times": ["stat", "--hold-times", "-o", "/dev/null", "--"]}


def measure_pairs(build, options):
    """Returns the nanoseconds of an uncontended lock and unlock: in each round the fastest batch."""
    others, results = harness.OthersShare(), []
    for kind in ("normal", "recursive"):
        samples = rounds.sampled(PAIR_WAYS, max(15, options.rounds), lambda way: runner.pair_ns(
            build, kind, 100000, 20, clean_environment(), prefix_of(PAIR_WAYS[way], build)))
        for way in PAIR_WAYS:
            results.append({"kind": kind, "way": way, "minimum_ns": min(samples[way]),
                            "median_ns": statistics.median(samples[way]),
                            "more_ns": min(samples[way]) - min(samples["C library"]), "rounds_ns": samples[way]})
    return {"measurement": "stat pairs", **harness.provenance(build, others), "results": results}


def pair_rows(document):
    return [[r["kind"], r["way"], f"{r['minimum_ns']:.1f}", f"{r['more_ns']:+.1f}", f"{r['median_ns']:.1f}"]
            for r in document["results"]]


PAIR_HEADING = ["kind", "way", "fastest ns", "more than the C library", "median ns"]


# ---- all cases -------------------------------------------------------------------------------------------------------

def measure_all(cases, build, options):
    """Records each case or, with --cost, measures the cost of recording it."""
    build.need(build.usher, build.library)
    place, report = runner.Place(build), script.Report()
    target = options.out / "cost.json"

    def cost(case, folder):
        row = measure_costs(case, place, folder, options)
        rows = rounds.merged(target, "cases", [row], "case", [c.name for c in CASES])
        rounds.put(target, {"measurement": "stat cost", "cases": rows})
        return (f"library {ratio_cell(row, 'library')}, recorded {ratio_cell(row, 'recorded')}, by CPU time "
                f"{cpu_ratio(row, 'library')}, {cpu_ratio(row, 'recorded')}")

    def work(case, folder):
        began, case = time.monotonic(), case.at(options.threads, options.seconds)
        told = cost(case, folder) if options.cost else record(case, place, folder, options)
        print(f"{case.name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)

    report.each_case(cases, place, work, "usher-stat-", HINT)
    return report.end()


# ---- the pages -------------------------------------------------------------------------------------------------------

def place_lines(documents):
    """Returns a line for each machine, commit and command with which documents were measured."""
    found = []
    for d in documents:
        line = f"{rounds.machine_text(d['machine'])}; {d['compiler']}; commit {d['commit']}; {d['date'][:10]}"
        if line not in found:
            found.append(line)
    return " / ".join(found)


def tables(cost, pairs):
    text = []
    if cost:
        rows = cost["cases"]
        text += ["## Programs", "",
                 "The table has the throughput with the library relative to the throughput without it: the ratio of the medians of "
                 "interleaved rounds, and in brackets the range of the middle 80 % of the rounds. \"Not recorded\" is "
                 "`usher run --lock pthread`, \"recorded\" is "
                 "`usher stat -o /dev/null`; both use the C library's mutex. The column \"by CPU time\" has the ratio of the work done in "
                 "a second of CPU time. Other programs have less influence on this ratio; it is not known for servers.",
                 "", harness.markdown(cost_rows(rows), COST_HEADING), "", "`python3 -m lab.cases.stat_cases --cost` ran each of these "
                 "commands in three ways: alone, after `usher run --lock pthread --`, and after `usher stat -o /dev/null --`:", "", "```sh",
                 *[wrapped(row["command"]) for row in rows], "```", "", f"Measured on {place_lines(rows)}.", ""]
    if pairs:
        text += ["## An uncontended lock and unlock", "",
                 f"`pair_cost` measured the time of a lock and unlock without contention, in {len(pairs['results'][0]['rounds_ns'])} "
                 f"interleaved "
                 "rounds of 20 × 100000 pairs, in a process that has had a second "
                 "thread.", "", harness.markdown(pair_rows(pairs), PAIR_HEADING), "",
                 harness.provenance_line(pairs), ""]
    return "\n".join(text).strip()


def page(text):
    cost, pairs = (packed.document(RESULTS / name) for name in ("cost.json", "pairs.json"))
    text = between_markers(text, "cost", tables(cost, pairs))
    return between_markers(text, "agreement", stat_agrees.table(packed.document(stat_agrees.RESULT)))


# ---- the command -----------------------------------------------------------------------------------------------------

def parsed():
    parser = script.parser(__doc__, cases=True)
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="(8)")
    parser.add_argument("--seconds", type=int, default=0, metavar="N",
                        help="how long a run takes, about (4, and 1 for the cost)")
    parser.add_argument("--cost", action="store_true", help="measure throughput without, with the library, recorded")
    parser.add_argument("--pairs", action="store_true", help="measure an uncontended lock and unlock")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="runs of each that count (7; pairs: at least 15)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where results go (costs: lab/results/stat; reports: build/stat)")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1 or options.seconds < 0:
        parser.error("--rounds and --threads start at 1")
    options.seconds = options.seconds or (1 if options.cost else 4)
    options.out = options.out or (RESULTS if options.cost or options.pairs else TREE / "build" / "stat")
    return options


def main():
    options = parsed()
    options.out = options.out.resolve()
    build = Build(options.build)
    if options.list:
        return script.list_cases(COSTED if options.cost else CASES, runner.Place(build), HINT)
    if options.pairs:
        build.need(build.usher, build.library, build.program("pair_cost") or build.programs / "pair_cost")
        document = measure_pairs(build, options)
        rounds.put(options.out / "pairs.json", document)
        print(harness.table(pair_rows(document), PAIR_HEADING, right=(2, 3, 4)))
        print("\n" + harness.provenance_line(document))
        return 0
    return measure_all(chosen(CASES, options.only) if options.only or not options.cost else COSTED, build, options)


if __name__ == "__main__":
    script.entry(main)
