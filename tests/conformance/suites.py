#!/usr/bin/env python3
"""Runs the tests of read-write locks of three public suites on the C library's locks and under Usher's, and compares.

    make suites                            gets the suites, then runs this
    suites.py --build build/release        all tests
    suites.py --only 'pthread_rwlock_r'    those whose names match
    suites.py --write-doc                  also writes the table of docs/verification.md

The suites are the upstream sources of Debian packages, which tools/debian_source.sh downloads into build/suites; nothing of them is in
this tree:

    posixtestsuite   the Open POSIX Test Suite: conformance/interfaces/pthread_rwlock*
    glibc            nptl/tst-rwlock*.c, sysdeps/pthread/tst-rwlock*.c, with the functions of support/
    gcc-12           libstdc++'s testsuite/30_threads/shared_{mutex,timed_mutex,lock}

Some tests read internals of the C library, as the layout of its locks, and cannot pass under any other lock: EXPLAINED has the reason
for each. All other tests that pass on the C library must pass under Usher's locks, and all tests of EXPLAINED must fail, so that the
list stays true. The last line is `N passed, N failed`."""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE / "tools"))
from harness import between_markers

DOC = TREE / "docs/verification.md"
RELEASE = "bookworm"
PACKAGES = ("posixtestsuite", "glibc", "gcc-12")
LOCKS = (None, "phase-fair", "bravo")  # of USHER_RWLOCK; None: the C library's, without libusher.so
LIMIT = 120  # seconds a test
AT_ONCE = 3  # tests at a time: most sleep for much of their time. Chosen, not measured
OUTCOMES = {"posixtestsuite": {0: "pass", 1: "fail", 2: "unresolved", 4: "unsupported", 5: "untested"},
            "glibc": {0: "pass", 77: "unsupported"},
            "gcc-12": {0: "pass"}}

# The reasons why a test does not pass under Usher's locks, and need not.
LEFT_LOCKED = "destroys a lock that a thread has not unlocked: undefined in POSIX, and EBUSY under Usher's locks"
EXPLAINED = {
    "pthread_rwlock_timedrdlock/6-2": LEFT_LOCKED,
    "pthread_rwlock_timedwrlock/6-2": LEFT_LOCKED,
    "tst-rwlock6": LEFT_LOCKED,
    "tst-rwlock7": LEFT_LOCKED,
    "pthread_rwlock_unlock/4-2": "unlocks once more than it has locked: undefined in POSIX, and then EBUSY as well",
    "tst-rwlock19": "writes a number of readers into the C library's lock, so that few more are too many",
}
UNLOCKED = ", unlocked"  # the name of the second form of a LEFT_LOCKED test, which unlocks before it destroys

# glibc's tests include two internal headers of glibc, for a few names. These replace them.
SHIMS = {
    "atomic.h": "#define atomic_load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)\n"
                "#define atomic_store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)\n",
    "pthreadP.h": "#include <pthread.h>\n#include <atomic.h>\n"
                  "#define PTHREAD_RWLOCK_READER_SHIFT 3\n#define PTHREAD_RWLOCK_READER_OVERFLOW (1u << 31)\n",
    "config.h": "",
    "unlocked.h": "#include <pthread.h>\n"
                  "#define pthread_rwlock_destroy(l) (pthread_rwlock_unlock(l), pthread_rwlock_destroy(l))\n",
    "paths.c": 'const char support_objdir_root[] = ".";\n',
}


class Test:
    def __init__(self, suite, name, sources, flags, folder):
        self.suite, self.name, self.sources, self.flags = suite, name, sources, flags
        self.program = folder / re.sub(r"\W+", "_", name)
        self.outcomes = {}


def command(*words, cwd=None):
    return subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


