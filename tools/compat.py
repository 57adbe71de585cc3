#!/usr/bin/env python3
"""Checks that unmodified programs give right results under every lock. Each program runs under `usher run --lock L`
with 2 and with 16 threads, three of them also with 48, under a time limit and in a process group of its own, and its
result is checked. A run makes at most 100,000 contended acquisitions: if there are more threads than CPUs, a lock that
hands over in FIFO order needs a context switch for each.

The lock `none` runs a program without the library, which distinguishes a broken test from a broken lock.
"""

import argparse
import atexit
import contextlib
import functools
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import catalog
import harness
from harness import TREE, Build, Process, clean_environment, die, plain_locks

SCRIPTS = TREE / "tools" / "compat"


class Failed(Exception):
    """A wrong result, a crash or a hang; `detail` goes to the log."""

    def __init__(self, why, detail=""):
        super().__init__(why)
        self.detail = detail


class Skipped(Exception):
    pass


class Setting:
    """The settings of one run of one program: its lock, its number of threads, its size."""

    def __init__(self, build, lock, threads, quick, limit, folder, bindings):
        self.build, self.lock, self.threads, self.quick, self.limit = build, lock, threads, quick, limit
        self.folder, self.bindings = folder, bindings

    def size(self, full, quick):
        return quick if self.quick or self.threads > 16 else full

    def under(self, command):
        prefix = [] if self.lock == "none" else [str(self.build.usher), "run", "--lock", self.lock, "--"]
        return prefix + [str(word) for word in command]

    def environment(self, extra=None):
        env = clean_environment(extra)
        if self.bindings:
            env.update(LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(self.bindings / "bindings"))
        return env

    def run(self, command, env=None):
        """Runs the program to its end and returns its output."""
        outcome = harness.run(self.under(command), self.limit, self.environment(env), self.folder)
        if not outcome.ok:
            raise Failed(outcome.trouble(), report(outcome))
        return outcome.stdout

    @contextlib.contextmanager
    def server(self, command, port):
        """Runs a server while the body of the `with` statement talks to it. Afterwards the server must end on SIGTERM
        with status 0."""
        process = Process(self.under(command), self.environment(), self.folder)
        limit = self.limit
        try:
            await_port(process, port, limit)
            yield
        except (Failed, OSError) as error:
            died = process.ended_within(0)
            outcome = process.finish(0)
            why = outcome.trouble() if died and not outcome.ok else f"the client saw: {error}"
            raise Failed(why, report(outcome) + getattr(error, "detail", "")) from error
        except BaseException:
            process.finish(0, backtrace=False)
            raise
        process.kill_group(15)
        outcome = process.finish(limit)
        if not outcome.ok:
            raise Failed("at its end: " + outcome.trouble(), report(outcome))


def report(outcome):
    text = f"$ {' '.join(outcome.command)}\n{outcome.trouble() if not outcome.ok else 'ok'}\n"
    for name, part in (("stdout", outcome.stdout), ("stderr", outcome.stderr), ("backtraces", outcome.backtrace)):
        if part.strip():
            text += f"--- {name}\n{part[-200000:]}\n"
    return text


def expect(condition, why):
    if not condition:
        raise Failed(why)


# ---- programs that end by themselves ----------------------------------------------------------------------------------

def sysbench(s):
    events = s.size(8000, 2000)  # an event takes the lock 10 times
    said = s.run(["sysbench", "threads", f"--threads={s.threads}", "--thread-locks=1", "--thread-yields=10",
                  "--time=0", f"--events={events}", "run"])
    found = re.search(r"total number of events:\s+(\d+)", said)
    expect(found and int(found.group(1)) == events, "sysbench did not count every event")


def sqlite(s):
    file = s.folder / "shared.db"
    said = s.run([s.build.program("sqlite_shared"), "--threads", s.threads, "--operations", s.size(20000, 4000),
                  "--file", file, "--check"])
    expect("checked:" in said, "sqlite_shared did not check")
    # The SQLite of this script, which runs without Usher's library, checks the database file again.
    with contextlib.closing(sqlite3.connect(file)) as db:
        expect(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "integrity_check of the file fails")
        expect(db.execute("SELECT count(*), sum(balance) FROM account").fetchall() == [(1000, 1000000)],
               "the file's accounts do not add up")


def leveldb(s):
    said = s.run([s.build.program("leveldb_driver"), "--threads", s.threads, "--num", s.size(10000, 3000),
                  "--operations", s.size(20000, 4000), "--dir", s.folder / "db"])
    expect("checked:" in said, "leveldb_driver did not check")


