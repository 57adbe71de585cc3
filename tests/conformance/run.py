#!/usr/bin/env python3
"""Runs the conformance programs on the C library's own mutexes and then under each lock, and compares.

The C library is the reference: every case has to pass there, and every case that passes there has to pass under each lock.
A few cases test guarantees that only Usher gives: they are skipped on the C library and must not fail under a lock. The
programs are independent of Usher: LD_PRELOAD names the library, USHER_LOCK the lock.

    run.py --programs DIR/mutex_calls …            the reference, then every lock of the catalogue
    run.py --lock twa --lock loiter --programs …   those locks only
    run.py --lock rwlock:bravo --programs …       a read-write lock, beside the C library's mutexes
    run.py --write-reference FILE --programs …     the reference only, kept in a file for the runs after it
    run.py --reference FILE --lock twa --programs …
    run.py --without owner_dies …                  those cases are left out, as where the system has no robust mutexes

USHER_LIB names libusher.so; a lock that it lacks is that of libusher-all.so beside it. The last line is `N passed, N failed`; the exit status is 0 if no case failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import catalog

PROGRAM_LIMIT = 750  # seconds; each case also has a limit of its own in the program
AT_ONCE = 3  # programs at a time: each sleeps for most of its time. Chosen, not measured
RESULT = re.compile(r"^(PASS|FAIL|SKIP) ([^:]+?)(?:: (.*))?$")
READ_WRITE = "rwlock:"  # before the name of a read-write lock, in --lock
# a case with this reason may be skipped on the C library, and nowhere else
USHERS_PROMISE = "the C library does not promise"

# Cases in which a thread must acquire a lock that other threads use all the time. Under a lock that lets waiters
# starve, such as pure LIFO, these cases may hang in some runs.
MAY_STARVE = {"lifo": {"atfork_handlers_under_load"}}

# The cases of these programs run in forks of one parent, so each case already runs in a child. The cases of all other programs run in fresh
# images (fork and exec), as programs do.
IN_FORKS = {"processes"}


def catalog_names():
    return [lock.name for lock in catalog.locks() if lock.excludes]


def variable_of(lock):
    return "USHER_RWLOCK" if lock.startswith(READ_WRITE) else "USHER_LOCK"


def environment(lock, library):
    ours = ("LD_PRELOAD", "USHER_LOCK", "USHER_RWLOCK", "USHER_SPIN_NS", "USHER_YIELD_NS", "USHER_SLEEP_NS")
    env = {k: v for k, v in os.environ.items() if k not in ours}
    if lock is not None:
        with_lock = catalog.library_with(lock.removeprefix(READ_WRITE), library)
        env["LD_PRELOAD"] = " ".join(filter(None, (with_lock, os.environ.get("USHER_COMPANION"))))  # see tests/stat/test_recorded.py
        env[variable_of(lock)] = lock.removeprefix(READ_WRITE)
    return env


left_out = []  # arguments of the programs


def run_program(program, lock, library):
    """Returns {case: (outcome, why)} of one program, its time, and an error of the program as a whole."""
    command = [str(program), *left_out]
    if program.name not in IN_FORKS:
        command.append("--fresh")
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment(lock, library), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    problem = None
    try:
        out, err = process.communicate(timeout=PROGRAM_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        problem = f"still running after {PROGRAM_LIMIT} s"
    results = {}
    for line in out.splitlines():
        match = RESULT.match(line)
        if match:
            results[match[2]] = (match[1], match[3] or "")
    if problem is None and not re.search(r"^\d+ passed, \d+ failed, \d+ skipped$", out, re.M):
        problem = f"ended early, with status {process.returncode}"
    if problem is None and err:
        problem = f"wrote to stderr: {err.strip().splitlines()[0]}"
    return results, time.monotonic() - start, problem


def run_programs(programs, lock, library):
    """Runs several programs at a time; yields (program, result of run_program) in the order of `programs`."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield from zip(programs, pool.map(lambda program: run_program(program, lock, library), programs))


