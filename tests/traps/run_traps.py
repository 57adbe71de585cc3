#!/usr/bin/env python3
"""Runs the tests of the traps of interposition: each fails if the trap is not handled.

    run_traps.py reference        the cases that any C library must pass, run on the C library alone
    run_traps.py symbols          the library's exported symbols, and the objects that are bound to them
    run_traps.py environment      USHER_LOCK: unset, empty, every name, unknown names; nothing on stdout
    run_traps.py shared_objects   the header library in several shared objects of one process
    run_traps.py handlers         signal handlers that lock, or fork, while a queue node is taken or given back
    run_traps.py sandboxes        threads that may make no system call, or for which some calls fail
    run_traps.py replaced_functions   beside a library that replaces functions of the C library and locks in them
    run_traps.py system_calls     the library makes only the system calls that the documentation names
    run_traps.py lost_wakeup      a waiter is held after each of its instructions: only the C library may lose a signal
    run_traps.py clock_steps      sets the machine's clock while threads wait, and sets it back
    run_traps.py forks            forks after which the kernel wipes memory, and forks after which it does not
    run_traps.py lock NAME        the programs under one lock
    run_traps.py rwlock NAME      the programs with read-write locks under one of ours

USHER_LIB names libusher.so (beside it is libusher-all.so, with the other locks), USHER_TRAPS the folder of the programs, USHER_CONFORMANCE that of the conformance tests;
USHER_BIN, if set, the usher command. Prints `PASS name`, `FAIL name: why` or `SKIP name: why` for each case, then
`N passed, N failed, N skipped`.
"""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import catalog

LIB = os.environ.get("USHER_LIB", "")
BIN = pathlib.Path(os.environ.get("USHER_TRAPS", "."))
CONFORMANCE = pathlib.Path(os.environ.get("USHER_CONFORMANCE", "."))
COND_VERSIONS = {"GLIBC_2.3.2", "GLIBC_2.17"}  # of the C library's condition variables, on x86-64 and AArch64
C11_VERSIONS = ("GLIBC_2.28", "GLIBC_2.34")
RESULT = re.compile(r"^(PASS|FAIL|SKIP) ([^:]+?)(?:: (.*))?$")
GO_PAST_PARKED = ("steady", "steady-park")  # other threads get these locks while a handler keeps a waiter
# Locks that take queue nodes in different ways. Every other lock takes them in one of these ways, or takes none.
NODE_LOCKS = ("mcs", "clh", "clh-tls", "k42-tls")
# Cases in which a child of fork() must notice the fork even if the kernel has not wiped memory. Without the wipe, the
# child of a raw clone() cannot notice it, so those cases are missing here.
FORKS = (("hand_over", "ghosts/fork"),
         ("processes", "fork_of_a_fork_with_ghosts/fork", "generations_with_ghosts/default", "condition_after_fork"),
         ("forked_waits", "semaphore_with_ghosts/fork", "condition_with_ghosts/fork", "handler_forks_in_condition_wait"))
# C libraries whose condition variables lose signals (glibc bug 25847). A library is identified by the first line of `ldd --version`.
LOSE_SIGNALS = {"Debian GLIBC 2.36-9+deb12u14"}
counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

# Locks whose mutexes admit sleeping waiters by priority. Semaphores and condition variables do so under every lock.
SERVE_BY_PRIORITY = {"loiter", "loiter-barging", "loiter-cull", "loiter-eager", "loiter-flux", "loiter-numa"}

C11 = [f"mtx_{call}" for call in ("init", "destroy", "lock", "trylock", "timedlock", "unlock")] + [
    f"cnd_{call}" for call in ("init", "destroy", "wait", "timedwait", "signal", "broadcast")]
FAMILIES = {
    "mutex": ["init", "destroy", "lock", "trylock", "timedlock", "clocklock", "unlock"],
    "cond": ["init", "destroy", "wait", "timedwait", "clockwait", "signal", "broadcast"],
    "sem": ["init", "destroy", "wait", "trywait", "timedwait", "clockwait", "post", "getvalue"],
    "rwlock": ["init", "destroy", "rdlock", "tryrdlock", "timedrdlock", "clockrdlock", "wrlock", "trywrlock", "timedwrlock", "clockwrlock",
               "unlock"],
    "__pthread_rwlock": ["init", "destroy", "rdlock", "tryrdlock", "wrlock", "trywrlock", "unlock"],
}


