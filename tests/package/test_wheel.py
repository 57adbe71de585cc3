#!/usr/bin/env python3
"""Checks a wheel of Usher: its files; then that pip installs it into a new virtual environment, where the command, the
module and the man page work, and removes it. Needs Python 3.8 or later with venv and pip. Checks more if auditwheel and
mypy can be imported, and if man and cc are installed. Uses no network.
"""

import argparse
import base64
import collections
import csv
import functools
import gc
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

MOST_BYTES = 6_700_000  # chosen; libusher-all.so and libusher.so both have the locks of the latter: 0.24 MB
failures = []
slower = 1.0  # than a real machine

# A program whose threads share a queue. It prints 20000.
THREADS = """
import queue, threading
q, total, lock = queue.Queue(4), 0, threading.Lock()
def take():
    global total
    for n in iter(q.get, None):
        with lock:
            total += n
team = [threading.Thread(target=take) for _ in range(4)]
for t in team: t.start()
for _ in range(20000): q.put(1)
for _ in team: q.put(None)
for t in team: t.join()
print(total)
"""

# C code of an extension module, which shares a mutex with Python.
C_CODE = """
#include <usher/usher.h>
int counted;
int try_it(usher_mutex_t* m) { return usher_mutex_trylock(m); }
int count(usher_mutex_t* m, int n) {
  for (int i = 0; i < n; i++) {
    usher_mutex_lock(m);
    counted = counted + 1;
    usher_mutex_unlock(m);
  }
  return counted;
}
"""


def expect(what, ok, why=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {why}", flush=True)


def run(command, env=None, seconds=60):
    try:
        return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                              timeout=seconds * slower, universal_newlines=True, check=False)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, str(late.stdout), f"ran longer than {seconds} s")


def check(what, done, holds=lambda out: True, status=0):
    """Checks the exit status of a finished command, and what it printed to stdout."""
    expect(what, done.returncode == status and holds(done.stdout),
           f"exit status {done.returncode}: {' '.join(map(str, done.args))}\n{done.stdout}{done.stderr}")


# ---- the file --------------------------------------------------------------------------------------------------------

def check_file(wheel):
    """Checks the names, sizes and modes of the wheel's files, and the list RECORD. Returns the version."""
    name = re.fullmatch(rf"usher_locks-([0-9.]+)-py3-none-manylinux_2_28_{platform.machine()}\.whl", wheel.name)
    expect("the wheel's name", name is not None, wheel.name)
    version = name[1] if name else ""
    size = wheel.stat().st_size
    expect(f"has {size / 1e6:.1f} MB, at most {MOST_BYTES / 1e6:.2f}", size <= MOST_BYTES)

    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        names = {e.filename for e in entries}
        info = f"usher_locks-{version}.dist-info"
        tops = {n.split("/")[0] for n in names}
        expect("has a package, its data and the wheel's facts",
               tops == {"usher_locks", f"usher_locks-{version}.data", info}, tops)
        for needed in ("bin/usher", "libexec/usher/usher_stat", "libexec/usher/usher_bench", "lib/libusher.so",
                       "lib/libusher-all.so", "lib/libusher-stat.so", "lib/libusher-locks.so.0", "include/usher/usher.h",
                       "include/usher/mutex.hpp", "share/man/man1/usher.1", "share/usher/machines/x5-2.toml",
                       "share/doc/usher/README.md"):
            expect(f"has {needed}", f"usher_locks/_tree/{needed}" in names)
        for needed in ("METADATA", "licenses/LICENSE", "licenses/NOTICE"):
            expect(f"has {needed}", f"{info}/{needed}" in names)
        unwanted = r"(^|/)(lab|tests|mutants|cmake|pkgconfig|__pycache__)/|usher_check|\.a$|\.pyc$"
        strange = [n for n in names if re.search(unwanted, n)]
        expect("has nothing of lab/ and tests/, no checker, and no file that only builds need", not strange, strange)
        programs = {n for n in names if re.search(r"/_tree/(bin|libexec)/", n)}
        modes = {e.filename: oct(e.external_attr >> 16) for e in entries if e.filename != f"{info}/RECORD"}
        wrong = {n: m for n, m in modes.items() if m != ("0o100755" if n in programs else "0o100644")}
        expect("programs have mode 755, other files 644, and none is a link", not wrong, wrong)
        stamps = {e.date_time for e in entries}
        expect("all files have one time stamp", len(stamps) == 1, stamps)
        libraries = collections.Counter(e.CRC for e in entries if re.search(r"/_tree/(bin|lib|libexec)/", e.filename))
        expect("no library is there twice", max(libraries.values()) == 1)
        check_record(archive, f"{info}/RECORD")
        facts = archive.read(f"{info}/METADATA").decode()
        for line in ("Name: usher-locks", f"Version: {version}", "Requires-Python: >=3.8"):
            expect(f"METADATA: {line}", f"\n{line}\n" in facts, facts[:600])
        expect("no placeholder is left", not re.search("@[A-Z]+@", facts + archive.read("usher_locks/__init__.py").decode()))
    return version