def kyotocabinet(s):
    said = s.run(["kccachetest", "wicked", "-th", s.threads, "-capcnt", "10000", s.size(5000, 1000)])
    expect(said.rstrip().endswith("ok") and "error" not in said.lower(), "kccachetest reports errors")


def perl(s):
    expect(s.run(["perl", SCRIPTS / "ithreads.pl", s.threads, s.size(4000, 1000)]) == "ok\n", "no final ok")


def python(s):
    expect(s.run([sys.executable, SCRIPTS / "contention.py", s.threads, s.size(4000, 1000)]) == "ok\n",
           "no final ok")


def processes(s):
    expect(s.run([sys.executable, SCRIPTS / "processes.py", s.threads, s.size(4000, 1000)]) == "ok\n", "no final ok")


def node(s):
    expect(s.run(["node", SCRIPTS / "contention.mjs", s.threads, s.size(20000, 4000)]) == "ok\n", "no final ok")


def ruby(s):
    expect(s.run(["ruby", SCRIPTS / "contention.rb", s.threads, s.size(4000, 1000)]) == "ok\n", "no final ok")


@functools.cache
def java_classes():
    """Returns the folder of the compiled Contention.java, or None without a compiler."""
    if not shutil.which("javac"):
        return None
    folder = tempfile.TemporaryDirectory(prefix="usher-java-")
    atexit.register(folder.cleanup)
    done = harness.run(["javac", "-d", folder.name, SCRIPTS / "Contention.java"], 120)
    return folder.name if done.ok else None


def java(s):
    # In full runs java itself compiles the source, under the lock. Quick runs use compiled classes, because this takes
    # longer than all other steps.
    classes = java_classes() if s.quick else None
    program = ["-cp", classes, "Contention"] if classes else [SCRIPTS / "Contention.java"]
    expect(s.run(["java", "-Xmx256m"] + program + [s.threads, s.size(20000, 5000)]) == "ok\n", "no final ok")


def jemalloc(s):
    said = s.run([s.build.program("malloc_check"), "--threads", s.threads, "--operations", s.size(40000, 10000)],
                 {"MALLOC_CONF": "narenas:1,tcache:false", "LD_PRELOAD": "libjemalloc.so.2"})
    expect("checked:" in said, "malloc_check did not check")


# ---- servers under load ------------------------------------------------------------------------------------------------

def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, limit):
    return socket.create_connection(("127.0.0.1", port), timeout=limit)


def await_port(process, port, limit):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if process.ended_within(0.02):
            raise Failed("the server did not stay up")
        with contextlib.suppress(OSError):
            connect(port, 1).close()
            return
    raise Failed("the server did not open its port")


def clients(number, port, limit, work):
    """Calls `work(index, file)` in `number` threads, each with a connection of its own, and raises the first error of a
    thread."""
    failures = []

    def one(index):
        try:
            with connect(port, limit) as link, link.makefile("rwb") as file:
                work(index, file)
        except (Failed, OSError, ValueError, IndexError) as error:
            failures.append(error)

    team = [threading.Thread(target=one, args=(i,)) for i in range(number)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    if failures:
        raise Failed(str(failures[0]))


def value_of(key, round_number):
    return (f"{key}/{round_number}/" * 40).encode()


def redis_command(file, *words):
    parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    file.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
    file.flush()
    return redis_reply(file)


def redis_reply(file):
    line = file.readline()
    kind, rest = line[:1], line[1:-2]
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
    if kind == b":":
        return int(rest)
    if kind == b"+":
        return rest
    raise Failed(f"redis answered {line!r}")


def redis(s):
    port, rounds = free_port(), s.size(50, 20)
    number = max(8, 2 * s.threads)  # redis uses all its threads only if there are two clients for each

    def work(index, file):
        for r in range(rounds):
            key = f"key:{index}:{r % 10}"
            expect(redis_command(file, "SET", key, value_of(key, r)) == b"OK", "SET failed")
            redis_command(file, "INCR", "counter")
            expect(redis_command(file, "GET", key) == value_of(key, r), f"redis gave a wrong value of {key}")

    with s.server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--io-threads", s.threads, "--io-threads-do-reads", "yes", "--dir", s.folder], port):
        clients(number, port, s.limit, work)
        requests = s.size(2000, 1000)
        said = s.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", number, "-n", requests,
                      "--threads", s.threads, "-P", "4", "-t", "set,get,incr", "-q"])
        expect(said.count("requests per second") >= 3, "redis-benchmark did not report its three tests")
        with connect(port, s.limit) as link, link.makefile("rwb") as file:
            expect(int(redis_command(file, "GET", "counter")) == number * rounds, "redis lost increments")
            expect(int(redis_command(file, "GET", "counter:__rand_int__")) == requests,
                   "redis-benchmark's increments are not all there")