def say(outcome, name, why=""):
    counts[outcome] += 1
    print(f"{outcome} {name}" + (f": {why}" if why else ""), flush=True)


def check(name, condition, why):
    say("PASS", name) if condition else say("FAIL", name, why)


def environment(lock=None, preload=None, **more):
    ours = ("LD_PRELOAD", "LD_DEBUG", "USHER_LOCK", "USHER_RWLOCK", "USHER_SPIN_NS", "USHER_YIELD_NS", "USHER_SLEEP_NS",
            "USHER_FAKE_PRIORITIES", "USHER_VERBOSE")
    env = {k: v for k, v in os.environ.items() if k not in ours}
    if lock is not None:
        env["USHER_LOCK"] = lock
    if LIB:
        env["USHER_LIB"] = catalog.library_with(lock or "", LIB)
    if preload:
        companion = [os.environ["USHER_COMPANION"]] if LIB in preload and "USHER_COMPANION" in os.environ else []
        env["LD_PRELOAD"] = " ".join(str(p) for p in [*(env["USHER_LIB"] if p == LIB else p for p in preload), *companion])
    env.update(more)
    return env


def run(command, env, limit=150):
    """Returns (status, stdout, stderr). The status is None if the process was killed at the limit."""
    process = subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err


def run_cases(label, program, env, options=("--fresh",), limit=750):
    """Runs a program of cases, and prints the result of each case after the label."""
    status, out, err = run([BIN / program, *options], env, limit)
    for line in out.splitlines():
        match = RESULT.match(line)
        if match:
            say(match[1], f"{label}/{match[2]}", match[3] or "")
    ended = re.search(r"^\d+ passed, \d+ failed, \d+ skipped$", out, re.M)
    if not ended:
        say("FAIL", label, f"ended early, with status {status}: {err.strip()[:200]}")
    elif err:
        say("FAIL", label, f"wrote to stderr: {err.strip().splitlines()[0]}")


# -- the library's exports ---------------------------------------------------------------------------------------


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, LIB], capture_output=True, text=True, check=True,
                          timeout=300).stdout


def exported_symbols():
    exported = []
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit() and fields[6] != "UND":
            if fields[4] in ("GLOBAL", "WEAK", "UNIQUE"):
                exported.append(fields[7])
    return exported


def names_in_family(family):
    return {f"{family}_{m}" if family in ("sem", "__pthread_rwlock") else f"pthread_{family}_{m}" for m in FAMILIES[family]}


def check_exports():
    """Checks that the library exports whole families of functions, and nothing else."""
    exported = exported_symbols()
    # C11's functions are exported with versions that are not the default ("@", not "@@"), so that they replace no
    # functions of other libraries with the same names.
    c11 = {f"{name}@{version}" for name in C11 for version in C11_VERSIONS}
    check("exports_c11_with_versions", c11 <= set(exported), f"missing: {sorted(c11 - set(exported))}")
    exported = [name for name in exported if name not in c11]
    # Names that are exported with a version, for ThreadSanitizer's dlvsym(), must also be exported without one.
    versioned = [name for name in exported if "@" in name and name.split("@")[0] not in exported]
    check("exports_without_version", not versioned, f"with a version only: {versioned}")
    names = {name.split("@")[0] for name in exported}
    known = set()
    for family in FAMILIES:
        whole = names_in_family(family)
        known |= whole
        present = whole & names
        check(f"exports_whole_family/{family}", present == whole, f"missing: {sorted(whole - names)}")
    other = sorted(n for n in names - known if not n.startswith("usher_") and n not in {*COND_VERSIONS, *C11_VERSIONS})
    check("exports_nothing_else", not other, f"also: {other}")
    definitions = set(re.findall(r"Flags: none .*Name: (\S+)", readelf("-V").split("Version needs")[0]))
    of_cond = definitions - set(C11_VERSIONS)
    check("defines_no_other_versions", of_cond <= COND_VERSIONS and len(of_cond) < 2, f"it has version definitions: {definitions}")


