"""`usher stat` on real programs, and what the recording costs them: the figures of lab/pages/stat.md. The programs are those of
lab/cases/try_cases.py and three more; each result is the JSON and the table of one `usher stat` with the machine and the
command.

  python3 -m lab.cases.stat_cases --list                        the cases, and what is missing for them
  python3 -m lab.cases.stat_cases [--only redis,node]           record each once: a minute or two
  python3 -m lab.cases.stat_cases --cost [--only redis]         what the recording costs them: interleaved rounds, some ten minutes
  python3 -m lab.cases.stat_cases --pairs                       what it costs an uncontended lock and unlock
  python3 -m lab.cases.stat_cases --write-doc                   set the figures into lab/pages/stat.md

The programs run in a scratch folder, with the build's programs and Debian's in PATH."""

import argparse
import json
import os
import re
import shlex
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import harness
from lab.cases import try_cases
from harness import TREE, Build, Process, between_markers, clean_environment, die
from lab.cases.try_cases import Case, Failed, environment, kill_session, missing, versions, wrapped

READY_WITHIN = 20  # seconds, for a server
END_WITHIN = 30    # for a server to end

# perl-lifo differs from perl under locks of ours only.
TRIED = [case for case in try_cases.CASES if case.name != "perl-lifo"]

MORE = [
    Case("memcached", "memcached",
         "threads that share a table of items, under many small mutexes",
         "memcached -u {user} -s memcached.sock -t {threads} -m 64",
         "Time to set +[0-9]+ keys by +[0-9]+ threads: +([0-9.]+)", "s", lower=True,
         needs=[("memcached", "memcached"), ("memcslap", "libmemcached-tools")],
         before="rm -f memcached.sock",
         ready="test -S memcached.sock",
         until="memcslap --servers=$PWD/memcached.sock --concurrency={clients} --execute-number={count} --test=set",
         count=lambda threads: 50000 // (4 * threads + 16)),
    Case("node", "Node.js",
         "workers that wait for each other by Atomics.wait, messages between them, and libuv's pool of threads",
         "node tools/compat/contention.mjs {threads} {count}",
         "", "s", lower=True, count=2500000,
         needs=[("node", "nodejs")]),
    Case("java", "Java",
         "monitors, locks with conditions, executors, queues: the virtual machine parks threads on mutexes",
         "java -Xmx256m -cp classes Contention {threads} {count}",
         "", "s", lower=True, count=100000,
         needs=[("java", "default-jdk-headless"), ("javac", "default-jdk-headless")],
         prepare=["javac -d classes tools/compat/Contention.java"]),
]
CASES = TRIED + MORE


# ---- one run ---------------------------------------------------------------------------------------------------------

def shell(text, limit, build, folder):
    outcome = harness.run(["sh", "-c", text], limit, environment(build), folder, backtrace=False)
    if not outcome.ok:
        raise Failed(f"`{text}`: {outcome.trouble()}")
    return outcome


def prepare(case, build, folder, options):
    """As try_cases.py does, and the programs of make compat within reach."""
    (folder / "tools").symlink_to(TREE / "tools")
    try_cases.prepare(case, build, folder, options)


def await_ready(text, process, build, folder):
    deadline = time.monotonic() + READY_WITHIN
    while harness.run(["sh", "-c", text], 5, environment(build), folder, backtrace=False).status != 0:
        if process.ended_within(0.05):
            raise Failed("the server did not stay up")
        if time.monotonic() > deadline:
            raise Failed(f"not ready after {READY_WITHIN} s: `{text}`")


# Prints on stderr the CPU time of the program without the observer.
TIMED = ["sh", "-c", '"$@"; status=$?; echo "CPU time:" >&2; times >&2; exit $status', "sh"]


def cpu_seconds(text):
    found = re.search(r"^CPU time:\n.*\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", text, re.M)
    return sum(float(part) * unit for part, unit in zip(found.groups(), (60, 1, 60, 1))) if found else 0.0


def run_once(case, prefix, threads, build, folder, options, with_cpu=False):
    """The program behind the words of `prefix` once, a server with its load. Its figure, or the seconds that it took where
    it prints none. With the CPU time that it took, of a server 0: not known."""
    v = case.values(threads, options.seconds)
    limit = 30 + 10 * options.seconds
    if case.before:
        shell(case.before.format(**v), 60, build, folder)
    timed = TIMED if with_cpu and not case.until else []
    process = Process(prefix + timed + shlex.split(case.command.format(**v)), environment(build, case), folder)
    load = None
    try:
        if case.until:
            await_ready(case.ready.format(**v), process, build, folder)
            load = shell(case.until.format(**v), limit, build, folder)
            os.kill(process.popen.pid, signal.SIGTERM)  # not its group: `usher stat` passes it on
            outcome = process.finish(END_WITHIN, backtrace=False)
        else:
            outcome = process.finish(limit, backtrace=False)
    except BaseException:
        process.finish(0, backtrace=False)
        raise
    finally:
        kill_session(process.popen.pid)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    if not case.metric:
        return outcome.seconds
    found = re.search(case.metric, (load or outcome).stdout, re.M)
    if not found:
        raise Failed("no figure in its output")
    figure = float(found.group(1))
    return (figure, cpu_seconds(outcome.stderr)) if with_cpu else figure


def without_folder(text, folder):
    """A result without the paths of the scratch folder and of the tree."""
    return text.replace(str(folder) + "/", "").replace(str(TREE) + "/", "")


def shortened(result):
    """The first rows of a result, and of each row the parts that count: Java's has two megabytes otherwise."""
    for row in result["rows"]:
        for key, most in (("each", 5), ("waiters", 3), ("holders", 3), ("threads", 10)):
            if isinstance(row.get(key), list):
                row[key] = row[key][:most]
        for each in row.get("each") or []:
            each["threads"] = (each.get("threads") or [])[:3]
    return result | {"rows": [row for i, row in enumerate(result["rows"]) if i < 20]}


def put(target, document):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    os.replace(part, target)


# ---- a record of each ------------------------------------------------------------------------------------------------

def published(case, threads, options, words):
    """A line for a shell."""
    v = case.values(threads, options.seconds)
    line = [f"{k}={shlex.quote(text)}" for k, text in case.environment.items()]
    return " ".join(line + words + ["--"] + [shlex.quote(w) for w in shlex.split(case.command.format(**v))])


def record(case, threads, build, folder, options):
    """One `usher stat`; its result is in the output folder afterwards."""
    others = harness.OthersShare()
    with tempfile.TemporaryDirectory(prefix="usher-stat-") as output:
        raw, table = Path(output) / "result.json", Path(output) / "table"
        prefix = [str(build.usher), "stat", "--json", str(raw), "-o", str(table), "--"]
        run_once(case, prefix, threads, build, folder, options)
        text, result = table.read_text(), json.loads(without_folder(raw.read_text(), folder))
    v = case.values(threads, options.seconds)
    document = {"case": case.name, "threads": threads, "command": published(case, threads, options, ["usher", "stat"]),
                "load": case.until.format(**v), "prepare": case.preparation(options), "seconds": options.seconds,
                "machine": try_cases.machine(), "compiler": harness.compiler(build), "commit": harness.commit(),
                "date": harness.today(), "others_cpu_share": round(others.share(), 4), "packages": versions(case),
                "text": without_folder(text, folder).splitlines(), "result": shortened(result)}
    put(options.out / f"{case.name}.json", document)
    return document


# ---- what it costs ---------------------------------------------------------------------------------------------------

WAYS = {"without": [], "library": ["run", "--lock", "pthread", "--"], "recorded": ["stat", "-o", "/dev/null", "--"]}


def prefix_of(way, build):
    words = WAYS[way]
    return [str(build.usher)] + words if words else []


def measure_costs(case, threads, build, folder, options):
    """Interleaved rounds of all ways, each round in another order, after one round that does not count."""
    others = harness.OthersShare()
    ways = list(WAYS)
    figures, cpu = {way: [] for way in ways}, {way: [] for way in ways}
    for number in range(options.rounds + 1):
        turn = number % len(ways)
        for way in ways[turn:] + ways[:turn]:
            figure, seconds = run_once(case, prefix_of(way, build), threads, build, folder, options, True)
            if number > 0:
                figures[way].append(figure)
                cpu[way].append(seconds)
    return {"case": case.name, "threads": threads, "unit": case.unit, "lower": case.lower,
            "command": published(case, threads, options, []).replace("-- ", "", 1), "figures": figures,
            "cpu_seconds": cpu,
            "date": harness.today(), "commit": harness.commit(), "compiler": harness.compiler(build),
            "machine": try_cases.machine(), "packages": versions(case), "others_cpu_share": round(others.share(), 4)}


def ratio(row, way, base="without"):
    """Throughput of a way over that of another: of the medians, and from the least to the most of the rounds' own, but for
    the tenth at either end."""
    above, below = row["figures"][way], row["figures"][base]
    if row["lower"]:
        above, below = below, above
    pairs = sorted(a / b for a, b in zip(above, below))
    cut = len(pairs) // 10
    return statistics.median(above) / statistics.median(below), pairs[cut], pairs[-1 - cut]


def cpu_ratio(row, way, base="without"):
    """Work for a second of CPU time, of the medians: independent of the CPU time of other processes."""
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
        rows.append([row["case"], f"{try_cases.quantity(statistics.median(row['figures']['without']))} {row['unit']}",
                     ratio_cell(row, "library"), ratio_cell(row, "recorded"), cpu_ratio(row, "recorded"),
                     f"{100 * row['others_cpu_share']:.0f} %", str(len(row["figures"]["without"]))])
    return rows


COST_HEADING = ["program", "without Usher", "library, not recorded", "recorded", "recorded, by CPU time", "others' CPU",
                "rounds"]

PAIR_WAYS = {"C library": [], "library, not recorded": ["run", "--lock", "pthread", "--"],
             "recorded": ["stat", "-o", "/dev/null", "--"],
             "recorded, --hold-times": ["stat", "--hold-times", "-o", "/dev/null", "--"]}


def measure_pairs(build, options):
    """Nanoseconds of an uncontended lock and unlock, each round's fastest batch."""
    others = harness.OthersShare()
    ways, results = list(PAIR_WAYS), []
    for kind in ("normal", "recursive"):
        samples = {way: [] for way in ways}
        for number in range(max(15, options.rounds)):
            turn = number % len(ways)
            for way in ways[turn:] + ways[:turn]:
                prefix = [str(build.usher)] + PAIR_WAYS[way] if PAIR_WAYS[way] else []
                command = prefix + [build.program("pair_cost"), "--kind", kind, "--iterations", "100000",
                                    "--batches", "20"]
                outcome = harness.run(command, 30, clean_environment(), backtrace=False)
                found = re.search(r"nanoseconds a pair: ([\d.]+)", outcome.stdout)
                if not outcome.ok or not found:
                    die(f"pair_cost, {way}: {outcome.trouble() if not outcome.ok else 'no figure in its output'}", 1)
                samples[way].append(float(found.group(1)))
        for way in ways:
            results.append({"kind": kind, "way": way, "minimum_ns": min(samples[way]),
                            "median_ns": statistics.median(samples[way]),
                            "more_ns": min(samples[way]) - min(samples[ways[0]]), "rounds_ns": samples[way]})
    return {"measurement": "stat pairs", **harness.provenance(build, others), "results": results}


def pair_rows(document):
    return [[r["kind"], r["way"], f"{r['minimum_ns']:.1f}", f"{r['more_ns']:+.1f}", f"{r['median_ns']:.1f}"]
            for r in document["results"]]


PAIR_HEADING = ["kind", "way", "fastest ns", "more than the C library", "median ns"]


# ---- all cases -------------------------------------------------------------------------------------------------------

def each_case(cases, build, options, work):
    """`work(case, folder)` of each, prepared; failures and skipped cases are printed again at the end."""
    build.need(build.usher, build.library)
    failed, skipped = [], []
    for case in cases:
        why_not = missing(case, build)
        if why_not:
            skipped.append(f"{case.name}: {why_not}")
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="usher-stat-", ignore_cleanup_errors=True) as scratch:
                prepare(case, build, Path(scratch), options)
                said = work(case, Path(scratch))
            print(f"{case.name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
        except Failed as error:
            failed.append(f"{case.name}: {error}")
            print(f"FAILED: {failed[-1]}", flush=True)
    for text in failed:
        print(f"FAILED: {text}")
    for text in skipped:
        print(f"skipped: {text}")
    return 1 if failed else 0


def record_all(cases, build, options):
    def work(case, folder):
        document = record(case, options.threads, build, folder, options)
        return document["result"]["verdict"] if "verdict" in document["result"] else "recorded"
    return each_case(cases, build, options, work)


def cost_all(cases, build, options):
    target = options.out / "cost.json"

    def work(case, folder):
        row = measure_costs(case, options.threads, build, folder, options)
        rows = json.loads(target.read_text())["cases"] if target.is_file() else []
        order = [c.name for c in CASES]
        rows = [r for r in rows if r["case"] != case.name] + [row]
        put(target, {"measurement": "stat cost", "cases": sorted(rows, key=lambda r: order.index(r["case"]))})
        return (f"library {ratio_cell(row, 'library')}, recorded {ratio_cell(row, 'recorded')}, by CPU time "
                f"{cpu_ratio(row, 'library')}, {cpu_ratio(row, 'recorded')}")
    return each_case(cases, build, options, work)


# ---- the pages -------------------------------------------------------------------------------------------------------

def place_lines(documents):
    """Where documents were measured, each place once."""
    found = []
    for d in documents:
        m = d["machine"]
        line = (f"{m['cpu']}, {m['cpus']} CPUs{', virtual machine' if m.get('virtual') else ''}, {m['kernel']}, "
                f"{m['libc']}; {d['compiler']}; commit {d['commit']}; {d['date'][:10]}")
        if line not in found:
            found.append(line)
    return " / ".join(found)


def tables(cost, pairs):
    text = []
    if cost:
        rows = cost["cases"]
        text += ["## Programs", "",
                 "Throughput with the library over throughput without it: of the medians of interleaved rounds, in brackets "
                 "the single rounds from the lowest to the highest, a tenth left out at either end. \"Not recorded\" is "
                 "`usher run --lock pthread`, \"recorded\" `usher stat -o /dev/null`; both have the C library's own mutex. By CPU time: the work "
                 "that was done for a second of it, which what others take of the CPUs changes less; not known of servers. (Where the "
                 "program prints a throughput over a fixed time, all of its CPU time counts, of its preparations too.)",
                 "", harness.markdown(cost_rows(rows), COST_HEADING), "", "Commands, each behind `usher run --lock pthread "
                 "--`, `usher stat -o /dev/null --`, or nothing (`python3 -m lab.cases.stat_cases --cost`):", "", "```sh",
                 *[wrapped(row["command"]) for row in rows], "```", "", place_lines(rows) + ".", ""]
    if pairs:
        text += ["## An uncontended lock and unlock", "",
                 f"`pair_cost`, {len(pairs['results'][0]['rounds_ns'])} interleaved rounds of 20 × 100000 pairs, in a process "
                 "that has had a second thread.", "", harness.markdown(pair_rows(pairs), PAIR_HEADING), "",
                 harness.provenance_line(pairs), ""]
    return "\n".join(text).strip()


def write_doc(options):
    cost, pairs = ((json.loads(file.read_text()) if file.is_file() else None)
                   for file in (options.out / "cost.json", options.out / "pairs.json"))
    options.doc.write_text(between_markers(options.doc.read_text(), "cost", tables(cost, pairs) or "Not measured yet."))
    print(f"the figures are in {os.path.relpath(options.doc)}")
    return 0


# ---- the command -----------------------------------------------------------------------------------------------------

def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the cases, and what is missing for them")
    parser.add_argument("--only", metavar="NAMES", help="comma-separated (all)")
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="(8)")
    parser.add_argument("--seconds", type=int, default=0, metavar="N",
                        help="how long a run takes, about (4, and 1 for the cost)")
    parser.add_argument("--cost", action="store_true", help="measure throughput without, with the library, recorded")
    parser.add_argument("--pairs", action="store_true", help="measure an uncontended lock and unlock")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="runs of each that count (7; pairs: at least 15)")
    parser.add_argument("--out", type=Path, default=TREE / "lab" / "results" / "stat", metavar="DIR",
                        help="where results go (lab/results/stat)")
    parser.add_argument("--write-doc", action="store_true", help="set the results into the pages; measures nothing")
    parser.add_argument("--doc", type=Path, default=TREE / "lab" / "pages" / "stat.md", metavar="FILE", help="(lab/pages/stat.md)")
    parser.add_argument("--build", default="build/release", metavar="DIR")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1 or options.seconds < 0:
        parser.error("--rounds and --threads start at 1")
    options.seconds = options.seconds or (1 if options.cost else 4)
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parsed()
    options.out, options.doc = options.out.resolve(), options.doc.resolve()
    build = Build(options.build)
    if options.write_doc:
        return write_doc(options)
    cases = TRIED if options.cost else CASES
    if options.list:
        print(harness.table([[c.name, c.shows, missing(c, build) or ""] for c in cases],
                            ["case", "what it shows", "missing"]))
        return 0
    if options.pairs:
        build.need(build.usher, build.library, build.program("pair_cost") or build.programs / "pair_cost")
        document = measure_pairs(build, options)
        put(options.out / "pairs.json", document)
        print(harness.table(pair_rows(document), PAIR_HEADING, right=(2, 3, 4)))
        print("\n" + harness.provenance_line(document))
        return 0
    if options.only:
        known = {case.name: case for case in CASES}
        chosen = [name for name in options.only.split(",") if name]
        for name in chosen:
            if name not in known:
                die(f"unknown case '{name}': {', '.join(known)}")
        cases = [known[name] for name in chosen]
    return cost_all(cases, build, options) if options.cost else record_all(cases, build, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
