"""Programs that Usher cannot help: the table of docs/production.md. Builds those of lab/programs/cannot_help/, runs each, and two servers,
under `usher stat --lock steady`, and compares the number of calls in libusher.so with the number of the program's lock operations.

  python3 -m lab.cases.cannot_help --list                  the programs, and missing packages
  python3 -m lab.cases.cannot_help [--only go,rust]        run them: about a minute
  python3 -m lab.cases.cannot_help --write-doc             set the results into docs/production.md; runs nothing

The Debian packages that a program takes are in --list; packages.txt does not have them, because no other target needs
them."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import TREE, Build, die
from lab.run import packed, rounds, runner, script
from lab.run.case import Case, chosen

SOURCES = TREE / "lab/programs/cannot_help"
RESULT = TREE / "lab/results/cannot-help.json"
MARKER = "cannot help"
EACH = 250_000  # number of lock operations of each of the four threads
LIMIT = 120     # seconds, for a run
KINDS = ("mutex", "condition", "semaphore")


@dataclass(eq=False)
class Program(Case):
    """A case with further placeholders in its texts: {each} is EACH, {src} the folder of the sources, {nobody} a prefix that changes the
    user."""

    why: str = ""
    instead: str = ""
    version: str = ""  # a command that prints the program's version, first in its output

    def values(self, threads, seconds):
        # PostgreSQL refuses to be run by root.
        nobody = "setpriv --reuid=nobody --regid=nogroup --clear-groups" if os.geteuid() == 0 else ""
        return {"each": EACH, "src": SOURCES, "port": 18080, "nobody": nobody}


def program(name, title, run, why, instead, build="", needs=(), version="", load="", unit=""):
    """Makes a case. `build` and then `run` are commands in the same scratch folder; `load` is the command that loads a server. The last
    word of the output is the number of operations. If these are not lock operations, `unit` names them."""
    return Program(name, title, title, run, r"(\d+)\s*\Z", unit, needs=list(needs), until=load,
                   prepare=["chmod 777 .", *([build] if build else [])],  # writable for programs that run as another user
                   why=why, instead=instead, version=version)


GCC = ("gcc", "build-essential")
GXX = ("g++", "build-essential")

CASES = [
    program("control", "C, pthread mutex", "./program {each}",
         "for comparison: every operation is seen", "Usher",
         "gcc -O2 -pthread -o program {src}/pthread.c", [GCC]),
    program("static", "the same, static", "./program {each}",
         "there is no dynamic linker to load a library", "link dynamically, or embed a lock",
         "gcc -O2 -static -pthread -o program {src}/pthread.c", [GCC]),
    program("musl", "the same, for musl (Alpine)", "./program {each}",
         "another C library, to which the calls are passed on", "an image with glibc, or embed a lock",
         "musl-gcc -O2 -o program {src}/pthread.c", [("musl-gcc", "musl-tools")]),
    program("rwlock", "`std::shared_mutex`", "./program {each}",
         "read-write locks stay the C library's by default", "`usher run --rwlock`, which is experimental",
         "g++ -std=c++20 -O2 -pthread -o program {src}/shared_mutex.cpp", [GXX]),
    program("counting-semaphore", "`std::counting_semaphore`", "./program {each}",
         "an atomic and a futex", "`sem_t`, `usher::semaphore`",
         "g++ -std=c++20 -O2 -pthread -o program {src}/counting_semaphore.cpp", [GXX]),
    program("go", "Go, `sync.Mutex`", "./program {each}",
         "static, and goroutines wait in Go's own scheduler", "Go's mutex profile (`pprof`); shards",
         "go build -o program {src}/mutex.go", [("go", "golang-go")], "go version"),
    program("cgo", "Go with cgo", "./program {each}",
         "dynamic, but only the start of threads uses pthread locks", "the same",
         "go build -o program {src}/mutex.go {src}/cgo.go", [("go", "golang-go"), GCC], "go version"),
    program("rust", "Rust, `std::sync::Mutex`", "./program {each}",
         "a futex of the standard library", "Usher's C interface by FFI",
         "rustc -O -o program {src}/mutex.rs", [("rustc", "rustc")], "rustc --version"),
    program("glib", "GLib, `GMutex`", "./program {each}",
         "a futex of GLib", "`pthread_mutex_t`",
         "gcc -O2 -o program {src}/glib.c $(pkg-config --cflags --libs glib-2.0)", [GCC, ("pkg-config", "libglib2.0-dev")],
         "pkg-config --modversion glib-2.0"),
    program("abseil", "Abseil, `absl::Mutex`", "./program {each}",
         "a lock of Abseil, threads sleep on futexes", "`std::mutex`, `usher::mutex`",
         "g++ -std=c++20 -O2 -pthread -o program {src}/abseil.cpp $(pkg-config --cflags --libs absl_synchronization)",
         [GXX, ("/usr/include/absl/synchronization/mutex.h", "libabsl-dev")], "pkg-config --modversion absl_synchronization"),
    program("java", "Java, `synchronized`", "java -Xmx256m -cp . Monitor {each}",
         "the virtual machine's lock; seen are mutexes inside the machine, almost as many when the program does nothing",
         "JFR's `jdk.JavaMonitorEnter`",
         "javac -d . {src}/Monitor.java", [("javac", "default-jdk-headless")], "java --version"),
    program("node", "Node.js, `Atomics`", "node {src}/atomics.mjs {each}",
         "not among them: each `notify` locks a mutex of V8, which Usher replaces; no thread waited for it", "`usher try`",
         needs=[("node", "nodejs")], version="node --version"),
    program("nginx", "nginx, 2 workers", "nginx -p . -e error.log -c nginx.conf",
         "each worker is one thread: nothing to wait for", "profile something else",
         r"mkdir -p logs && printf '%s\n' 'daemon off; worker_processes 2; pid nginx.pid; user root; events {{}}' "
         r"'http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 ok; }} }}' > nginx.conf",
         [("/usr/sbin/nginx", "nginx-light")], "nginx -v 2>&1",
         load="python3 {src}/web_load.py {port} 4 1000", unit="requests"),
    program("postgresql", "PostgreSQL, 4 clients", "{nobody} postgres -D data -k .. -p {port} -c listen_addresses=",
         "processes, with locks of its own; the semaphores are process-shared, and so stay the C library's", "its own wait events",
         "{nobody} initdb -D data -A trust -U user > initdb.log",
         [("initdb", "postgresql-15"), ("setpriv", "util-linux")], "postgres --version",
         load="for i in $(seq 50); do pg_isready -q -h $PWD -p {port} && break; sleep 0.2; done; "
              "{nobody} pgbench -h $PWD -p {port} -U user -q -i postgres 2> pgbench.log && "
              "{nobody} pgbench -h $PWD -p {port} -U user -c 4 -t 1000 postgres | "
              r"sed -n 's#.*processed: *\([0-9]*\).*#\1#p'", unit="transactions"),
]


def calls_in(document):
    calls = dict.fromkeys(KINDS, 0)
    for row in document["rows"]:
        calls[row["kind"]] += row["acquisitions"]
    return calls


def place_of(build):
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return runner.Place(build, [os.environ.get("PATH", ""), "/usr/sbin", *servers])


def run(case, place, folder):
    found = re.search(r"\d[\d.]*", place.shell(case.version, folder, LIMIT)) if case.version else None
    raw = folder / "stat.json"
    observer = [str(place.build.usher), "stat", "--lock", "steady", "--json", str(raw), "-o", "/dev/null", "--"]
    printed, outcome = runner.run_case(place, case.at(4, 1), folder, LIMIT, observer)
    if not outcome.ok:
        raise runner.Failed(outcome.trouble())
    document = json.loads(raw.read_text())
    said = [line for line in outcome.stderr.splitlines() if line.startswith("usher")]
    return {"case": case.name, "version": found.group() if found else "", "build": "".join(case.prepare[1:]), "run": case.command,
            "operations": int(runner.figure(case.metric, printed)), "calls": calls_in(document), "waited": document["waited"],
            "thread_seconds": document["thread_seconds"], "rule": document["rule"],
            "said": [line.replace(f"{folder}/", "") for line in said]}


# ---- the page --------------------------------------------------------------------------------------------------------

def seen(row):
    names = {"mutex": "mutex", "condition": "waits for conditions", "semaphore": "semaphore"}
    parts = [f"{row['calls'][kind]:,} {names[kind]}" for kind in KINDS if row["calls"][kind]]
    return ", ".join(parts) or "0"


def table(document):
    cases = {case.name: case for case in CASES}
    rows = []
    for row in document["results"]:
        if row["case"] not in cases:
            continue  # Usher helps this program since
        case = cases[row["case"]]
        title = case.title + (f" ({row['version']})" if row["version"] else "")
        done = f"{row['operations']:,}" + (" " + case.unit if case.unit else "")
        rows.append([title, done, seen(row), case.why, case.instead])
    return harness.markdown(rows, ["program", "lock operations", "calls that Usher saw", "why", "instead"])


def write_doc(page):
    if not packed.is_there(RESULT):
        die(f"{RESULT} is missing: run the programs first")
    document = packed.document(RESULT)
    rows = sum(row["case"] in {case.name for case in CASES} for row in document["results"])
    content = "\n".join([table(document), "", harness.provenance_line(document)])
    page.write_text(harness.between_markers(page.read_text(), MARKER, content))
    print(f"{rows} rows are in {os.path.relpath(page)}")
    return 0


# ---- all -------------------------------------------------------------------------------------------------------------

def run_all(cases, build):
    """Runs the programs. Stored results of other programs are kept."""
    build.need(build.usher, build.library)
    others, place, report, fresh = harness.OthersShare(), place_of(build), script.Report(), []

    def work(case, folder):
        fresh.append(run(case, place, folder))
        print(f"{case.name}: {fresh[-1]['operations']:,} operations, {seen(fresh[-1])}", flush=True)

    report.each_case(cases, place, work, "usher-cannot-help-")
    results = rounds.merged(RESULT, "results", fresh, "case", [case.name for case in CASES])
    rounds.put(RESULT, {"measurement": "programs that Usher cannot help", **harness.provenance(build, others), "results": results})
    return report.end()


def main():
    options = script.parser(__doc__, "docs/production.md").parse_args()
    build = Build(options.build)
    if options.list:
        return script.list_cases(CASES, place_of(build))
    if options.write_doc:
        return write_doc(options.doc)
    return run_all(chosen(CASES, options.only), build)


if __name__ == "__main__":
    script.entry(main)