def check_properties():
    """Checks the library's headers: whether it can be unloaded, which libraries it needs, the size of its thread-local
    storage."""
    dynamic = readelf("-d")
    check("is_never_unloaded", re.search(r"FLAGS_1.*NODELETE", dynamic), "not linked with -z nodelete")
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    foreign = [n for n in needed if not re.match(r"(libc|ld-linux.*|libdl|libpthread)\.so", n)]
    check("needs_the_c_library_only", not foreign, f"also needs {foreign}")
    tls = re.search(r"^\s+TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", readelf("-l"), re.M)
    size = int(tls[1], 16) if tls else 0
    check("thread_local_storage_is_small", size < 1024, f"{size} bytes of initial-exec storage")


def check_bindings():
    """Checks the loader's log of bindings: no object except libusher.so may be bound to the C library's functions of
    these families."""
    known = set().union(*map(names_in_family, FAMILIES))
    status, out, err = run([BIN / "environment", "--threads", "2"],
                           environment("loiter", [LIB], LD_DEBUG="bindings"), 60)
    bound, missed = 0, []
    for line in err.splitlines():
        match = re.search(r"binding file (\S+) .*to (\S+) \[.*symbol `((?:pthread_(?:mutex|cond)|sem)_\w+)'", line)
        if not match or match[3] not in known or os.path.realpath(match[1]) == os.path.realpath(LIB):
            continue
        if os.path.realpath(match[2]) == os.path.realpath(LIB):
            bound += 1
        else:
            missed.append(f"{match[3]} of {match[1]}")
    check("loader_binds_all_to_library", status == 0 and out and bound > 0 and not missed,
          f"{bound} bound to the library, to the C library: {missed}")


def loaded_at_other_times():
    """Runs three orders of loading: libusher.so late, by dlopen; a library with threads late; and a library that locks
    before the constructor of libusher.so."""
    # The program loads libusher.so by dlopen. The library's thread-local storage must fit into the small space that the
    # loader reserves for such libraries.
    run_cases("load_later", "load_later", environment("loiter"))
    run_cases("load_later_mcs", "load_later", environment("mcs"))

    library = BIN / "liblate_threads_library.so"
    for lock in (None, "steady", "twa", "mcs"):
        expect_output(f"library_brings_threads_{lock}", [BIN / "late_threads", library], environment(lock, [LIB]), "ok\n")

    early = BIN / "libearly_lock.so"
    for lock in ("loiter", "twa", "mcs"):
        for order, preload in (("before", [early, LIB]), ("after", [LIB, early])):
            run_cases(f"constructor_{order}_us_{lock}", "layout", environment(lock, preload),
                      ("--fresh", "--only", "locked_before_our_constructor"))


def symbols():
    check_exports()
    check_properties()
    if (BIN / "bindings").exists():
        run_cases("bindings", "bindings", environment("loiter", [LIB]))
    else:
        say("SKIP", "bindings", "not built for older C libraries")
    run_cases("own_c11", "own_c11", environment("steady", [LIB]))
    check_bindings()
    loaded_at_other_times()


# -- USHER_LOCK --------------------------------------------------------------------------------------------------


def expect_output(name, command, env, stdout, stderr=""):
    status, out, err = run(command, env)
    if status != 0:
        say("FAIL", name, f"ended with {status}: {err.strip()[:200]}")
    elif out != stdout:
        say("FAIL", name, f"stdout is {out!r}, not {stdout!r}")
    elif err != stderr:
        say("FAIL", name, f"stderr is {err!r}")
    else:
        say("PASS", name)


def expect_complaint(name, command, wrong, nearest, preload=None, rounds=1, here=False):
    """`here`: libusher.so is preloaded, whether or not it has the lock."""
    for _ in range(rounds):
        status, out, err = run(command, environment(wrong, preload or [LIB], **({"LD_PRELOAD": LIB} if here else {})))
        lines = err.splitlines()
        if status != 0 or out != "the C library's\n":
            return say("FAIL", name, f"ended with {status} and {out!r}: it should run on the C library's locks")
        if len(lines) != 1 or not err.endswith("\n"):
            return say("FAIL", name, f"{len(lines)} lines on stderr instead of one: {err[:300]!r}")
        if nearest and not re.search(rf"\b{nearest}\b", lines[0]):
            return say("FAIL", name, f"does not name {nearest}: {lines[0]}")
        if nearest == "" and "nearest" in lines[0]:
            return say("FAIL", name, f"names a lock that is not near: {lines[0]}")
        if wrong[:40] not in lines[0]:
            return say("FAIL", name, f"does not repeat the wrong name: {lines[0]}")
    return say("PASS", name)