def check_record(archive, name):
    """Checks the hashes in RECORD, which pip does not verify."""
    rows = {path: (digest, size) for path, digest, size in csv.reader(archive.read(name).decode().splitlines())}
    expect("RECORD has each file", rows.keys() == set(archive.namelist()), rows.keys() ^ set(archive.namelist()))
    wrong = []
    for path in archive.namelist():
        data = archive.read(path)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if path != name and rows.get(path) != (f"sha256={digest}", str(len(data))):
            wrong.append(path)
    expect("RECORD has each file's hash and size", not wrong, wrong)


def check_platform(wheel):
    """Checks with auditwheel for which systems the programs and libraries are built."""
    if run([sys.executable, "-c", "import auditwheel"]).returncode != 0:
        print("--    auditwheel is not installed: it does not verify the platform tag", flush=True)
        return
    done = run([sys.executable, "-m", "auditwheel", "show", wheel])
    tag = re.search(rf'platform tag:\s+"manylinux_2_([0-9]+)_{platform.machine()}"', done.stdout)
    check("auditwheel: runs with glibc 2.28", done, lambda out: tag is not None and int(tag[1]) <= 28)


# ---- the command -----------------------------------------------------------------------------------------------------

def check_command(venv, env, version, work):
    """Checks that the console script executes the ELF command in place of Python, and that a program run by it has the
    environment that it would have without Python."""
    usher, python = venv / "bin/usher", venv / "bin/python"
    tree = Path(run([python, "-c", "import usher_locks; print(usher_locks._TREE)"], env).stdout.strip())
    library = f"{tree}/lib/libusher.so"
    check("usher --version", run([usher, "--version"], env), lambda out: out == f"usher {version}\n")
    check("python3 -m usher_locks --version", run([python, "-m", "usher_locks", "--version"], env),
          lambda out: out == f"usher {version}\n")
    check("usher list", run([usher, "list"], env), lambda out: "steady" in out)
    for start in ([usher], [python, "-m", "usher_locks"], [tree / "bin/usher"]):
        words = " ".join(Path(word).name for word in start)
        check(f"{words} run finds the library", run([*start, "run", "--", "sh", "-c", "echo $LD_PRELOAD"], env),
              lambda out: out.strip() == library)
    check("an exit status passes through", run([usher, "run", "--", "sh", "-c", "exit 7"], env), status=7)
    check("so does the end by a signal", run([usher, "run", "--", "sh", "-c", "kill -TERM $$"], env),
          status=-signal.SIGTERM)
    check("arguments pass through", run([usher, "run", "--", "printf", "%s|", "a b", "--lock", ""], env),
          lambda out: out == "a b|--lock||")
    check("a mistake is the command's", run([usher, "run", "--lock", "stedy", "--", "true"], env), status=2)
    facts = ["sh", "-c",
             "grep -E 'Sig(Ign|Blk)' /proc/self/status; env | grep -vE '^(LD_PRELOAD|USHER_LOCK|_)=' | sort"]
    bare = {"PATH": env["PATH"]}  # in the C locale Python changes the environment
    check("signals and environment are those without Python", run([usher, "run", "--", *facts], bare),
          lambda out: out == run([tree / "bin/usher", "run", "--", *facts], bare).stdout)

    (work / "threads.py").write_text(THREADS, encoding="ascii")
    for lock in ("steady", "twa", "mcscr"):
        done = run([usher, "run", "--lock", lock, "--", python, work / "threads.py"], dict(env, USHER_VERBOSE="1"))
        check(f"usher run --lock {lock}: threads of Python", done,
              lambda out: out.endswith("20000\n") and lock in done.stderr and version in done.stderr)
    done = run([usher, "stat", "--", python, work / "threads.py"], env)
    check("usher stat finds its executable", done, lambda out: out == "20000\n" and "\nVerdict: " in done.stderr)
    check("usher try finds the library",
          run([usher, "try", "--locks", "twa", "--rounds", "1", "--quiet", "--", "true"], env))
    check("usher sim finds its executable and the machines", run([usher, "sim", "--list"], env),
          lambda out: "x5-2" in out)
    check("usher check --help", run([usher, "check", "--help"], env), lambda out: "Usage: usher check" in out)
    done, says = run([usher, "check", "twa"], env), r"usher: check: .*install the package usher-check.*\n"
    check("usher check says in one line what to install", done,
          lambda out: out == "" and re.fullmatch(says, done.stderr), 125)
    page = venv / "share/man/man1/usher.1"
    expect("the man page is in the environment",
           page.is_file() and page.read_text(encoding="utf-8").startswith(".TH USHER 1"))
    if shutil.which("man"):
        check("man finds it", run(["man", "-w", "usher"], dict(env, PATH=f"{venv}/bin:{env['PATH']}")),
              lambda out: str(page) in out)
    for name in ("bash-completion/completions/usher", "zsh/site-functions/_usher"):
        expect(f"share/{name} is in the environment", (venv / "share" / name).is_file())


