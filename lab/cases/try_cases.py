"""`usher try` on real programs: the figures of lab/pages/try.md. Each case is one program, run at several thread counts
under the C library's mutex and the locks that `usher try` takes by itself; each result is the JSON of one `usher try` with the machine
and the command. A result that is there already is not measured again, so that an interrupted table can be completed.

  python3 -m lab.cases.try_cases --list                                     the cases, and missing programs
  python3 -m lab.cases.try_cases                                            measure missing results; an hour, or less
  python3 -m lab.cases.try_cases --only leveldb,redis --threads 8 --again   measure some results once more
  python3 -m lab.cases.try_cases --write-doc                                set the results into lab/pages/try.md

The programs run in a scratch folder, with the build's programs and Debian's in PATH."""

import json
import os
import re
import signal
import statistics
import sys
import time
from pathlib import Path

import harness
from harness import TREE, Build, between_markers, die
from lab.run import packed, rounds, runner, script
from lab.run.case import TRIED, chosen
from lab.run.runner import Failed

C_LIBRARY = "pthread"
MOST_CANDIDATES = 4  # of usher try without --locks
FORMAT = 2  # of usher try --json; results in another format count as missing
SHOWN_THREADS = 8  # in the tables of all cases
HINT = " (tools/deps.sh try installs what these cases need)"


# ---- measuring -------------------------------------------------------------------------------------------------------

def trial(case, options):
    """Returns the words of `usher try` for a case whose texts are filled in, without the names of output files."""
    words = ["usher", "try"] + (["--locks", options.locks] if options.locks else [])
    words += ["--rounds", str(options.rounds)] if options.rounds else ["--budget", options.budget]
    if options.warmup != 1:
        words += ["--warmup", str(options.warmup)]
    words += ["--timeout", f"{options.timeout:g}"]
    for option, text in (("--before", case.before), ("--ready", case.ready), ("--until", case.until)):
        if text:
            words += [option, text]
    return words + ["--metric", case.metric] + (["--lower"] if case.lower else [])


def guarded(place, words, limit, env, folder):
    """Runs `usher try`. At the time limit it is asked to stop, so that it cleans up; then it is killed with all processes that it
    started."""
    with runner.ended(place.start(words, env, folder), patience=30) as process:
        late = not process.ended_within(limit)
        if late:
            process.kill_group(signal.SIGTERM)
            process.ended_within(30)
        return process.finish(0, backtrace=False), late