def all_names():
    names = {lock.name: lock.is_the_c_librarys for lock in catalog.locks() if lock.excludes}
    usher = os.environ.get("USHER_BIN")
    if usher and os.access(usher, os.X_OK):
        status, out, _ = run([usher, "list", "--json"], environment())
        if status == 0:
            for lock in json.loads(out)["locks"]:
                if not lock["excludes"]:
                    continue
                names.setdefault(lock["name"], lock["name"].startswith("pthread"))
    return names


def lock_of_the_other_library(program):
    """libusher.so has exactly the usual locks, and libusher-all.so all of them; each is preloaded here whatever the lock."""
    if pathlib.Path(LIB).name != "libusher.so":
        return
    names = {name for name in all_names() if catalog.library_with(name, LIB) != LIB}
    for lock in sorted(names | {f"{min(names)}-stp"}):
        expect_complaint(f"lock_of_the_other_library/{lock}", program, lock, "libusher-all.so", here=True)
    full = str(pathlib.Path(LIB).with_name("libusher-all.so"))
    for lock in sorted(all_names().keys() - names):
        theirs = "the C library's\n" if lock.startswith("pthread") else "ours\n"
        expect_output(f"in_both_libraries/{lock}", program, environment(lock, [full]), theirs)
    for lock in catalog.read_write_names():
        for library in (LIB, full):
            status, _, err = run(["/bin/true"], environment(None, [library], USHER_RWLOCK=lock, USHER_VERBOSE="1"))
            lines, is_there = err.splitlines(), library == catalog.library_with(lock, library)
            right = len(lines) == (1 if is_there else 2) and (f"read-write locks: {lock} " in lines[-1]) == is_there
            check(f"rwlocks_of_{pathlib.Path(library).name}/{lock}", status == 0 and right and (is_there or f'"{lock}"' in lines[0]), err)


def environment_variable():
    program = [BIN / "environment"]
    busy = [BIN / "environment", "--threads", "8", "--forks", "2"]
    theirs, ours = "the C library's\n", "ours\n"
    expect_output("without_preload", busy, environment(), theirs)
    expect_output("unset_passes_through", busy, environment(None, [LIB]), theirs)
    expect_output("empty_passes_through", busy, environment("", [LIB]), theirs)
    for name, passes_through in all_names().items():
        expect_output(f"selects/{name}", busy, environment(name, [LIB]), theirs if passes_through else ours)
    for name in (lock.name for lock in catalog.locks() if lock.excludes):
        expect_output(f"silent/{name}", ["sh", "-c", 'x=$(echo one; echo two >/dev/null) && echo "[$x]"'],
                      environment(name, [LIB]), "[one]\n")
    # Variables whose names only resemble USHER_LOCK have no effect.
    expect_output("other_variables", program, environment(None, [LIB], USHER_LOCKS="twa", XUSHER_LOCK="twa"), theirs)

    for wrong, nearest in (("lotier", "loiter"), ("twaa", "twa"), ("tickte", "ticket"), ("mcsrc", "mcscr"),
                           ("fair-lock", "fairlock"), ("LOITER", ""), (" twa", "twa"), ("ptread", "pthread"),
                           ("x", ""), ("mutex", None)):
        expect_complaint(f"unknown_name/{wrong.strip()}", program, wrong, nearest)
    expect_complaint("no_lock", program, "null", None)
    lock_of_the_other_library(program)
    expect_complaint("unknown_name/mcss", program, "mcss", "mcs")
    expect_complaint("unknown_name_very_long", program, "twa" * 500, None)
    expect_complaint("unknown_name_racing_threads", [BIN / "environment", "--threads", "32"], "lotier", "loiter",
                     rounds=20)
    expect_complaint("unknown_name_racing_before_main", program, "lotier", "loiter",
                     [LIB, BIN / "libearly_lock.so"], rounds=10)
    expect_complaint("unknown_name_and_forks", [BIN / "environment", "--forks", "5"], "lotier", "loiter")
    for lock, forks in (("twa", "0"), (None, "0"), ("twa", "3")):
        status, out, err = run([BIN / "environment", "--threads", "4", "--forks", forks],
                               environment(lock, [LIB], USHER_VERBOSE="1"))
        check(f"verbose/{lock}_{forks}_forks", status == 0 and err.count("\n") == 1 and "(pid " in err,
              f"ended with {status} and {err!r}")
    # If a message cannot be written, the program must run nevertheless.
    status, out, _ = run(["sh", "-c", f'exec "{BIN / "environment"}" 2>&-'], environment("lotier", [LIB]))
    check("unknown_name_without_stderr", status == 0 and out == theirs, f"ended with {status} and {out!r}")


