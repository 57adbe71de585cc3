"""Programs that Usher cannot help: the table of docs/production.md. Builds those of lab/programs/cannot_help/, runs each, and two servers,
under `usher stat --lock steady`, and sets the number of calls that libusher.so saw beside the number of lock operations that the
program did.

  python3 -m lab.cases.cannot_help --list                  the programs, and what is missing for them
  python3 -m lab.cases.cannot_help [--only go,rust]        run them: about a minute
  python3 -m lab.cases.cannot_help --write-doc             set the results into docs/production.md; runs nothing

The Debian packages that a program takes are in --list; packages.txt does not have them, for nothing else needs them."""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import TREE, Build, Process, clean_environment, die

SOURCES = TREE / "lab" / "programs" / "cannot_help"
RESULT = TREE / "lab" / "results" / "cannot-help.json"
PAGE = TREE / "docs" / "production.md"
MARKER = "cannot help"
EACH = 250_000  # lock operations of each of the four threads
LIMIT = 120     # seconds, for a build or a run
KINDS = ("mutex", "condition", "semaphore")


@dataclass
class Case:
    name: str
    title: str
    run: str                                  # in a scratch folder; {each}: EACH, {src}: where the sources are, {port}
    why: str
    instead: str
    build: str = ""
    needs: list = field(default_factory=list)  # (file or command, Debian package)
    version: str = ""                          # prints the number of its tries first
    load: str = ""                             # of a server: the command that loads it and prints how many units it did
    unit: str = ""                             # of the operations, where they are no lock operations


GCC = ("gcc", "build-essential")
GXX = ("g++", "build-essential")

CASES = [
    Case("control", "C, pthread mutex", "./program {each}",
         "for comparison: every operation is seen", "Usher",
         "gcc -O2 -pthread -o program {src}/pthread.c", [GCC]),
    Case("static", "the same, static", "./program {each}",
         "there is no dynamic linker to load a library", "link dynamically, or embed a lock",
         "gcc -O2 -static -pthread -o program {src}/pthread.c", [GCC]),
    Case("musl", "the same, for musl (Alpine)", "./program {each}",
         "another C library, to which the calls are passed on", "an image with glibc, or embed a lock",
         "musl-gcc -O2 -o program {src}/pthread.c", [("musl-gcc", "musl-tools")]),
    Case("c11", "C11 `mtx_lock`", "./program {each}",
         "glibc's function calls its own lock directly", "`pthread_mutex_t`, or embed a lock",
         "gcc -O2 -pthread -o program {src}/c11.c", [GCC]),
    Case("rwlock", "`std::shared_mutex`", "./program {each}",
         "read-write locks stay the C library's", "`std::mutex`, if sections are short",
         "g++ -std=c++20 -O2 -pthread -o program {src}/shared_mutex.cpp", [GXX]),
    Case("counting-semaphore", "`std::counting_semaphore`", "./program {each}",
         "an atomic and a futex", "`sem_t`, `usher::semaphore`",
         "g++ -std=c++20 -O2 -pthread -o program {src}/counting_semaphore.cpp", [GXX]),
    Case("go", "Go, `sync.Mutex`", "./program {each}",
         "static, and goroutines wait in Go's own scheduler", "Go's mutex profile (`pprof`); shards",
         "go build -o program {src}/mutex.go", [("go", "golang-go")], "go version"),
    Case("cgo", "Go with cgo", "./program {each}",
         "dynamic, but only the start of threads uses pthread locks", "the same",
         "go build -o program {src}/mutex.go {src}/cgo.go", [("go", "golang-go"), GCC], "go version"),
    Case("rust", "Rust, `std::sync::Mutex`", "./program {each}",
         "a futex of the standard library", "Usher's C interface by FFI",
         "rustc -O -o program {src}/mutex.rs", [("rustc", "rustc")], "rustc --version"),
    Case("glib", "GLib, `GMutex`", "./program {each}",
         "a futex of GLib", "`pthread_mutex_t`",
         "gcc -O2 -o program {src}/glib.c $(pkg-config --cflags --libs glib-2.0)", [GCC, ("pkg-config", "libglib2.0-dev")],
         "pkg-config --modversion glib-2.0"),
    Case("abseil", "Abseil, `absl::Mutex`", "./program {each}",
         "a lock of Abseil, threads sleep on futexes", "`std::mutex`, `usher::mutex`",
         "g++ -std=c++20 -O2 -pthread -o program {src}/abseil.cpp $(pkg-config --cflags --libs absl_synchronization)",
         [GXX, ("/usr/include/absl/synchronization/mutex.h", "libabsl-dev")], "pkg-config --modversion absl_synchronization"),
    Case("java", "Java, `synchronized`", "java -Xmx256m -cp . Monitor {each}",
         "the virtual machine's lock; seen are mutexes inside the machine, almost as many when the program does nothing",
         "JFR's `jdk.JavaMonitorEnter`",
         "javac -d . {src}/Monitor.java", [("javac", "default-jdk-headless")], "java --version"),
    Case("node", "Node.js, `Atomics`", "node {src}/atomics.mjs {each}",
         "not among them: each `notify` locks a mutex of V8, which Usher replaces; no thread waited for it", "`usher try`",
         needs=[("node", "nodejs")], version="node --version"),
    Case("nginx", "nginx, 2 workers", "nginx -p . -e error.log -c nginx.conf",
         "each worker is one thread: nothing to wait for", "profile something else",
         r"mkdir -p logs && printf '%s\n' 'daemon off; worker_processes 2; pid nginx.pid; user root; events {{}}' "
         r"'http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 ok; }} }}' > nginx.conf",
         [("/usr/sbin/nginx", "nginx-light")], "nginx -v 2>&1",
         load="python3 {src}/web_load.py {port} 4 1000", unit="requests"),
    Case("postgresql", "PostgreSQL, 4 clients", "{nobody} postgres -D data -k .. -p {port} -c listen_addresses=",
         "processes, with locks of its own; the semaphores are process-shared, and so stay the C library's", "its own wait events",
         "{nobody} initdb -D data -A trust -U user > initdb.log",
         [("initdb", "postgresql-15"), ("setpriv", "util-linux")], "postgres --version",
         load="for i in $(seq 50); do pg_isready -q -h $PWD -p {port} && break; sleep 0.2; done; "
              "{nobody} pgbench -h $PWD -p {port} -U user -q -i postgres 2> pgbench.log && "
              "{nobody} pgbench -h $PWD -p {port} -U user -c 4 -t 1000 postgres | "
              r"sed -n 's#.*processed: *\([0-9]*\).*#\1#p'", unit="transactions"),
]