def check_types(site):
    if run([sys.executable, "-c", "import mypy"]).returncode != 0:
        print("--    mypy is not installed: it does not verify the types", flush=True)
        return
    modules = [word for name in ("", ".__main__", "._locks") for word in ("-m", f"usher_locks{name}")]
    check("mypy --strict", run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", *modules],
                               dict(os.environ, MYPYPATH=str(site)), 300))


# ---- the module, in the interpreter of the environment ---------------------------------------------------------------

def module_checks(version):
    import usher_locks

    expect("importing the package does not load the library", "ctypes" not in sys.modules)
    expect("usher_locks.version", usher_locks.version == version, usher_locks.version)
    for name in ("command_path", "preload_path", "library_path"):
        path = getattr(usher_locks, name)()
        expect(f"{name}()", isinstance(path, Path) and path.is_file(), path)
    expect("include_dir()", (usher_locks.include_dir() / "usher/usher.h").is_file())
    expect("the names of the module exist", all(hasattr(usher_locks, name) for name in usher_locks.__all__))
    names = usher_locks.lock_names()
    expect("lock_names()", {"steady", "twa", "pthread"} <= set(names) and len(names) == len(set(names)), names)
    for test in (mutexes, misuse, waits, conditions, semaphores, forks, interrupts, lifetime):
        test(usher_locks, names)
    with tempfile.TemporaryDirectory(prefix="usher-wheel-") as folder:
        c_code(usher_locks, Path(folder))


def raises(what, kind, call, text=""):
    try:
        result = call()
    except kind as error:
        expect(what, text in str(error), error)
    except BaseException as error:  # pylint: disable=broad-except
        expect(what, False, repr(error))
    else:
        expect(what, False, f"returned {result!r}")


def together(*calls):
    """Runs the functions in threads. Returns whether all ended in time."""
    team = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join(60)
    return not any(thread.is_alive() for thread in team)


def mutexes(usher_locks, names):
    wrong = []
    for name in names:
        mutex, total = usher_locks.Mutex(name), [0]

        def add(mutex=mutex, total=total):
            for _ in range(50):
                with mutex:
                    seen = total[0]
                    if seen % 10 == 0:
                        time.sleep(0)  # lets another thread run, which then waits
                    total[0] = seen + 1
        if not together(add, add, add) or total[0] != 150 or mutex.locked():
            wrong.append((name, total, mutex))
    expect(f"{len(names)} locks exclude: three threads of Python", not wrong, wrong)
    default = usher_locks.Mutex(None)
    with default as acquired:
        expect("the default lock; with …", acquired is True and default.locked() and default.lock is None, default)
    expect("is free behind it", not default.locked(), default)


def misuse(usher_locks, _):
    raises("an unknown lock: ValueError with the nearest name", ValueError, lambda: usher_locks.Mutex("stedy"),
           "did you mean 'steady'?")
    raises("an unknown lock that is near no other", ValueError, lambda: usher_locks.Mutex("zzzzzzzz"), "lock_names()")
    mutex = usher_locks.Mutex()
    raises("release of a free mutex", RuntimeError, mutex.release, "not locked")
    raises("a timeout without blocking", ValueError, lambda: mutex.acquire(False, 1))
    for timeout in (-1, float("nan")):
        raises(f"timeout {timeout}", ValueError, lambda timeout=timeout: mutex.acquire(timeout=timeout))
    raises("a condition without its mutex held", RuntimeError, usher_locks.Condition(mutex).wait, "not locked")
    raises("append 0", ValueError, lambda: usher_locks.Condition(mutex, 0.0), "probability")
    raises("a semaphore with -1 credits", ValueError, lambda: usher_locks.Semaphore(-1))
    full = usher_locks.Semaphore(0x7fffffff)
    raises("one credit too many: the text of the error number", RuntimeError, full.release, os.strerror(75))
    import copy
    raises("a copy", TypeError, lambda: copy.copy(mutex), "copied")