# -- the programs ------------------------------------------------------------------------------------------------


def heap(lock, label):
    """Preloads libusher.so and an allocator in either order. In each order one of the two is used before its
    constructor has run."""
    for kind in ("counting", "locking"):
        allocator = BIN / f"lib{kind}_allocator.so"
        orders = [("", [allocator])] if lock is None else [("_first", [allocator, LIB]), ("_last", [LIB, allocator])]
        only = {"counting": ["no_allocation_in_any_call"],
                "locking": ["heap_under_one_of_our_locks", "heap_across_fork"]}[kind]
        options = ["--fresh"] + [word for name in only for word in ("--only", name)]
        for order, preload in orders:
            run_cases(f"{label}{kind}_allocator{order}", "allocators", environment(lock, preload), options)


def by_priority(lock):
    """Runs the cases of priorities twice: with real-time priorities, where cases are skipped if the machine permits
    none, and with nice values in their place."""
    only = ("semaphore", "signal_held", "signal_free", "broadcast") + (("mutex",) if lock in SERVE_BY_PRIORITY else ())
    options = ["--fresh"] + [word for name in only for word in ("--only", name)]
    for form in (lock, "loiter-park", "loiter-yield") if lock == "loiter" else (lock,):
        run_cases(f"{form}/priorities", "priorities", environment(form, [LIB]), options)
        run_cases(f"{form}/priorities_faked", "priorities", environment(form, [LIB], USHER_FAKE_PRIORITIES="nice"),
                  options)


def alone(lock):
    """Runs the cases in which a process begins with one thread and then creates more."""
    header = {each.name: each.header for each in catalog.locks()}[lock]
    plain = "auto uncontended()" in (catalog.TREE / "include" / "usher" / "locks" / header).read_text()
    run_cases(f"{lock}/one_thread", "one_thread",
              environment(lock, [LIB], **({"USHER_PLAIN_ALONE": "1"} if plain else {})))
    for rwlock in ("phase-fair", "bravo") if lock == "steady" else ():
        run_cases(f"{rwlock}/one_thread", "one_thread", environment(lock, [LIB], USHER_RWLOCK=rwlock),
                  ["--only", "reading_handler_at_each_instruction", "--only", "too_many_readers"])


def reference():
    for program in ("limits", "nodes", "hand_over", "parked_waiters", "slow_motion", "short_lives", "priorities",
                    "one_thread", "read_write_users", "deep_bind", "locked_in_libc"):
        run_cases(program, program, environment())
    heap(None, "")


def says_once(lock):
    """A mutex was used through Usher, and then locked by the C library. libusher.so handles this correctly if no other
    thread is in a call, and writes one line about it."""
    status, out, err = run([BIN / "locked_in_libc", "--only", "was_used_here_before"], environment(lock, [LIB], USHER_TEST_BOTH="1"))
    check(f"{lock}/locked_in_libc/was_used_here_before", re.search(r"^1 passed, 0 failed, 0 skipped$", out, re.M),
          f"ended with {status}: {out.strip()[:300]}")
    check(f"{lock}/locked_in_libc/says_once", re.fullmatch(r"usher: a mutex .*\n", err), f"stderr: {err.strip()[:300]!r}")


