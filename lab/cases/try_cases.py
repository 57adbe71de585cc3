"""`usher try` on real programs: the figures of lab/pages/try.md. Each case is one program, run at several thread counts
under the C library's mutex and the locks that `usher try` takes by itself; each result is the JSON of one `usher try` with the machine and the
command. A result that is there already is not measured again, so that an interrupted table can be completed.

  python3 -m lab.cases.try_cases --list                                     the cases, and what is missing for them
  python3 -m lab.cases.try_cases                                            measure what is not there yet; an hour, or less
  python3 -m lab.cases.try_cases --only leveldb,redis --threads 8 --again   some of it once more
  python3 -m lab.cases.try_cases --write-doc                                set the results into lab/pages/try.md

The programs run in a scratch folder, with the build's programs and Debian's in PATH."""

import argparse
import contextlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import TREE, Build, Process, between_markers, clean_environment, die

C_LIBRARY = "pthread"
MOST_CANDIDATES = 4  # of usher try without --locks
FORMAT = 2  # of usher try --json; results of another one count as not there
CHART_THREADS = 8  # one chart a case
CHARTS = ["svg", "png"]
ROOM = "try"  # of packages.txt


@dataclass(eq=False)
class Case:
    """A program and how it is tried. In the texts, {threads} and {seconds} are what was asked for, {count} is the work
    in all that takes about that long, {each} a thread's part of it, {clients} as many as redis needs for its threads,
    {user} who runs this."""

    name: str
    title: str
    shows: str
    command: str
    metric: str
    unit: str
    lower: bool = False
    needs: list = field(default_factory=list)      # (program, package)
    built: tuple = ()                              # (our program, package of the library it needs)
    libraries: list = field(default_factory=list)  # (library, package)
    environment: dict = field(default_factory=dict)
    prepare: list = field(default_factory=list)    # shell commands, once a case
    before: str = ""
    until: str = ""
    ready: str = ""
    count: object = 0                              # for a run of one second, or a function of the threads that gives it

    def values(self, threads, seconds):
        count = self.count(threads) if callable(self.count) else self.count
        return {"threads": threads, "seconds": seconds, "count": count * seconds,
                "each": max(1, count * seconds // threads), "clients": 4 * threads + 16,
                "user": pwd.getpwuid(os.geteuid()).pw_name}

    def packages(self):
        return [package for _, package in self.needs + ([self.built] if self.built else []) + self.libraries if package]

    def trial(self, threads, options):
        """The words of `usher try`, without the names of output files."""
        v = self.values(threads, options.seconds)
        words = ["usher", "try"] + (["--locks", options.locks] if options.locks else [])
        words += ["--rounds", str(options.rounds)] if options.rounds else ["--budget", options.budget]
        if options.warmup != 1:
            words += ["--warmup", str(options.warmup)]
        words += ["--timeout", f"{options.timeout:g}"]
        for option, text in (("--before", self.before), ("--ready", self.ready), ("--until", self.until)):
            if text:
                words += [option, text.format(**v)]
        words += ["--metric", self.metric]
        if self.lower:
            words.append("--lower")
        return words, ["--"] + shlex.split(self.command.format(**v))

    def published(self, threads, options):
        """The same as a line for a shell."""
        words, command = self.trial(threads, options)
        return " ".join([f"{k}={shlex.quote(v)}" for k, v in self.environment.items()] +
                        [shlex.quote(w) for w in words + command])

    def preparation(self, options):
        return [text.format(**self.values(1, options.seconds)) for text in self.prepare]


# The TWA paper's options (extended version, figure 10); 100,000 keys as in its LevelDB test.
ROCKSDB = ("--num=100000 --cache_size=100000 --cache_numshardbits=0 --compression_type=none --mmap_read=true "
           "--mmap_write=true --sync=false --verify_checksum=false --seed=1")
# No disk in the measured part, no login, and reachable only through the scratch folder.
MARIADB = ("--no-defaults --user={user} --skip-networking --skip-grant-tables --innodb-log-file-size=16M "
           "--innodb-flush-log-at-trx-commit=0")
OLTP = "sysbench oltp_read_write --mysql-user=root --table-size=10000"

CASES = [
    Case("sysbench-threads", "sysbench threads",
         "one lock, held while the thread gives its CPU away",
         "sysbench threads --threads={threads} --thread-locks=1 --thread-yields=10 --time={seconds} run",
         "total number of events: +([0-9]+)", "events",
         needs=[("sysbench", "sysbench")]),
    Case("sysbench-mutex", "sysbench mutex",
         "a short critical section, seldom contended",
         "sysbench mutex --threads={threads} --mutex-num=1 --mutex-locks={each} run",
         "total time: +([0-9.]+)s", "s", lower=True, count=200000,
         needs=[("sysbench", "sysbench")]),
    Case("sqlite", "SQLite",
         "one connection for all threads: a recursive mutex around every call",
         "sqlite_shared --threads {threads} --seconds {seconds} --check",
         "throughput: ([0-9]+)", "operations/s",
         built=("sqlite_shared", "libsqlite3-dev")),
    Case("leveldb", "LevelDB",
         "readwhilewriting: one mutex of the database, taken twice by every read",
         "leveldb_driver --threads {threads} --seconds {seconds} --loads readwhilewriting",
         "readwhilewriting: throughput: ([0-9]+)", "reads/s",
         built=("leveldb_driver", "libleveldb-dev")),
    Case("rocksdb", "RocksDB",
         "readwhilewriting with the TWA paper's options: a block cache in one part, under one mutex",
         f"db_bench --benchmarks=readwhilewriting --db=rocksdb --use_existing_db=true --threads={{threads}} "
         f"--duration={{seconds}} {ROCKSDB}",
         "^readwhilewriting .* ([0-9]+) ops/sec", "reads/s",
         needs=[("db_bench", "rocksdb-tools")],
         prepare=[f"db_bench --benchmarks=fillseq --db=filled {ROCKSDB}"],
         before="rm -rf rocksdb && cp -r filled rocksdb"),
    Case("kyotocabinet", "Kyoto Cabinet",
         "a cache in memory: read-write locks, which stay the C library's, and a mutex for each of 16 parts",
         "kccachetest wicked -th {threads} -capcnt 100000 {each}",
         "^time: ([0-9.]+)", "s", lower=True, count=1000000,
         needs=[("kccachetest", "kyotocabinet-utils")],
         environment={"KCRNDSEED": "1"}),
    Case("perl", "perl",
         "RandArray: perl's locks wait on condition variables",
         "perl lab/programs/rand_array.pl {threads} {seconds}",
         "throughput: ([0-9]+)", "rounds/s",
         needs=[("perl", "perl")]),
    Case("perl-lifo", "perl, mostly last in, first out",
         "the same, but whoever waits for a condition goes to the head of the list",
         "perl lab/programs/rand_array.pl {threads} {seconds}",
         "throughput: ([0-9]+)", "rounds/s",
         needs=[("perl", "perl")],
         environment={"USHER_COND_APPEND": "0.001"}),
    Case("python", "Python",
         "threads that share a queue: locks that are semaphores, and the interpreter's own lock",
         "python3 lab/programs/job_queue.py {threads} {seconds}",
         "throughput: ([0-9]+)", "jobs/s",
         needs=[("python3", "python3")]),
    Case("jemalloc", "jemalloc",
         "mmicro: one arena without a cache a thread, so one mutex for every malloc and free",
         "mmicro --threads {threads} --seconds {seconds}",
         "throughput: ([0-9]+)", "blocks/s",
         built=("mmicro", ""), libraries=[("libjemalloc.so.2", "libjemalloc2")],
         environment={"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "narenas:1,tcache:false"}),
    Case("mariadb", "MariaDB",
         "a server with a thread a connection, under sysbench oltp_read_write",
         f"mariadbd {MARIADB} --datadir=./mariadb --socket=mysqld.sock",
         r"transactions: .*\(([0-9.]+) per sec", "transactions/s",
         needs=[("mariadbd", "mariadb-server-core"), ("sysbench", "sysbench")],
         prepare=["mkdir filled",
                  f"echo 'CREATE DATABASE sbtest;' | mariadbd {MARIADB} --datadir=./filled --bootstrap",
                  f"mariadbd {MARIADB} --datadir=./filled --socket=mysqld.sock &\n"
                  "until test -S filled/mysqld.sock; do sleep 0.1; done\n"
                  f"{OLTP} --mysql-socket=filled/mysqld.sock prepare && kill $! && wait $!"],
         before="rm -rf mariadb && cp -r filled mariadb",
         ready="test -S mariadb/mysqld.sock",
         until=f"{OLTP} --mysql-socket=mariadb/mysqld.sock --threads={{threads}} --time={{seconds}} run"),
    Case("redis", "redis",
         "threads for input and output that spin, and use mutexes only to be stopped",
         "redis-server --port 0 --unixsocket redis.sock --save '' --io-threads {threads} --io-threads-do-reads yes",
         '"SET","([0-9.]+)"', "requests/s",
         needs=[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("redis-cli", "redis-tools")],
         ready="redis-cli -s redis.sock ping",
         until="redis-benchmark -s redis.sock --csv -t set -c {clients} -n {count}",
         # Its threads spin: with more of them than CPUs there are some hundred requests a second.
         count=lambda threads: max(250, 4 * threads + 16, 16000 // threads**2)),
]


# ---- what is there ---------------------------------------------------------------------------------------------------

def search_path(build):
    # Debian's programs before others of the same name that this user has installed.
    folders = [build.folder / "bin", build.programs, "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    return ":".join([str(f) for f in folders] + [f for f in [os.environ.get("PATH")] if f])


def environment(build, case=None):
    return clean_environment({"PATH": search_path(build)} | (case.environment if case else {}))


def has_library(name):
    tool = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    listing = subprocess.run([tool, "-p"], capture_output=True, text=True).stdout if tool else ""
    return name in listing


def missing(case, build):
    """What keeps a case from being run here, with the package that has it; or None."""
    install = f"(tools/deps.sh {ROOM} installs what these cases need)"
    for program, package in case.needs:
        if not shutil.which(program, path=search_path(build)):
            return f"there is no {program}: install the package {package} {install}"
    if case.built and not build.program(case.built[0]):
        library = f"install the package {case.built[1]} {install}, then " if case.built[1] else ""
        return f"{case.built[0]} was not built: {library}make build"
    for library, package in case.libraries:
        if not has_library(library):
            return f"there is no {library}: install the package {package} {install}"
    if case.name.startswith("perl"):
        probe = ["perl", "-Mthreads", "-Mthreads::shared", "-MTime::HiRes", "-e", "1"]
        if subprocess.run(probe, capture_output=True, env=environment(build)).returncode != 0:
            return f"this perl has no threads: install the package perl {install}"
    return None


def versions(case):
    """Debian's versions of the programs of a case."""
    found = {}
    for package in case.packages():
        try:
            done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True,
                                  timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout:
            found[package] = done.stdout.splitlines()[0]
    return found


def machine():
    m = harness.machine()
    with contextlib.suppress(OSError):
        m["virtual"] = re.search(r"^flags\s*:.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.M) is not None
    return m


# ---- measuring -------------------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


def kill_session(leader):
    """Everything that `usher try` has started: its programs have process groups of their own, but its session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # state ppid pgrp session
                os.kill(int(stat.parent.name), signal.SIGKILL)


def guarded(words, limit, env, folder):
    """Runs `usher try`. At the limit it is asked to stop, so that it cleans up, and then killed with all it started."""
    process = Process(words, env, folder)
    late = False
    try:
        late = not process.ended_within(limit)
        if late:
            process.kill_group(signal.SIGTERM)
            process.ended_within(30)
    except BaseException:
        process.kill_group(signal.SIGTERM)
        process.ended_within(30)
        raise
    finally:
        outcome = process.finish(0, backtrace=False)
        kill_session(process.popen.pid)
    return outcome, late


def seconds_of(text):
    """As --budget of usher try: 90s, 2m, 1h30m, or seconds."""
    found = re.fullmatch(r"(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s?)?", text)
    if not text or not found:
        raise ValueError(f"--budget {text}: no duration, as 90s, 2m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


def outside_limit(options):
    """For one `usher try`, in seconds. Most runs take little more than --seconds; a lock that hands over to threads
    without a CPU may take ten times as long for the same work, which the budget, once begun, cannot cut short."""
    candidates = len(options.locks.split(",")) + 1 if options.locks else MOST_CANDIDATES + 1
    if options.rounds:
        return options.limit or 60 + (options.rounds + options.warmup) * candidates * max(10, 5 * options.seconds)
    return options.limit or 120 + 2 * seconds_of(options.budget) + 3 * candidates * options.timeout


def prepare(case, build, folder, options):
    (folder / "lab").symlink_to(TREE / "lab")
    for text in case.preparation(options):
        outcome = harness.run(["sh", "-c", text], 120, environment(build), folder, backtrace=False)
        if not outcome.ok:
            raise Failed(f"preparing it by `{text}`: {outcome.trouble()}")


def measure(case, threads, build, folder, options, where):
    """One `usher try`; its result is in the output folder afterwards."""
    words, command = case.trial(threads, options)
    words[0] = str(build.usher)
    raw, chart = folder / "result.json", folder / f"chart.{options.charts}"
    for left in (raw, chart):
        left.unlink(missing_ok=True)
    words += ["--quiet", "--json", str(raw)]
    draw = options.charts != "none" and threads == CHART_THREADS
    if draw:
        words += ["--chart", str(chart)]
    outcome, late = guarded(words + command, outside_limit(options), environment(build, case), folder)
    if outcome.stdout.strip():
        print(outcome.stdout.rstrip(), flush=True)
    if outcome.stderr.strip():
        print(outcome.stderr.rstrip(), file=sys.stderr, flush=True)
    if late:
        raise Failed(f"not done after {outside_limit(options):.0f} s: stopped, nothing kept (--limit gives more time)")
    if outcome.status not in (0, 1) or not raw.is_file() or raw.stat().st_size == 0:
        raise Failed(f"usher try: {outcome.trouble()}")
    result = json.loads(raw.read_text())
    base = result["candidates"][0]
    if base["troubles"] or not base["runs"] or result["interrupted"]:
        raise Failed("without any lock of Usher's: " + ("; ".join(base["troubles"]) or "no round was run to its end"))
    document = {"case": case.name, "threads": threads, "command": case.published(threads, options),
                "prepare": case.preparation(options), "rounds": options.rounds or None,
                "budget": None if options.rounds else options.budget, "warmup": options.warmup,
                "seconds": options.seconds, **where, "date": harness.today(), "packages": versions(case), "result": result}
    target = options.out / f"{case.name}-{threads}.json"
    finished = target.with_suffix(".part")
    finished.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    os.replace(finished, target)
    if draw and chart.is_file():
        for left in CHARTS:
            target.with_suffix(f".{left}").unlink(missing_ok=True)
        shutil.copyfile(chart, target.with_suffix(f".{options.charts}"))
    return outcome.status == 0


def measure_all(cases, thread_counts, build, options):
    build.need(build.usher, build.library)
    options.out.mkdir(parents=True, exist_ok=True)
    where = {"machine": machine(), "compiler": harness.compiler(build), "commit": harness.commit()}

    wanted = [(case, threads) for case in cases for threads in thread_counts
              if options.again or threads not in load(case, options.out)]
    there = len(cases) * len(thread_counts) - len(wanted)
    if there:
        print(f"{there} results are there already (--again measures them once more).", flush=True)
    problems, skipped, done, start = [], [], 0, time.monotonic()
    for case in cases:
        counts = [threads for c, threads in wanted if c is case]
        if not counts:
            continue
        why_not = missing(case, build)
        if why_not:
            skipped.append(f"{case.name}: {why_not}")
            print(f"skipped: {skipped[-1]}", flush=True)
            done += len(counts)
            continue
        with tempfile.TemporaryDirectory(prefix="usher-try-", ignore_cleanup_errors=True) as scratch:
            try:
                prepare(case, build, Path(scratch), options)
                for threads in counts:
                    done += 1
                    print(f"\n[{done}/{len(wanted)}, {time.monotonic() - start:.0f} s] {case.title}, {threads} threads",
                          flush=True)
                    began = time.monotonic()
                    try:
                        if not measure(case, threads, build, Path(scratch), options, where):
                            problems.append(f"{case.name}, {threads} threads: a run failed, hung or printed something "
                                            "else; kept, the result says what")
                    except Failed as error:
                        problems.append(f"{case.name}, {threads} threads: {error}")
                        print(f"FAILED: {problems[-1]}", flush=True)
                    print(f"{time.monotonic() - began:.0f} s", flush=True)
            except Failed as error:
                problems.append(f"{case.name}: {error}")
                print(f"FAILED: {problems[-1]}", flush=True)
    print(f"\n{len(wanted)} results wanted, {len(problems)} with problems, {len(skipped)} cases skipped; "
          f"{time.monotonic() - start:.0f} s")
    for text in problems:
        print(f"FAILED: {text}")
    for text in skipped:
        print(f"skipped: {text}")
    return 1 if problems else 0


# ---- the page --------------------------------------------------------------------------------------------------------

def load(case, folder):
    """The results of a case by number of threads."""
    found = {}
    for file in folder.glob(f"{case.name}-*.json"):
        number = file.stem[len(case.name) + 1:]
        document = json.loads(file.read_text()) if number.isdigit() else {"result": {}}
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
    found = list(candidate.get("troubles", []))
    if candidate.get("output_differs_at_line"):
        found.append(f"printed something else (line {candidate['output_differs_at_line']})")
    return found


def ratio_text(value):
    return f"{value:.2f}" if value >= 0.095 or value == 0 else f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def limits_text(between):
    """As `usher try` writes them: one of them, or both, may not be known yet."""
    low, high = between or (None, None)
    if low is not None and high is not None:
        return f" ({ratio_text(low)}–{ratio_text(high)})"
    return f" (from {ratio_text(low)})" if low is not None else f" (up to {ratio_text(high)})" if high is not None else ""


def cell(candidate):
    speed_up = candidate["speed_up"]
    if speed_up is None:
        return "failed †" if troubles(candidate) else "–"
    text = f"**{ratio_text(speed_up)}**" if candidate["verdict"] == "better" else ratio_text(speed_up)
    text += limits_text(candidate["interval"])
    if not is_certain(candidate):
        text += " no different" if candidate["verdict"] == "level" else " undecided"
    return text + (" †" if troubles(candidate) else "")


def contention(document):
    """Of the C library's own lock calls, in the warm-up run in which they were counted."""
    calls = document["result"]["candidates"][0]["calls"]
    if not calls:
        return "–"
    locks, share = calls["locks"], 100 * calls["contended"] / calls["locks"] if calls["locks"] else 0
    share = f"{share:.1f} %" if share >= 0.05 or not calls["contended"] else "< 0.1 %"
    return f"{share} of {number(locks)}"


def condition_waits(document):
    calls = document["result"]["candidates"][0]["calls"]
    return number(calls["condition_waits"]) if calls else "–"


def waiting(document):
    """The share of all threads' time that they waited for mutexes under the C library."""
    calls = document["result"]["candidates"][0]["calls"]
    share = calls["waiting_share"] if calls else None
    return "–" if share is None else f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def said(document):
    """The conclusion, with its command only where that is the whole of it: the commands are as long as the page's own."""
    conclusion = document["result"]["conclusion"]
    return "–" if conclusion is None else conclusion["text"].replace("\n", " ")


def names(documents):
    """All candidates but the C library's own, in the order in which they were given."""
    order = []
    for document in documents.values():
        order += [c["name"] for c in document["result"]["candidates"][1:] if c["name"] not in order]
    return order


def base_median(document):
    runs = document["result"]["candidates"][0]["runs"]
    return statistics.median(run["metric"] for run in runs if run["metric"] is not None)


def candidate_of(document, name):
    return next((c for c in document["result"]["candidates"] if c["name"] == name), None)


def percent_range(shares):
    low, high = round(100 * min(shares)), round(100 * max(shares))
    return f"{low} %" if low == high else f"{low}–{high} %"


def case_table(case, documents):
    heading = [f"`{case.name}`"] + [f"{threads} threads" for threads in documents]
    rows = [["the C library's"] + [f"{quantity(base_median(d))} {case.unit}" for d in documents.values()]]
    notes = []
    for name in names(documents):
        row = [f"`{name}`"]
        for threads, d in documents.items():
            candidate = candidate_of(d, name)
            row.append(cell(candidate) if candidate else "–")
            if candidate:
                notes += [f"† `{name}`, {threads} threads: {text}." for text in troubles(candidate)]
        rows.append(row)
    rows.append(["contended"] + [contention(d) for d in documents.values()])
    rows.append(["waiting"] + [waiting(d) for d in documents.values()])
    rows.append(["rounds"] + [str(d["result"]["rounds"]) for d in documents.values()])
    waits = [(d["result"]["candidates"][0]["calls"] or {}).get("condition_waits", 0) for d in documents.values()]
    if max(waits) >= 100:
        rows.append(["waits for conditions"] + [condition_waits(d) for d in documents.values()])
    lines = [harness.markdown(rows, heading).replace("---|" * len(heading), "---|" + "---:|" * (len(heading) - 1), 1)]
    shares = [d["result"]["others_cpu_share"] for d in documents.values()]
    installed = {f"{package} {version}" for d in documents.values() for package, version in d["packages"].items()}
    conclusions = [f"- {threads} threads: {said(d)}" for threads, d in documents.items()]
    machine = f"Others took {percent_range(shares)} of the CPU time."
    if installed:
        machine += f" {', '.join(sorted(installed))}."
    return "\n".join(lines + [""] + notes + ["`usher try` concluded:", ""] + conclusions + ["", machine])


def wrapped(text, width=100):
    """A shell command over several lines, cut between words, never inside quotes or between an option and its value."""
    done = []
    for command in text.split("\n"):
        words = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+", command)
        units = []
        for word in words:
            after_option = units and re.fullmatch(r"-[^= ]*", units[-1]) and not word.startswith("-")
            if after_option:
                units[-1] += " " + word
            else:
                units.append(word)
        line = ""
        for unit in units:
            if line.strip() and len(line) + 1 + len(unit) > width:
                done.append(line + " \\")
                line = "  " + unit
            else:
                line += (" " if line.strip() else "") + unit
        done.append(line)
    return "\n".join(done)


def case_block(case, folder, page, options):
    documents = load(case, folder)
    shown = documents.get(CHART_THREADS) or next(iter(documents.values()), None)
    command = shown["command"] if shown else case.published(CHART_THREADS, options)
    prepared = shown["prepare"] if shown else case.preparation(options)
    block = ["```sh"] + [wrapped(text) for text in prepared + [command]] + ["```", ""]
    if not documents:
        return "\n".join(block + ["Not measured yet."])
    block.append(case_table(case, documents))
    for form in CHARTS:
        chart = folder / f"{case.name}-{CHART_THREADS}.{form}"
        if chart.is_file():
            block += ["", f"![{case.title} at {CHART_THREADS} threads: speed-up over the C library's mutex by lock]"
                          f"({os.path.relpath(chart, page.parent)})"]
    return "\n".join(block)


def anchor(heading):
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def overview(folder):
    """All cases at the thread count that the charts have."""
    results = {case: load(case, folder) for case in CASES}
    results = {case: documents[CHART_THREADS] for case, documents in results.items() if CHART_THREADS in documents}
    if not results:
        return "Not measured yet."
    locks = names({case.name: d for case, d in results.items()})
    rows = []
    for case, d in results.items():
        row = [f"[{case.title}](#{anchor(case.title)})"]
        for name in locks:
            candidate = candidate_of(d, name)
            ratio = candidate["speed_up"] if candidate else None
            if ratio is None:
                row.append("failed" if candidate and troubles(candidate) else "–")
            elif not is_certain(candidate):
                row.append(f"({ratio_text(ratio)})")
            else:
                row.append(f"**{ratio_text(ratio)}**" if ratio > 1 else ratio_text(ratio))
        rows.append(row + [waiting(d), d["result"]["winner"] or "–"])
    heading = [f"{CHART_THREADS} threads"] + [f"`{name}`" for name in locks] + ["waiting", "winner"]
    return harness.markdown(rows, heading).replace("---|" * len(heading), "---|" + "---:|" * (len(heading) - 1), 1)


def elsewhere(folder, other):
    """Cases that were also run with another C library: speed-ups here and there, at the thread count that the charts have."""
    pairs = [(case, load(case, folder).get(CHART_THREADS), load(case, other).get(CHART_THREADS)) for case in CASES]
    pairs = [(case, here, there) for case, here, there in pairs if here and there]
    if not pairs:
        return "Not measured yet."
    locks = names({i: d for i, (_, here, there) in enumerate(pairs) for d in (here, there)})
    rows = []
    for case, here, there in pairs:
        for d in (here, there):
            found = [candidate_of(d, name) for name in locks]
            rows.append([case.title, d["machine"]["libc"]] + [cell(c) if c else "–" for c in found] + [d["result"]["winner"] or "–"])
    heading = [f"{CHART_THREADS} threads", "C library"] + [f"`{name}`" for name in locks] + ["winner"]
    return harness.markdown(rows, heading) + "\n\n" + machine_line(other)


def machine_line(folder):
    documents = [d for case in CASES for d in load(case, folder).values()]
    if not documents:
        return "Not measured yet."
    commits = {}  # by the other provenance of a result
    for d in documents:
        m = d["machine"]
        length = f"{d['rounds']} rounds" if d["rounds"] else f"a budget of {d['budget']}"
        compiler = "" if d["compiler"] == "unknown" else f"{d['compiler']}; "
        place = (f"{m['cpu']}, {m['cpus']} CPUs{', virtual machine' if m.get('virtual') else ''}, {m['kernel']}, "
                 f"{m['libc']}; {compiler}{length} after {d['warmup']} warm-up, runs of {d['seconds']} s")
        of = commits.setdefault(place, [])
        if d["commit"] not in of:
            of.append(d["commit"])
    places = [f"{place}; commit{'s' if len(of) > 1 else ''} {', '.join(of)}" for place, of in commits.items()]
    days = sorted({d["date"][:10] for d in documents})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    shares = [d["result"]["others_cpu_share"] for d in documents]
    return f"{' / '.join(places)}; {when}; other programs took {percent_range(shares)} of the CPU time."


def write_doc(options):
    page = options.doc
    if not page.is_file():
        die(f"{page} is missing: it is written by hand but for the tables", 1)
    text = page.read_text()
    text = between_markers(text, "machine", machine_line(options.out))
    text = between_markers(text, "overview", overview(options.out))
    text = between_markers(text, "debian 13", elsewhere(options.out, options.out / "debian-13"))
    for case in CASES:
        text = between_markers(text, f"table: {case.name}", case_block(case, options.out, page, options))
    page.write_text(text)
    counted = sum(len(load(case, options.out)) for case in CASES)
    print(f"{counted} results are in {os.path.relpath(page)}")
    return 0


# ---- the command -----------------------------------------------------------------------------------------------------

def list_cases(build):
    rows = [[case.name, case.shows, missing(case, build) or ""] for case in CASES]
    if not any(row[2] for row in rows):
        rows = [row[:2] for row in rows]
    print(harness.table(rows, ["case", "what it shows", "missing"][:len(rows[0])]))
    return 0


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the cases, and what is missing for them")
    parser.add_argument("--only", metavar="NAMES", help="comma-separated (all)")
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
    parser.add_argument("--charts", choices=CHARTS + ["none"], default="svg",
                        help=f"a chart a case, at {CHART_THREADS} threads (svg)")
    parser.add_argument("--again", action="store_true", help="measure also what is there already")
    parser.add_argument("--out", type=Path, default=TREE / "lab" / "results" / "try", metavar="DIR",
                        help="where results go (lab/results/try)")
    parser.add_argument("--write-doc", action="store_true", help="set the results into the page; measures nothing")
    parser.add_argument("--doc", type=Path, default=TREE / "lab" / "pages" / "try.md", metavar="FILE",
                        help="the page (lab/pages/try.md)")
    parser.add_argument("--build", default="build/release", metavar="DIR")
    options = parser.parse_args()
    if options.rounds < 0 or options.seconds < 1 or options.warmup < 0 or options.timeout <= 0 or options.limit < 0:
        parser.error("--seconds starts at 1, --rounds and --warmup at 0; times are above 0")
    try:
        seconds_of(options.budget)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parsed()
    build = Build(options.build)
    options.out, options.doc = options.out.resolve(), options.doc.resolve()
    if options.list:
        return list_cases(build)
    if options.write_doc:
        return write_doc(options)
    known = {case.name: case for case in CASES}
    cases = CASES
    if options.only:
        chosen = [name for name in options.only.split(",") if name]
        for name in chosen:
            if name not in known:
                die(f"unknown case '{name}': {', '.join(known)}")
        cases = [case for case in CASES if case.name in chosen]
    try:
        thread_counts = sorted({int(t) for t in options.threads.split(",")})
        if not thread_counts or thread_counts[0] < 1:
            raise ValueError
    except ValueError:
        die(f"--threads {options.threads}: not a list of thread counts")
    return measure_all(cases, thread_counts, build, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