def memcached_command(file, line, data=None):
    file.write(line.encode() + b"\r\n" + (data + b"\r\n" if data is not None else b""))
    file.flush()
    return file.readline().rstrip(b"\r\n")


def memcached_get(file, key):
    head = memcached_command(file, f"get {key}").split()
    expect(len(head) == 4 and head[0] == b"VALUE" and head[1].decode() == key, f"memcached lost {key}")
    value = file.read(int(head[3]) + 2)[:-2]
    expect(file.readline() == b"END\r\n", "memcached did not end its answer")
    return value


def memcached(s):
    port, number, rounds = free_port(), max(8, 2 * s.threads), s.size(50, 20)

    def work(index, file):
        for r in range(rounds):
            key, value = f"key:{index}:{r % 10}", value_of(f"key:{index}:{r % 10}", r)
            expect(memcached_command(file, f"set {key} 0 0 {len(value)}", value) == b"STORED", "set failed")
            expect(memcached_command(file, "incr counter 1").isdigit(), "incr failed")
            expect(memcached_get(file, key) == value, f"memcached gave a wrong value of {key}")

    user = ["-u", "root"] if os.geteuid() == 0 else []  # memcached refuses to run as root without an option
    with s.server(["memcached", "-l", "127.0.0.1", "-p", port, "-t", s.threads, "-m", "64"] + user, port):
        with connect(port, s.limit) as link, link.makefile("rwb") as file:
            expect(memcached_command(file, "set counter 0 0 1", b"0") == b"STORED", "set failed")
        clients(number, port, s.limit, work)
        with connect(port, s.limit) as link, link.makefile("rwb") as file:
            expect(int(memcached_get(file, "counter")) == number * rounds, "memcached lost increments")


# ---- requirements of the programs --------------------------------------------------------------------------------------

def has_library(name):
    tool = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    listing = subprocess.run([tool, "-p"], capture_output=True, text=True).stdout if tool else ""
    return name in listing


# For each program: its function, and the executables, drivers of this tree and libraries that it needs.
PROGRAMS = {
    "sysbench": (sysbench, ["sysbench"], [], []),
    "sqlite": (sqlite, [], ["sqlite_shared"], []),
    "leveldb": (leveldb, [], ["leveldb_driver"], []),
    "kyotocabinet": (kyotocabinet, ["kccachetest"], [], []),
    "perl": (perl, ["perl"], [], []),
    "python3": (python, [], [], []),
    "processes": (processes, [], [], []),
    "java": (java, ["java"], [], []),
    "node": (node, ["node"], [], []),
    "ruby": (ruby, ["ruby"], [], []),
    "redis": (redis, ["redis-server", "redis-benchmark"], [], []),
    "memcached": (memcached, ["memcached"], [], []),
    "jemalloc": (jemalloc, [], ["malloc_check"], ["libjemalloc.so.2"]),
}

# These programs also run with 48 threads, because some locks have fewer than 48 bits or slots for waiters.
CROWD, CROWDED = 48, ("sysbench", "sqlite", "jemalloc")


def missing(name, build):
    """Returns the reason why a program cannot be run here, or None."""
    _, executables, drivers, libraries = PROGRAMS[name]
    for executable in executables:
        if not shutil.which(executable):
            return f"{executable} is not installed"
    for driver in drivers:
        if not build.program(driver):
            return f"{driver} was not built"
    for library in libraries:
        if not has_library(library):
            return f"{library} is not installed"
    if name == "perl":
        probe = subprocess.run(["perl", "-Mthreads", "-MThread::Queue", "-e", "1"], capture_output=True)
        if probe.returncode != 0:
            return "this perl has no threads"
    return None


def bound_objects(folder):
    """Returns the objects that the loader bound to Usher's pthread_mutex_lock or trylock, from the loader's own record."""
    objects = set()
    form = re.compile(r"binding file (\S+) \[\d+\] to \S*libusher(?:-all)?\.so\S* \[\d+\]: normal symbol "
                      r"`pthread_mutex_(?:try)?lock'")
    for file in folder.glob("bindings.*"):
        with open(file, errors="replace") as lines:
            for line in lines:
                found = form.search(line)
                if found and "libusher" not in found.group(1):
                    objects.add(Path(found.group(1)).name)
    return objects


def one_run(name, build, lock, threads, quick, limit, bindings):
    with tempfile.TemporaryDirectory(prefix="usher-compat-") as folder:
        setting = Setting(build, lock, threads, quick, limit, Path(folder), bindings)
        PROGRAMS[name][0](setting)