def count(results, outcome):
    return sum(1 for result in results.values() if result[0] == outcome)


def print_row(lock, program, results, seconds, wrong):
    print(f"{lock:18} {program:18} {count(results, 'PASS'):7} {wrong:7} {count(results, 'SKIP'):7} {seconds:8.1f}",
          flush=True)


def run_reference(programs):
    """Runs every case on the C library. Returns {program: [passed cases]}, passed, failed."""
    reference, passed, failed = {}, 0, 0
    for program, (results, seconds, problem) in run_programs(programs, None, None):
        wrong = [(name, why) for name, (outcome, why) in results.items() if outcome == "FAIL"]
        if problem:
            wrong.append(("the program", problem))
        print_row("(the C library)", program.name, results, seconds, len(wrong))
        for name, why in wrong:
            print(f"  FAIL {name}: {why}")
        reference[program.name] = [name for name, (outcome, _) in results.items() if outcome == "PASS"]
        passed += count(results, "PASS")
        failed += len(wrong)
    return reference, passed, failed


def run_lock(lock, programs, reference, library):
    passed = failed = 0
    # The cases of the program read_write test read-write locks, and do not depend on the choice of the mutex.
    programs = [p for p in programs if p.name != "read_write" or lock.startswith(READ_WRITE)]
    for program, (results, seconds, problem) in run_programs(programs, lock, library):
        wrong = []
        for name in reference[program.name]:
            outcome, why = results.get(name, ("MISSING", "no result"))
            if outcome == "PASS":
                passed += 1
            elif name.split("/")[0] not in MAY_STARVE.get(lock, ()) or not why.startswith("still running"):
                wrong.append((name, why if outcome == "FAIL" else f"{outcome.lower()}: {why}"))
        for name in results.keys() - set(reference[program.name]):
            if results[name][0] == "PASS":
                passed += 1
            elif results[name][0] == "FAIL":
                wrong.append((name, results[name][1]))
            elif results[name][1].startswith(USHERS_PROMISE) and not lock.startswith("pthread"):
                wrong.append((name, "skipped as on the C library"))
        if problem:
            wrong.append(("the program", problem))
        print_row(lock, program.name, results, seconds, len(wrong))
        for name, why in wrong:
            print(f"  FAIL {name}: {why}")
            if name in results:
                print(f"       {variable_of(lock)}={lock.removeprefix(READ_WRITE)} LD_PRELOAD={library} timeout 30 {program} --only {name}")
        failed += len(wrong)
    return passed, failed


def library_is_loaded(library, program):
    """Returns whether the loader preloads the library. If it cannot, it only prints a warning, and all cases would pass
    on the C library."""
    # the loader prints the libraries and ends
    env = {**environment("pthread", library), "LD_TRACE_LOADED_OBJECTS": "1"}
    loaded = subprocess.run([str(program)], env=env, capture_output=True, text=True, timeout=100, check=False)
    return library in loaded.stdout and not loaded.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", type=pathlib.Path, required=True)
    parser.add_argument("--lock", action="append", dest="locks")
    parser.add_argument("--without", action="append", default=[], metavar="CASE")
    parser.add_argument("--reference", type=pathlib.Path)
    parser.add_argument("--write-reference", type=pathlib.Path)
    options = parser.parse_args()
    for case in options.without:
        left_out.extend(("--without", case))

    print(f"{'lock':18} {'program':18} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}")
    passed = failed = 0
    if options.reference:
        reference = json.loads(options.reference.read_text())
    else:
        reference, passed, failed = run_reference(options.programs)
    if options.write_reference:
        options.write_reference.write_text(json.dumps(reference, indent=1))
    else:
        library = os.environ.get("USHER_LIB")
        if not library or not library_is_loaded(library, options.programs[0]):
            sys.exit("USHER_LIB must name a libusher.so that can be preloaded")
        for lock in options.locks or catalog_names():
            p, f = run_lock(lock, options.programs, reference, library)
            passed += p
            failed += f
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