def under_lock(lock):
    run_cases(f"{lock}/layout", "layout", environment(lock, [LIB, BIN / "libearly_lock.so"]))
    for program in ("limits", "hand_over", "slow_motion", "deep_bind", "locked_in_libc"):
        run_cases(f"{lock}/{program}", program, environment(lock, [LIB]))
    says_once(lock)
    if lock == "steady":
        run_cases(f"{lock}/held_before", "locked_in_libc", environment(lock, [LIB], USHER_TEST_STATES="1"),
                  ("--only", "is_held_here_before"))
    run_cases(f"{lock}/clocks", "clocks", environment(lock, [LIB]),
              ("--fresh", "--only", "sleeps_until_the_time_of_its_clock"))
    alone(lock)
    # For these two cases the lock must hand over to threads that have waited long, which only some locks do.
    others = "deadlines_that_pass", "deadlines_that_are_met"
    hands_over = lock.startswith("loiter") and lock not in ("loiter-barging", "loiter-cohort", "loiter-store")
    every = [] if hands_over else [word for name in others for word in ("--only", name)]
    run_cases(f"{lock}/long_waits", "long_waits", environment(lock, [LIB]), ["--fresh", *every])
    if lock in GO_PAST_PARKED:
        run_cases(f"{lock}/parked_waiters", "parked_waiters", environment(lock, [LIB]))
    if lock in NODE_LOCKS:
        run_cases(f"{lock}/nodes", "nodes", environment(lock, [LIB]))
    if lock == "c-bo-mcs":  # a lock that is larger than a mutex
        run_cases(f"{lock}/short_lives", "short_lives", environment(lock, [LIB], USHER_FAKE_NODES="2"),
                  ("--fresh", "--limit", "60"))
    run_cases(f"{lock}/slow_motion_polling", "slow_motion", environment(lock, [LIB], USHER_SPIN_NS="999999999"))
    heap(lock, f"{lock}/")
    if lock in SERVE_BY_PRIORITY | {"mcs", "mcscr", "ticket"}:  # the cases without mutexes are the same under all locks
        by_priority(lock)


def under_rwlock(lock):
    env = environment(None, [LIB], USHER_RWLOCK=lock)
    run_cases(f"{lock}/read_write_users", "read_write_users", env)
    run_cases(f"{lock}/parked_waiters", "parked_waiters", env, ("--fresh", "--only", "others_read_beside_a_parked_reader"))
    run_cases(f"{lock}/locked_in_libc", "locked_in_libc", env, ("--fresh", "--only", "rwlock_is_read", "--only", "rwlock_is_written"))
    run_cases(f"{lock}/sandboxes", "sandboxes", env, ("--fresh", "--only", "reads_without_system_calls"))
    if (BIN / "bindings").exists():
        run_cases(f"{lock}/bindings", "bindings", env, ("--fresh", "--only", "second_names_share_locks"))


def with_notes_elsewhere(library):
    """Returns the bytes of a library whose first header of notes gives an address at which the loader maps nothing. The
    attacker is the author of a library that the program loads."""
    elf = bytearray(pathlib.Path(library).read_bytes())
    at, size, number = *struct.unpack_from("<Q", elf, 32), *struct.unpack_from("<HH", elf, 54)
    for header in range(at, at + size * number, size):
        if struct.unpack_from("<I", elf, header)[0] == 4:  # PT_NOTE
            struct.pack_into("<Q", elf, header + 16, 0x700000000)
            return elf
    return None


def notes_elsewhere():
    elf = with_notes_elsewhere(LIB)
    with tempfile.TemporaryDirectory(prefix="usher-notes-") as folder:
        (pathlib.Path(folder) / "libnotes.so").write_bytes(elf)
        code = f"import ctypes; ctypes.CDLL('{pathlib.Path(LIB).parent}/libusher-locks.so'); print('loaded')"
        status, out, err = run(["/usr/bin/env", "python3", "-c", code], environment(None, [f"{folder}/libnotes.so"]))
        check("notes_that_are_not_mapped", status == 0 and "loaded" in out, f"exit status {status}: {err.strip()[-200:]}")


def shared_objects():
    notes_elsewhere()
    options = ("--fresh", "--limit", "10")  # a lost wake-up hangs; if all cases hang, there must be time to report this
    for program in ("shared_objects", "shared_with_program"):
        run_cases(program, program, environment(), options, 300)
        for lock in ("twa", "mcs"):
            run_cases(f"{program}_under_{lock}", program, environment(lock, [LIB]), options, 300)