def values():
    """PostgreSQL refuses to be run by root."""
    nobody = "setpriv --reuid=nobody --regid=nogroup --clear-groups" if os.geteuid() == 0 else ""
    return {"each": EACH, "src": SOURCES, "port": 18080, "nobody": nobody}


def environment():
    env = clean_environment()
    servers = sorted(str(folder) for folder in Path("/usr/lib/postgresql").glob("*/bin"))
    env["PATH"] = ":".join([env.get("PATH", ""), "/usr/sbin", *servers])
    return env


def missing(case):
    """Packages, in words; empty if none."""
    lacks = [package for what, package in case.needs if not shutil.which(what, path=environment()["PATH"])
             and not Path(what).is_file()]
    return ", ".join(dict.fromkeys(lacks))


class Failed(Exception):
    pass


def shell(text, folder):
    outcome = harness.run(["sh", "-c", text.format(**values())], LIMIT, environment(), folder, backtrace=False)
    if not outcome.ok:
        raise Failed(f"`{text.format(**values())}`: {outcome.trouble()}")
    return outcome.stdout


def recorded(case, build, folder):
    """The output of the program, or of its load; the output of usher stat; the JSON."""
    raw = folder / "stat.json"
    command = [str(build.usher), "stat", "--lock", "steady", "--json", str(raw), "-o", "/dev/null", "--"]
    process = Process(command + shlex.split(case.run.format(**values())), environment(), folder)
    printed = None
    try:
        if case.load:
            printed = shell(case.load, folder)
            os.kill(process.popen.pid, signal.SIGTERM)  # usher stat passes it on
        outcome = process.finish(LIMIT, backtrace=False)
    except BaseException:
        process.finish(0, backtrace=False)
        raise
    if not outcome.ok:
        raise Failed(outcome.trouble())
    said = [line for line in outcome.stderr.splitlines() if line.startswith("usher")]
    return (outcome.stdout if printed is None else printed), said, json.loads(raw.read_text())