def seconds_of(text):
    """Reads a duration as --budget of usher try does: 90s, 2m, 1h30m, or seconds."""
    found = re.fullmatch(r"(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s?)?", text)
    if not text or not found:
        raise ValueError(f"--budget {text}: no duration, as 90s, 2m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


def outside_limit(options):
    """Returns the time limit of one `usher try`, in seconds. Most runs take little more than --seconds. A lock that hands over to
    threads without a CPU may take ten times as long for the same work, and the budget does not shorten a run that has begun."""
    candidates = len(options.locks.split(",")) + 1 if options.locks else MOST_CANDIDATES + 1
    if options.rounds:
        return options.limit or 60 + (options.rounds + options.warmup) * candidates * max(10, 5 * options.seconds)
    return options.limit or 120 + 2 * seconds_of(options.budget) + 3 * candidates * options.timeout


def measure(case, threads, place, folder, options):
    """Runs one `usher try`, which writes its result to the output folder."""
    case = case.at(threads, options.seconds)
    words = trial(case, options)
    raw = folder / "result.json"
    raw.unlink(missing_ok=True)
    outcome, late = guarded(place, [str(place.build.usher), *words[1:], "--quiet", "--json", str(raw), "--", *case.words()],
                            outside_limit(options), place.environment(None, case.environment), folder)
    for text, stream in ((outcome.stdout, sys.stdout), (outcome.stderr, sys.stderr)):
        if text.strip():
            print(text.rstrip(), file=stream, flush=True)
    if late:
        raise Failed(f"not done after {outside_limit(options):.0f} s: stopped, nothing kept (--limit gives more time)")
    if outcome.status not in (0, 1) or not raw.is_file() or raw.stat().st_size == 0:
        raise Failed(f"usher try: {outcome.trouble()}")
    result = json.loads(raw.read_text())
    base = result["candidates"][0]
    if base["troubles"] or not base["runs"] or result["interrupted"]:
        raise Failed("without any lock of Usher's: " + ("; ".join(base["troubles"]) or "no round was run to its end"))
    target = options.out / f"{case.name}-{threads}.json"
    rounds.put(target, {"case": case.name, "threads": threads, "command": case.line(*words, "--"), "prepare": case.prepare,
                        "rounds": options.rounds or None, "budget": None if options.rounds else options.budget,
                        "warmup": options.warmup, "seconds": options.seconds, **rounds.origin(place.build),
                        "packages": place.versions(case.packages()), "result": result})
    if outcome.status != 0:
        raise Failed("a run failed, hung or printed something else; kept, the result says what")


def measure_all(cases, thread_counts, build, options):
    build.need(build.usher, build.library)
    place, report = runner.Place(build), script.Report()
    wanted = {case: [threads for threads in thread_counts if options.again or threads not in load(case, options.out)] for case in cases}
    total = sum(map(len, wanted.values()))
    if total < len(cases) * len(thread_counts):
        print(f"{len(cases) * len(thread_counts) - total} results are there already (--again measures them once more).", flush=True)
    order = [(case, threads) for case in cases for threads in wanted[case]]

    def work(case, folder):
        for threads in wanted[case]:
            print(f"\n[{order.index((case, threads)) + 1}/{total}, {report.elapsed()}] {case.title}, {threads} threads", flush=True)
            began = time.monotonic()
            with report.failures(f"{case.name}, {threads} threads"):
                measure(case, threads, place, folder, options)
            print(f"{time.monotonic() - began:.0f} s", flush=True)

    report.each_case([case for case in cases if wanted[case]], place, work, "usher-try-", HINT)
    print(f"\n{total} results wanted, {len(report.failed)} with problems, {len(report.skipped)} cases skipped; {report.elapsed()}")
    return report.end()


# ---- the page --------------------------------------------------------------------------------------------------------

def load(case, folder):
    """Returns the results of a case by number of threads."""
    found = {}
    for file in packed.files(folder, f"{case.name}-*.json"):
        number = file.stem[len(case.name) + 1:]
        document = packed.document(file) if number.isdigit() else {"result": {}}
        if document["result"].get("format") == FORMAT:
            found[int(number)] = document
    return dict(sorted(found.items()))


def quantity(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number(count):
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k" if count >= 1e4 else f"{count:,}"


def is_certain(candidate):
    return candidate["verdict"] in ("better", "worse")


def troubles(candidate):
    line = candidate.get("output_differs_at_line")
    return candidate.get("troubles", []) + ([f"printed something else (line {line})"] if line else [])


def ratio_text(value):
    return f"{value:.2f}" if value >= 0.095 or value == 0 else f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def limits_text(between):
    """Returns the limits as `usher try` writes them: the lower or the upper one, or both, may still be unknown."""
    low, high = between or (None, None)
    if low is not None and high is not None:
        return f" {ratio_text(low)}–{ratio_text(high)}"
    return f" ≥{ratio_text(low)}" if low is not None else f" ≤{ratio_text(high)}" if high is not None else ""


def cell(candidate):
    if candidate is None or candidate["speed_up"] is None:
        return "failed †" if candidate and troubles(candidate) else "–"
    text = ratio_text(candidate["speed_up"])
    text = (f"**{text}**" if candidate["verdict"] == "better" else text) + limits_text(candidate["interval"])
    text = f"({text})" if not is_certain(candidate) else text
    return text + (" =" if candidate["verdict"] == "level" else "") + (" †" if troubles(candidate) else "")


def short_cell(candidate):
    """Returns the speed-up without its interval; an uncertain speed-up is in brackets."""
    if candidate is None or candidate["speed_up"] is None:
        return "failed" if candidate and troubles(candidate) else "–"
    text = ratio_text(candidate["speed_up"])
    return f"({text})" if not is_certain(candidate) else f"**{text}**" if candidate["speed_up"] > 1 else text


def calls_of(document):
    """Returns the lock calls of the program under the C library, counted in the warm-up run; None if they were not counted."""
    return document["result"]["candidates"][0]["calls"]


def contention(calls):
    share = 100 * calls["contended"] / calls["locks"] if calls["locks"] else 0
    return f"{share:.1f} %" if share >= 0.05 or not calls["contended"] else "< 0.1 %"


def waiting(document):
    """Returns the share of all threads' time in which they waited for mutexes, under the C library."""
    share = (calls_of(document) or {}).get("waiting_share")
    return "–" if share is None else f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def names(documents):
    """Returns all candidates except the C library, in the given order."""
    return list(dict.fromkeys(c["name"] for d in documents for c in d["result"]["candidates"][1:]))


def base_median(document):
    runs = document["result"]["candidates"][0]["runs"]
    return statistics.median(run["metric"] for run in runs if run["metric"] is not None)


def candidate_of(document, name):
    return next((c for c in document["result"]["candidates"] if c["name"] == name), None)


def others_text(documents):
    shares = [round(100 * d["result"]["others_cpu_share"]) for d in documents]
    return "–".join(dict.fromkeys([str(min(shares)), str(max(shares))])) + " % of the CPU time"


def figures_table(rows, heading):
    """Returns the table with all columns except the first flush right."""
    return harness.markdown(rows, heading).replace("---|" * len(heading), "---|" + "---:|" * (len(heading) - 1), 1)


def case_table(case, by_threads):
    documents = by_threads.values()
    rows = [[f"C library, {case.unit}"] + [quantity(base_median(d)) for d in documents]]
    notes = []
    for name in names(documents):
        found = {threads: candidate_of(d, name) for threads, d in by_threads.items()}
        rows.append([f"`{name}`"] + [cell(c) for c in found.values()])
        notes += [f"† `{name}`, {threads} threads: {text}." for threads, c in found.items() if c for text in troubles(c)]
    calls = [calls_of(d) for d in documents]
    rows += [["contended"] + [contention(c) if c else "–" for c in calls], ["waiting"] + [waiting(d) for d in documents],
             ["rounds"] + [str(d["result"]["rounds"]) for d in documents],
             ["winner"] + [d["result"]["winner"] or "–" for d in documents]]
    if any(c and c["condition_waits"] >= 100 for c in calls):
        rows.append(["waits for conditions"] + [number(c["condition_waits"]) if c else "–" for c in calls])
    return "\n".join([figures_table(rows, ["threads"] + [str(threads) for threads in by_threads]), *(["", *notes] if notes else [])])


def wrapped(text, width=100):
    """Returns a shell command over several lines, cut between words, never inside quotes or between an option and its value."""
    word = r"(?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+"
    done = []
    for command in text.split("\n"):
        lines = [""]
        for unit in re.findall(rf"-[^=\s'\"\\]*(?!\S)(?: +(?!-){word})?|{word}", command):
            if lines[-1].strip() and len(lines[-1]) + 1 + len(unit) > width:
                lines[-1] += " \\"
                lines.append("  " + unit)
            else:
                lines[-1] += (" " if lines[-1].strip() else "") + unit
        done += lines
    return "\n".join(done)


def print_commands(cases, options):
    """Prints each case's commands, for a shell in an empty folder."""
    for case in cases:
        here = case.at(SHOWN_THREADS, options.seconds)
        print(f"# {case.name}\n" + "\n".join(wrapped(text) for text in [*here.prepare, here.line(*trial(here, options), "--")]) + "\n")
    return 0


def case_block(case, folder):
    documents = load(case, folder)
    if not documents:
        return "Not measured yet.\n"
    return "\n".join(["", case_table(case, documents), ""])


def anchor(heading):
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def overview(folder):
    """Returns a table of all cases at SHOWN_THREADS."""
    results = [(case, d) for case in TRIED if (d := load(case, folder).get(SHOWN_THREADS))]
    if not results:
        return "Not measured yet."
    locks = names(d for _, d in results)
    rows = [[f"[{case.title}](#{anchor(case.title)})", *[short_cell(candidate_of(d, name)) for name in locks], waiting(d),
             d["result"]["winner"] or "–"] for case, d in results]
    return f"\n{figures_table(rows, [f'{SHOWN_THREADS} threads', *[f'`{name}`' for name in locks], 'waiting', 'winner'])}\n"


def elsewhere(folder, other):
    """Returns a table of the cases that were also run with another C library: both speed-ups, with SHOWN_THREADS threads."""
    results = []
    for case in TRIED:
        both = [load(case, place).get(SHOWN_THREADS) for place in (folder, other)]
        results += [(case, d) for d in both] if all(both) else []
    if not results:
        return "Not measured yet."
    locks = names(d for _, d in results)
    rows = [[case.title, d["machine"]["libc"], *[cell(candidate_of(d, name)) for name in locks], d["result"]["winner"] or "–"]
            for case, d in results]
    heading = [f"{SHOWN_THREADS} threads", "C library", *[f"`{name}`" for name in locks], "winner"]
    return f"\n{harness.markdown(rows, heading)}\n\n{machine_line(other)}"


def machine_line(folder):
    documents = [d for case in TRIED for d in load(case, folder).values()]
    if not documents:
        return "Not measured yet."
    commits = {}  # by the rest of the provenance: the commits
    for d in documents:
        length = f"{d['rounds']} rounds" if d["rounds"] else f"a budget of {d['budget']}"
        compiler = "" if d["compiler"] == "unknown" else f", compiler {d['compiler']}"
        place = (f"on {rounds.machine_text(d['machine'])}{compiler}; each trial had {length} and {d['warmup']} warm-up run of each lock, "
                 f"and a run took about {d['seconds']} s")
        commits.setdefault(place, {})[d["commit"]] = True
    places = [f"{place}; Usher's commit{'s' if len(of) > 1 else ''} {', '.join(of)}" for place, of in commits.items()]
    days = sorted({d["date"][:10] for d in documents})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    installed = sorted({f"{package} {version}" for d in documents for package, version in d["packages"].items()})
    return (f"Measured {' / '.join(places)}; {when}. Other programs took {others_text(documents)}." +
            (f" Packages: {', '.join(installed)}." if installed else ""))


def write_doc(options):
    page = options.doc
    if not page.is_file():
        die(f"{page} is missing: it is written by hand but for the tables", 1)
    text = page.read_text()
    text = between_markers(text, "machine", machine_line(options.out))
    text = between_markers(text, "overview", overview(options.out))
    text = between_markers(text, "debian 13", elsewhere(options.out, options.out / "debian-13"))
    for case in TRIED:
        text = between_markers(text, f"table: {case.name}", case_block(case, options.out))
    page.write_text(text)
    counted = sum(len(load(case, options.out)) for case in TRIED)
    print(f"{counted} results are in {os.path.relpath(page)}")
    return 0


# ---- the command -----------------------------------------------------------------------------------------------------

def parsed():
    parser = script.parser(__doc__, "lab/pages/try.md")
    parser.add_argument("--commands", action="store_true", help="print the commands of the cases; measures nothing")
    parser.add_argument("--threads", default="2,8,32", metavar="N,...", help="comma-separated (2,8,32)")
    parser.add_argument("--budget", default="2m", metavar="TIME", help="how long one `usher try` may take (2m)")
    parser.add_argument("--rounds", type=int, default=0, metavar="N",
                        help="in place of a budget: exactly so many rounds of all locks")
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="runs of each before that (1)")
    parser.add_argument("--seconds", type=int, default=1, metavar="N", help="how long a run takes, about (1)")
    parser.add_argument("--locks", metavar="A,B,...", help=f"beside {C_LIBRARY} (those that `usher try` takes by itself)")
    parser.add_argument("--timeout", type=float, default=20, metavar="S", help="a run is killed after so long (20)")
    parser.add_argument("--limit", type=float, default=0, metavar="S",
                        help="one `usher try` may take so long (as its number of runs demands)")
    parser.add_argument("--again", action="store_true", help="measure existing results again")
    parser.add_argument("--out", type=Path, default=TREE / "lab/results/try", metavar="DIR",
                        help="where results go (lab/results/try)")
    options = parser.parse_args()
    if options.rounds < 0 or options.seconds < 1 or options.warmup < 0 or options.timeout <= 0 or options.limit < 0:
        parser.error("--seconds starts at 1, --rounds and --warmup at 0; times are above 0")
    try:
        seconds_of(options.budget)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options = parsed()
    build = Build(options.build)
    options.out, options.doc = options.out.resolve(), options.doc.resolve()
    if options.list:
        return script.list_cases(TRIED, runner.Place(build), HINT)
    if options.write_doc:
        return write_doc(options)
    cases = chosen(TRIED, options.only)
    if options.commands:
        return print_commands(cases, options)
    try:
        thread_counts = sorted({int(t) for t in options.threads.split(",")})
        if not thread_counts or thread_counts[0] < 1:
            raise ValueError
    except ValueError:
        die(f"--threads {options.threads}: not a list of thread counts")
    return measure_all(cases, thread_counts, build, options)


if __name__ == "__main__":
    script.entry(main)