def handlers():
    run_cases("handlers", "handlers", environment(), ())


def forks():
    run_cases("forks", "forks", environment())
    run_cases("forks_large_pages", "forks_large_pages", environment())
    status, _, err = run([BIN / "without_wipe"], environment())
    if status != 0:
        return say("SKIP", "without_wipe", f"no system calls can be made to fail here: {err.strip()[:200]}")
    run_cases("without_wipe/forks", "without_wipe", environment(), (BIN / "forks",))
    run_cases("without_wipe/handlers", "without_wipe", environment(),
              (BIN / "handlers", "--only", "handler_forks_and_takes", "--only", "handler_only_forks"))
    for lock in ("loiter", "mcs"):
        env = environment(lock, [LIB])
        for program, *only in FORKS:
            where = BIN if (BIN / program).exists() else CONFORMANCE
            run_cases(f"without_wipe/{lock}/{program}", "without_wipe", env,
                      [where / program] + [word for name in only for word in ("--only", name)])
    return None


def sandboxes():
    run_cases("reference/sandboxes", "sandboxes", environment())
    refused = ("gettid", "getpid", "tgkill", "gettid,getpid,tgkill", "madvise", "membarrier", "rseq", "clone3,rseq,membarrier,madvise",
               "sched_getaffinity,sched_getparam,sched_getscheduler,sched_yield")
    for lock in ("steady", "mcs", "twa"):
        env = environment(lock, [LIB])
        run_cases(f"{lock}/sandboxes", "sandboxes", env)
        if run([BIN / "refuse", "gettid", "/bin/true"], environment())[0] != 0:
            say("SKIP", f"{lock}/refuse", "no system calls can be made to fail here")
            continue
        for calls in refused:
            run_cases(f"{lock}/without_{calls}", "refuse", env,
                      (calls, BIN / "sandboxes", "--fresh", "--only", "threads_are_told_apart", "--only",
                       "threads_exclude_each_other"))


def replaced_functions():
    other = BIN / "libreplaced_functions_library.so"
    for function in ("getpid", "madvise", "mmap", "munmap", "sched_getaffinity", "sched_yield", "sched_getcpu", "clock_gettime",
                     "sigprocmask", "sysconf", "getenv", "syscall"):
        for lock in ("steady", "mcs"):
            for order, preload in (("first", [LIB, other]), ("second", [other, LIB])):
                run_cases(f"{lock}_{order}/{function}", "replaced_functions",
                          environment(lock, preload, USHER_TEST_REPLACED=function), ("--fresh", "--limit", "10"), 20)


def numbers_of_calls():
    """Returns {number: name} of the system calls of this machine."""
    for header in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"):
        if os.path.exists(header):
            text = pathlib.Path(header).read_text()
            return {int(n): name for name, n in re.findall(r"#define __NR_(\w+) (\d+)", text)}
    return {}


def traced(library, program, only, env):
    """Runs a program under a tracer. Returns the numbers of the system calls that the preloaded library makes, the
    lines about stacks that could not be unwound, and the program's output; None if programs may not be traced on this
    machine."""
    options = ["--limit", "100"] + (["--only", only] if only else [])  # a traced case is slow
    status, out, err = run([BIN / "system_calls", library, program, *options], env, 300)
    if status == 77:
        return None
    lines = err.split("\n")
    return {line for line in lines if line.isdigit()}, [line for line in lines if line and not line.isdigit()], out