def check_preload(build, locks):
    """Checks that the library is really mapped into programs: every test would pass if the library did not load."""
    for lock in locks:
        if lock == "none":
            continue
        outcome = harness.run([build.usher, "run", "--lock", lock, "--", "cat", "/proc/self/maps"], 20)
        library = Path(catalog.library_with(lock, build.library)).name
        if not outcome.ok or f"/{library}" not in outcome.stdout:
            die(f"`usher run --lock {lock}` does not load {library}: {outcome.trouble() if not outcome.ok else ''}", 1)


def chosen(text, known, what):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            die(f"unknown {what} '{name}': {', '.join(known)}")
    return names


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--locks", help="comma-separated (all plain names; also pthread, pthread-adaptive, none)")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="comma-separated (all)")
    parser.add_argument("--threads", help="comma-separated (2,16; with --quick 4)")
    parser.add_argument("--quick", action="store_true", help="smaller runs, one thread count: for make test")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a run may take (60)")
    parser.add_argument("--logs", metavar="DIR", help="where details of failures go (BUILD/compat)")
    options = parser.parse_args()
    options.programs = chosen(options.programs, list(PROGRAMS), "program")
    options.crowded = CROWDED if not options.quick and not options.threads else ()
    try:
        options.threads = [int(t) for t in (options.threads or ("4" if options.quick else "2,16")).split(",")]
        if min(options.threads) < 1:
            raise ValueError
    except ValueError:
        die(f"--threads {options.threads}: not a list of thread counts")
    return options


class Results:
    """The results of all runs: a cell for each program under each lock, and the messages about failures."""

    def __init__(self, build, options):
        self.build, self.options = build, options
        self.logs = Path(options.logs) if options.logs else build.folder / "compat"
        self.cells, self.details, self.reached = {}, [], {}
        self.passed = self.failed = self.skipped = 0

    def run(self, name, lock, threads):
        """Makes one run; returns False if it failed, and writes the error to a log. The first run of a program under a
        lock also checks that some object of the program is bound to libusher.so; otherwise the program would test
        nothing."""
        watch = lock != "none" and name not in self.reached
        log = self.logs / f"{name}-{lock}-{threads}.txt"
        log.unlink(missing_ok=True)  # of an earlier run
        with tempfile.TemporaryDirectory(prefix="usher-bindings-") as folder:
            try:
                one_run(name, self.build, lock, threads, self.options.quick, self.options.limit, Path(folder) if watch else None)
                if watch:
                    self.reached[name] = bound_objects(Path(folder))
                    if not self.reached[name]:
                        raise Failed("nothing in it is bound to Usher's library: this tests nothing")
                self.passed += 1
                return True
            except Failed as error:
                self.failed += 1
                self.logs.mkdir(parents=True, exist_ok=True)
                log.write_text(f"{name} under {lock}, {threads} threads: {error}\n{error.detail}")
                self.details.append(f"FAILED: {name} under {lock} at {threads} threads: {error} ({log})")
                print(self.details[-1], flush=True)
                return False

    def run_program(self, name, locks):
        """Runs a program under all locks, at all thread counts."""
        counts = self.options.threads + ([CROWD] if name in self.options.crowded else [])
        why_not = missing(name, self.build)
        if why_not:
            self.cells.update({(name, lock): "skipped" for lock in locks})
            self.skipped += len(counts) * len(locks)
            self.details.append(f"skipped: {name}: {why_not}")
            return
        began = time.monotonic()
        for lock in locks:
            wrong = [str(threads) for threads in counts if not self.run(name, lock, threads)]
            self.cells[name, lock] = f"FAILED at {','.join(wrong)}" if wrong else "ok"
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)

    def show(self, locks, seconds):
        programs, crowded = self.options.programs, self.options.crowded
        also = f" ({', '.join(crowded)} also at {CROWD})" if crowded else ""
        print(f"\nRight answers at {' and '.join(str(t) for t in self.options.threads)} threads{also}:")
        print(harness.table([[lock] + [self.cells[name, lock] for name in programs] for lock in locks], ["lock"] + programs))
        print()
        for name, objects in self.reached.items():
            print(f"{name} takes its mutexes from Usher in: {', '.join(sorted(objects))}")
        for line in self.details:
            print(line)
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped in {seconds:.0f} s")


def main():
    options = parse_options()
    build = Build(options.build)
    known = plain_locks() + harness.pass_through() + ["none"]
    locks = chosen(options.locks, known, "lock") if options.locks else plain_locks()
    if locks != ["none"]:
        build.need(build.usher, build.library)
        check_preload(build, locks)
    start = time.monotonic()
    results = Results(build, options)
    for name in options.programs:
        results.run_program(name, locks)
    results.show(locks, time.monotonic() - start)
    return 1 if results.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