def calls_in(document):
    calls = dict.fromkeys(KINDS, 0)
    for row in document["rows"]:
        calls[row["kind"]] += row["acquisitions"]
    return calls


def run(case, build):
    with tempfile.TemporaryDirectory(prefix="usher-cannot-help-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o777)  # for programs that run as another user
        if case.build:
            shell(case.build, folder)
        found = re.search(r"\d[\d.]*", shell(case.version, folder)) if case.version else None
        printed, said, document = recorded(case, build, folder)
    return {"case": case.name, "version": found.group() if found else "", "build": case.build, "run": case.run,
            "operations": int(printed.split()[-1]), "calls": calls_in(document), "waited": document["waited"],
            "thread_seconds": document["thread_seconds"], "rule": document["rule"],
            "said": [line.replace(str(scratch) + "/", "") for line in said]}


# ---- the page --------------------------------------------------------------------------------------------------------

def seen(row):
    names = {"mutex": "mutex", "condition": "waits for conditions", "semaphore": "semaphore"}
    parts = [f"{row['calls'][kind]:,} {names[kind]}" for kind in KINDS if row["calls"][kind]]
    return ", ".join(parts) or "0"


def table(document):
    cases = {case.name: case for case in CASES}
    rows = []
    for row in document["results"]:
        case = cases[row["case"]]
        title = case.title + (f" ({row['version']})" if row["version"] else "")
        done = f"{row['operations']:,}" + (" " + case.unit if case.unit else "")
        rows.append([title, done, seen(row), case.why, case.instead])
    return harness.markdown(rows, ["program", "lock operations", "calls that Usher saw", "why", "instead"])


def write_doc(page):
    if not RESULT.is_file():
        die(f"{RESULT} is missing: run the programs first")
    document = json.loads(RESULT.read_text())
    content = "\n".join([table(document), "", harness.provenance_line(document)])
    page.write_text(harness.between_markers(page.read_text(), MARKER, content))
    print(f"{len(document['results'])} rows are in {os.path.relpath(page)}")
    return 0


# ---- all -------------------------------------------------------------------------------------------------------------

def chosen(only):
    if not only:
        return CASES
    known = {case.name: case for case in CASES}
    for name in only.split(","):
        if name not in known:
            die(f"unknown program '{name}': {', '.join(known)}")
    return [known[name] for name in only.split(",")]


def run_all(cases, build):
    """Results of an earlier run stay, but for those of the programs that are run now."""
    build.need(build.usher, build.library)
    others = harness.OthersShare()
    old = json.loads(RESULT.read_text())["results"] if RESULT.is_file() else []
    results, failed = {row["case"]: row for row in old}, False
    for case in cases:
        if lacks := missing(case):
            print(f"skipped: {case.name}: {lacks}")
            continue
        try:
            results[case.name] = run(case, build)
            print(f"{case.name}: {results[case.name]['operations']:,} operations, {seen(results[case.name])}", flush=True)
        except Failed as error:
            failed = True
            print(f"FAILED: {case.name}: {error}", flush=True)
    document = {"measurement": "programs that Usher cannot help", **harness.provenance(build, others),
                "results": [results[case.name] for case in CASES if case.name in results]}
    RESULT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="the programs, and what is missing for them")
    parser.add_argument("--only", metavar="NAMES", help="comma-separated (all)")
    parser.add_argument("--write-doc", action="store_true", help="set the results into the page; runs nothing")
    parser.add_argument("--doc", type=Path, default=PAGE, metavar="FILE", help="(docs/production.md)")
    parser.add_argument("--build", default="build/release", metavar="DIR")
    options = parser.parse_args()
    if options.list:
        print(harness.table([[case.name, case.title, missing(case)] for case in CASES], ["name", "program", "missing"]))
        return 0
    if options.write_doc:
        return write_doc(options.doc)
    return run_all(chosen(options.only), Build(options.build))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