def unpack(sources, package, patterns, to):
    """Unpacks the files whose paths match from a package's upstream archive; returns the archive's version."""
    (archive,) = sources.glob(f"{package}_*.orig.tar.*")
    version = re.search(r"_(.*)\.orig", archive.name)[1]
    made = to / ".made"
    if not made.exists():
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        with tarfile.open(archive) as outer:
            inner = [m for m in outer if re.search(r"/gcc-[\d.]+-dfsg\.tar\.xz$", m.name)]
            with (tarfile.open(fileobj=outer.extractfile(inner[0])) if inner else outer) as tar:
                for member in tar:
                    if member.isfile() and re.search(patterns, member.name):
                        member.name = member.name.split("/", 1)[1]
                        tar.extract(member, to)
        made.touch()
    return version


def with_second_forms(tests, shims):
    """Adds a second form of each test that leaves a lock locked."""
    return [t for test in tests for t in ([test] if EXPLAINED.get(test.name) != LEFT_LOCKED else [test, Test(
        test.suite, test.name + UNLOCKED, test.sources, [*test.flags, "-include", shims / "unlocked.h"], test.program.parent)])]


def posix_tests(sources, build):
    root = build / "posixtestsuite"
    version = unpack(sources, "posixtestsuite", r"/include/|/interfaces/pthread_rwlock", root)
    flags = ["-std=gnu99", "-D_GNU_SOURCE", f"-I{root / 'include'}"]
    paths = sorted((root / "conformance/interfaces").glob("**/*.c"))
    names = {p: str(p.relative_to(root / "conformance/interfaces").with_suffix("")) for p in paths}
    return version, [Test("posixtestsuite", names[p], [p], flags, build / "bin") for p in paths]


def glibc_tests(sources, build):
    root = build / "glibc"
    version = unpack(sources, "glibc", r"/(nptl|sysdeps/pthread)/tst-rwlock[^/]*\.c$|/support/[^/]*\.[ch]$|/include/intprops\.h$|/test-skeleton\.c$", root)
    shims = build / "shims"
    shutil.copy(root / "include/intprops.h", shims)
    flags = ["-std=gnu11", "-w", "-D_GNU_SOURCE", "-DTIMEOUTFACTOR=1", "-include", "limits.h", f"-I{shims}", f"-I{root}",
             f"-I{root / 'support'}"]
    library = build / "libsupport.a"
    if not library.exists():  # all files that compile: a few need more of glibc, and no test of ours needs these
        objects = build / "support"
        objects.mkdir(exist_ok=True)
        sources_of = [p for p in (root / "support").glob("*.c") if not p.name.startswith(("test-", "tst-", "links-dso", "shell-", "echo-", "true-"))]
        sources_of.append(shims / "paths.c")
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda p: command("gcc", *flags, "-O2", "-c", p, "-o", objects / (p.stem + ".o")), sources_of))
        done = command("ar", "rcs", library, *sorted(objects.glob("*.o")))
        if done.returncode:
            sys.exit(done.stderr)
    paths = sorted([*(root / "nptl").glob("tst-rwlock*.c"), *(root / "sysdeps/pthread").glob("tst-rwlock*.c")])
    # This test is for 32-bit systems, on which it uses another definition of time_t.
    paths = [p for p in paths if p.stem != "tst-rwlock14-time64"]
    return version, [Test("glibc", p.stem, [p, library], flags, build / "bin") for p in paths]


def libstdcxx_tests(sources, build):
    root = build / "gcc-12"
    version = unpack(sources, "gcc-12", r"libstdc\+\+-v3/testsuite/(30_threads/shared_(mutex|timed_mutex|lock)|util)/", root)
    suite = root / "libstdc++-v3/testsuite"
    flags = ["-std=gnu++20", "-w", f"-I{suite / 'util'}"]
    paths = [p for p in sorted((suite / "30_threads").glob("**/*.cc")) if "dg-do run" in p.read_text(encoding="utf-8")]
    return version, [Test("gcc-12", str(p.relative_to(suite / "30_threads").with_suffix("")), [p], flags, build / "bin") for p in paths]


def compile_test(test):
    compiler = "g++" if test.suite == "gcc-12" else "gcc"
    done = command(compiler, *test.flags, "-O1", "-pthread", *test.sources, "-o", test.program, "-lrt")
    return done.stderr if done.returncode else None