def system_calls():
    """Checks that docs/production.md names every system call that the library makes."""
    page = (catalog.TREE / "docs" / "production.md").read_text()
    listed = set(re.findall(r"`(\w+)`", re.search(r"- A filter of system calls.*?(?=\n- |\n\n)", page, re.S)[0]))
    names, seen = numbers_of_calls(), set()
    # Two libraries with known calls test the tracer itself. The first starts a thread, through several functions of the
    # C library. The second only calls mmap.
    for library, made in (("early_lock", {"mmap", "clone3"}), ("locking_allocator", {"mmap"})):
        control = traced(BIN / f"lib{library}.so", BIN / "limits", "ordinary_work", environment())
        if control is None or not names:
            return say("SKIP", "system_calls", "may not trace a program here")
        found = {names.get(int(number), number) for number in control[0]} | set(control[1])
        found = {"clone3" if name == "clone" else name for name in found}  # before glibc 2.34
        right = found == made if library == "locking_allocator" else found >= made
        check(f"calls_of_{library}", right, f"{sorted(found)}, not {sorted(made)}")
    for lock, program, only in (("steady", CONFORMANCE / "semaphores", ""), ("mcs", CONFORMANCE / "semaphores", ""),
                                ("steady", BIN / "limits", "a_thousand_threads_in_one_queue"),
                                ("steady", BIN / "clocks", "sleeps_until_the_time_of_its_clock"),
                                ("mcs", BIN / "limits", "ordinary_work")):
        numbers, others, out = traced(catalog.library_with(lock, LIB), program, only, environment(lock))
        failed = re.findall(r"^FAIL .*", out, re.M)
        check(f"{lock}/{program.name}_traced", re.search(r" 0 failed", out), f"fails under the tracer: {failed or out[-200:]}")
        check(f"{lock}/{program.name}_unwound", not others, f"stacks were not unwound: {others}")
        seen |= {names.get(int(number), number) for number in numbers}
    seen -= {"restart_syscall"}  # the kernel makes this call itself, to continue a futex call
    check("finds_system_calls", {"futex", "mmap", "madvise", "membarrier"} <= seen, f"only {sorted(seen)}")
    check("all_are_in_the_documentation", seen <= listed, f"docs/production.md lacks {sorted(seen - listed)}")
    return None


def lost_wakeup():
    status, out, err = run([BIN / "lost_wakeup", "--limit", "80"], environment(), 100)
    outcomes = [match.groups() for match in map(RESULT.match, out.splitlines()) if match]
    lost = [why for outcome, _, why in outcomes if outcome == "FAIL" and "woke neither" in why]
    unexpected = [why for outcome, _, why in outcomes if outcome != "PASS" and why not in lost]
    banner = re.search(r"\((.*)\)", run(["ldd", "--version"], environment())[1].partition("\n")[0])
    version = banner[1] if banner else "this C library"
    name = "c_library_loses_a_signal"
    if any(outcome == "SKIP" for outcome, *_ in outcomes):
        say("SKIP", name, unexpected[0])
    elif unexpected or not outcomes:
        say("FAIL", name, f"ended with {status}: {unexpected or err.strip()[:200]}")
    elif lost or version in LOSE_SIGNALS:
        check(name, lost, f"{version} lost none")
        print(*(f"    {why}" for why in lost), sep="\n")
    else:
        say("SKIP", name, f"{version} loses none")
    run_cases("steady/lost_wakeup", "lost_wakeup", environment("steady", [LIB]), ("--limit", "80"))


def clock_steps():
    options = ("--fresh", "--only", "a_step_of_the_clock_ends_the_wait")
    run_cases("reference/clocks", "clocks", environment(USHER_SET_CLOCK="1"), options)
    for lock in ("steady", "mcs"):
        run_cases(f"{lock}/clocks", "clocks", environment(lock, [LIB], USHER_SET_CLOCK="1"), options)


def main():
    arguments = sys.argv[1:]
    groups = {"reference": reference, "symbols": symbols, "environment": environment_variable,
              "shared_objects": shared_objects, "handlers": handlers, "forks": forks, "sandboxes": sandboxes,
              "replaced_functions": replaced_functions,
              "system_calls": system_calls, "lost_wakeup": lost_wakeup, "clock_steps": clock_steps}
    if len(arguments) == 1 and arguments[0] in groups:
        body = groups[arguments[0]]
    elif len(arguments) == 2 and arguments[0] in ("lock", "rwlock"):
        under = {"lock": under_lock, "rwlock": under_rwlock}[arguments[0]]
        body = lambda: under(arguments[1])  # noqa: E731
    else:
        sys.exit(__doc__)
    if arguments[0] != "reference" and not os.access(LIB, os.R_OK):
        sys.exit("USHER_LIB must name libusher.so")
    body()
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] or not counts["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