def waits(usher_locks, _):
    mutex, order = usher_locks.Mutex("twa"), []
    with mutex:
        expect("acquire(False) of a held mutex", mutex.acquire(False) is False)
        begin = time.monotonic()
        got = mutex.acquire(timeout=0.1)
        expect("a timeout", got is False and 0.1 <= time.monotonic() - begin < 5, time.monotonic() - begin)
        waiter = threading.Thread(target=lambda: order.append(mutex.acquire() and "waiter"), daemon=True)
        waiter.start()
        for _ in range(100):  # this thread must get the interpreter while the other one waits
            time.sleep(0.001)
        order.append("holder")
    waiter.join(60)
    expect("a thread that waits lets the others run", order == ["holder", "waiter"], order)
    mutex.release()
    expect("any thread may release", not mutex.locked())
    expect("a timeout of infinity", mutex.acquire(timeout=float("inf")) and mutex.locked())


def conditions(usher_locks, _):
    condition, turns = usher_locks.Condition(usher_locks.Mutex("mcscr"), 0.5), [0]

    def take_turns(me):
        while True:
            with condition:
                condition.wait_for(lambda: turns[0] % 3 == me or turns[0] >= 300)
                if turns[0] >= 300:
                    return
                turns[0] += 1
                condition.notify_all()
    ended = together(*(lambda me=me: take_turns(me) for me in range(3)))
    expect("threads take turns by a condition", ended and turns == [300], turns)
    with condition:
        begin = time.monotonic()
        expect("a wait with a timeout", condition.wait(0.05) is False and time.monotonic() - begin >= 0.05)
        expect("wait_for with a timeout", condition.wait_for(lambda: False, 0.05) is False)
    expect("the mutex is free again", not condition.mutex.locked())
    woken = []

    def wait():
        with condition:
            woken.append(condition.wait(30))
    team = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in team:
        thread.start()
    end = time.monotonic() + 30
    while len(woken) < 2 and time.monotonic() < end:
        condition.notify()
        time.sleep(0.01)
    expect("notify() ends waits one by one", woken == [True, True], woken)


def semaphores(usher_locks, _):
    semaphore, inside, most = usher_locks.Semaphore(2), [0], [0]

    def enter():
        for _ in range(50):
            with semaphore:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0001)
                inside[0] -= 1
    expect("a semaphore lets two of four threads in", together(enter, enter, enter, enter) and 1 <= most[0] <= 2, most)
    none = usher_locks.Semaphore(0, 0.001)
    expect("no credit", not none.acquire(False) and not none.acquire(timeout=0.02))
    none.release(2)
    expect("two credits", none.acquire() and none.acquire(False) and not none.acquire(False))