def run_test(test, lock, library, folder):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "USHER_LOCK", "USHER_RWLOCK")}
    if lock is not None:
        env.update(LD_PRELOAD=library, USHER_RWLOCK=lock)
    process = subprocess.Popen([str(test.program)], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        out = process.communicate(timeout=LIMIT)[0]
        outcome = OUTCOMES[test.suite].get(process.returncode, "fail")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out = process.communicate()[0]
        outcome = "time-out"
    return outcome, out.strip().splitlines()[-1:] or [""]


def verdict(test, lock):
    """Returns whether the test's result under a lock is as required. None: the test does not count, because the C
    library does not pass it."""
    if test.outcomes[None][0] != "pass":
        return None
    return (test.outcomes[lock][0] == "pass") != (test.name in EXPLAINED)


def table(suites, tests):
    rows = ["| suite | tests | the C library passes | `phase-fair` passes | `bravo` passes | differences explained |",
            "|---|---:|---:|---:|---:|---:|"]
    titles = {"posixtestsuite": "Open POSIX Test Suite", "glibc": "glibc", "gcc-12": "libstdc++, gcc"}
    for suite, version in suites.items():
        of_suite = [t for t in tests if t.suite == suite and not t.name.endswith(UNLOCKED)]
        passes = [sum(t.outcomes[lock][0] == "pass" for t in of_suite) for lock in LOCKS]
        rows.append(f"| {titles[suite]} {version} | {len(of_suite)} | {passes[0]} | {passes[1]} | {passes[2]} | "
                    f"{sum(t.name in EXPLAINED for t in of_suite)} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=TREE / "build/release")
    parser.add_argument("--suites", type=Path, default=TREE / "build/suites")
    parser.add_argument("--only", default="")
    parser.add_argument("--write-doc", action="store_true")
    options = parser.parse_args()
    library = str((options.build / "lib/libusher.so").resolve())
    if not os.access(library, os.R_OK):
        sys.exit(f"{library} is missing: make build")
    build = options.suites.resolve() / "built"
    (build / "bin").mkdir(parents=True, exist_ok=True)
    (build / "run").mkdir(exist_ok=True)
    (build / "shims").mkdir(exist_ok=True)
    for name, text in SHIMS.items():
        (build / "shims" / name).write_text(text, encoding="utf-8")

    suites, tests = {}, []
    for package, of_suite in zip(PACKAGES, (posix_tests, glibc_tests, libstdcxx_tests)):
        suites[package], more = of_suite(options.suites / "sources", build)
        tests += [t for t in with_second_forms(more, build / "shims") if re.search(options.only, t.name)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        errors = [(t, e) for t, e in zip(tests, pool.map(compile_test, tests)) if e]
    for test, error in errors:
        print(f"{test.suite} {test.name} does not compile: {error.splitlines()[0]}")
    tests = [t for t in tests if t not in [e[0] for e in errors]]
    passed = 0
    failed = len(errors)
    print(f"{'suite':15} {'test':45}" + "".join(f" {lock or 'C library':11}" for lock in LOCKS))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        # No test runs twice at the same time, because some tests use a name that is unique in the system.
        run_all = lambda t: {lock: run_test(t, lock, library, build / "run") for lock in LOCKS}  # noqa: E731
        for test, outcomes in zip(tests, pool.map(run_all, tests)):
            test.outcomes = outcomes
            print(f"{test.suite:15} {test.name:45}" + "".join(f" {test.outcomes[lock][0]:11}" for lock in LOCKS), flush=True)
            for lock in LOCKS[1:]:
                right = verdict(test, lock)
                passed += right is True
                failed += right is False
                if right is False:
                    print(f"  FAIL under {lock}: {test.outcomes[lock][1][0]}")
    if options.write_doc and not options.only:
        text = between_markers(DOC.read_text(encoding="utf-8"), "suites", table(suites, tests))
        DOC.write_text(text, encoding="utf-8")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