def in_child(call):
    """Calls the function in a child process. Returns the child's exit status, which is 0 if the function's result is
    true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            status = 0 if call() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def forks(usher_locks, _):
    for lock in ("steady", "twa", "mcscr"):
        mutex, count = usher_locks.Mutex(lock), [0]

        def add(mutex=mutex, count=count):
            for _ in range(100):
                with mutex:
                    count[0] += 1
        expect(f"{lock}: a child uses a free mutex", in_child(lambda: together(add, add) and count == [200]) == 0)
        with mutex:
            expect(f"{lock}: a held mutex stays locked in a child",
                   in_child(lambda: not mutex.acquire(timeout=0.05)) == 0)
            expect(f"{lock}: a child may release it", in_child(lambda: mutex.release() or mutex.acquire(False)) == 0)

    def forget():
        nonlocal mutex
        mutex = None
        gc.collect()
        return True
    waiter = threading.Thread(target=mutex.acquire, daemon=True)
    mutex.acquire()
    waiter.start()
    time.sleep(0.05)
    expect("a child may forget a mutex with a holder and a waiter", in_child(forget) == 0)
    mutex.release()
    waiter.join(60)


class Interrupted(Exception):
    pass


def interrupts(usher_locks, _):
    def interrupt(*_):
        raise Interrupted

    signal.signal(signal.SIGALRM, interrupt)
    for what, held in (("mutex", usher_locks.Mutex()), ("semaphore", usher_locks.Semaphore())):
        held.acquire()
        releaser = threading.Timer(0.3, held.release)
        releaser.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        raises(f"a {what}: an exception by a signal handler ends the wait", Interrupted, held.acquire)
        releaser.join()
        expect(f"a {what}: nothing is acquired then", held.acquire(False))
    condition = usher_locks.Condition()
    notifier = threading.Timer(0.3, condition.notify_all)
    notifier.start()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    raises("a condition: the same", Interrupted, lambda: wait_once(condition))
    notifier.join()
    expect("a condition: its mutex is free then", condition.acquire(False))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def wait_once(condition):
    with condition:
        condition.wait(30)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lifetime(usher_locks, _):
    def objects():
        for _ in range(20000):
            usher_locks.Mutex("twa")
            usher_locks.Semaphore()
    objects()
    before = resident()
    objects()
    objects()
    expect("objects are freed", resident() - before < 4 << 20, resident() - before)
    held = usher_locks.Mutex("mcs")
    held.acquire()
    del held
    gc.collect()
    expect("a mutex may be forgotten while it is held", True)


def c_code(usher_locks, folder):
    """C code shares a mutex with Python. It is linked with the library by the library's path, without a run path."""
    if shutil.which("cc") is None:
        print("--    there is no cc: no C code shares a mutex with Python", flush=True)
        return
    import ctypes
    (folder / "shared.c").write_text(C_CODE, encoding="ascii")
    done = run(["cc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-I", usher_locks.include_dir(),
                folder / "shared.c", usher_locks.library_path(), "-o", folder / "shared.so"])
    check("C code is compiled", done)
    if done.returncode != 0:
        return
    code = ctypes.CDLL(str(folder / "shared.so"))
    code.try_it.argtypes, code.count.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int]
    for lock in ("steady", "mcscr"):
        mutex = usher_locks.Mutex(lock)
        with mutex:
            expect(f"{lock}: C code sees that Python holds the mutex", code.try_it(mutex.address) != 0)
        expect(f"{lock}: Python sees that C code holds it",
               code.try_it(mutex.address) == 0 and not mutex.acquire(False))
        mutex.release()
        counted = ctypes.c_int.in_dll(code, "counted")
        counted.value = 0

        def count(mutex=mutex, counted=counted):
            for _ in range(1000):
                with mutex:
                    counted.value += 1
        in_c = functools.partial(code.count, mutex.address, 50000)
        ended = together(count, in_c, in_c)
        expect(f"{lock}: a thread of Python and two of C count under one mutex",
               ended and counted.value == 101000, counted.value)


# ---- all -------------------------------------------------------------------------------------------------------------

def all_files(root):
    return {str(f.relative_to(root)) for f in root.rglob("*") if f.is_symlink() or not f.is_dir()}


def check_installed(wheel, version, work, env, python):
    venv = work / "venv"
    check("a virtual environment", run([python, "-m", "venv", venv], env, 120))
    before = all_files(venv)
    pip = [venv / "bin/python", "-m", "pip"]
    check("pip installs the wheel, without network", run([*pip, "install", "--no-index", "--no-deps", wheel], env, 120))
    check("pip check", run([*pip, "check"], env))
    check_command(venv, env, version, work)
    check_types(next(venv.glob("lib/python3*/site-packages")))
    done = run([venv / "bin/python", "-X", "dev", "-W", "ignore::DeprecationWarning", Path(__file__).resolve(),
                "--wheel", wheel, "--module", version, "--slower", slower], env, 300)
    print(done.stdout, end="")
    expect("the module's checks", done.returncode == 0 and done.stderr == "",
           f"exit status {done.returncode}\n{done.stderr}")
    check("pip removes it", run([*pip, "uninstall", "--yes", "usher-locks"], env, 120))
    # pip compiles its own modules when it runs, so these files do not count.
    left = {f for f in all_files(venv) - before if "__pycache__" not in f or "usher" in f}
    expect("no file is left", not left, left)
    expect("no folder is left", not list(venv.glob("lib/python3*/site-packages/usher*")))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", required=True, type=Path)
    parser.add_argument("--python", default=sys.executable, help="the environment's interpreter (default: this one)")
    parser.add_argument("--slower", type=float, default=1, help="multiplies the time limits, as for an emulator")
    parser.add_argument("--module", metavar="VERSION", help="in the environment: check the module")
    options = parser.parse_args()
    global slower
    slower = options.slower
    if options.module is not None:
        module_checks(options.module)
        return 1 if failures else 0

    start = time.monotonic()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("USHER_", "PIP_", "PYTHON")) and
           k not in ("LD_PRELOAD", "VIRTUAL_ENV")}
    env.update(LC_ALL="C.UTF-8", PIP_DISABLE_PIP_VERSION_CHECK="1")
    wheel = options.wheel.resolve()
    version = check_file(wheel)
    check_platform(wheel)
    with tempfile.TemporaryDirectory(prefix="usher-wheel-") as temporary:
        check_installed(wheel, version, Path(temporary).resolve(), env, options.python)
    print(f"{len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
