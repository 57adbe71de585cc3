#!/usr/bin/env python3
"""The compiler must refuse, with one line, a type that lacks a part of a contract. For every requirement of a platform,
a way of waiting and a lock, and for every ability that only some platforms have, a small source lacks this one part,
and each compiler's first error must name the part. Furthermore, every header must refuse an older language standard in
its first error, and must cause no warning, whatever warnings an embedding project asks for.
"""

import argparse
import concurrent.futures
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE / "tools"))
import catalog  # noqa: E402

PLATFORM = '#include "least.hpp"\ntemplate <usher::platform P> struct user {};\nuser<least::platform> u;\n'
WAITING = '#include "least.hpp"\nstatic_assert(usher::way_to_wait<least::waits>);\n'
MUTEX = '#include "least.hpp"\n#include "usher/mutex.hpp"\nusher::mutex<least::own> m;\n'
CATALOGUE = """#include "least.hpp"
#include "library/catalog/compile.hpp"
namespace usher {
template <class P, class W> using the_lock = least::own<P, W>;
constexpr family_names names{"least"};
constexpr auto f = make_family<the_lock, lock_table>([]<class L>(waiting_kind k) { return make_lock_table<L>(names, k); });
}
"""
SIMULATED = """#include "least.hpp"
#include "lab/sim/simulated_family.hpp"
namespace usher {
template <class P, class W> using the_lock = least::own<P, W>;
constexpr family_names names{"least"};
constexpr auto f = sim::make_simulated_family<the_lock>(names);
}
"""


def needs(header, code):
    return f'#include "least.hpp"\n#include "usher/{header}"\n{code}\n'


LEAST = "least::platform, usher::waiting<least::platform, usher::waiting_kind::park>"
# For each part that is left out: the source to compile, and the text of the first error.
CASES = {
    "ATOMIC": (PLATFORM, "a platform needs atomic<T>"),
    "FETCH_XOR": (PLATFORM, "a platform needs atomic<T>"),
    "PLAIN": (PLATFORM, "a platform needs plain<T>"),
    "POLLING": (PLATFORM, "a platform needs await(word, pred, order, pacing::polling)"),
    "POLLING_WITHIN": (PLATFORM, "a platform needs await(word, pred, order, pacing::polling.within(ns))"),
    "YIELDING_WITHIN": (PLATFORM, "a platform needs await(word, pred, order, pacing::yielding.within(ns))"),
    "POLLING_THEN_YIELDING": (PLATFORM, "a platform needs await(word, pred, order, pacing::polling_then_yielding)"),
    "SLEEPING": (PLATFORM, "a platform needs await(word, pred, order, pacing::sleeping(ns))"),
    "MONITORING_WITHIN": (PLATFORM, "a platform needs await(word, pred, order, pacing::monitoring.within(ns))"),
    "BACKOFF": (PLATFORM, "a platform needs backoff(ns)"),
    "PARK": (PLATFORM, "a platform needs park(word, value, mask)"),
    "WIDE_PARK": (PLATFORM, "a platform needs park(word, value, mask), for words of 32 and of 64 bits"),
    "PARK_FOR": (PLATFORM, "a platform needs park_for(word, value, mask, ns)"),
    "NAP": (PLATFORM, "a platform needs nap(word, value, mask, ns, bits)"),
    "KEY_OF": (PLATFORM, "a platform needs key_of(word)"),
    "WAKE": (PLATFORM, "a platform needs wake(key, mask, n)"),
    "TAKE_NODE": (PLATFORM, "a platform needs take_node()"),
    "GIVE_NODE": (PLATFORM, "a platform needs give_node(handle)"),
    "CACHED_NODE": (PLATFORM, "a platform needs cached_node()"),
    "CACHE_NODE": (PLATFORM, "a platform needs cache_node(handle)"),
    "NODE": (PLATFORM, "a platform needs node(handle)"),
    "THREAD_INDEX": (PLATFORM, "a platform needs thread_index()"),
    "NUMA_NODE": (PLATFORM, "a platform needs numa_node()"),
    "MOST_NUMA_NODES": (PLATFORM, "a platform needs the constant most_numa_nodes"),
    "CPUS": (PLATFORM, "a platform needs cpus()"),
    "SALT": (PLATFORM, "a platform needs salt(lock)"),
    "RANDOM": (PLATFORM, "a platform needs random()"),
    "BERNOULLI": (PLATFORM, "a platform needs bernoulli(n)"),
    "NOW": (PLATFORM, "a platform needs now()"),
    "FORK_EPOCH": (PLATFORM, "a platform needs fork_epoch()"),
    "COUNT_LIMIT": (PLATFORM, "a platform needs count_limit(n)"),
    "LIMITS": (PLATFORM, "a platform needs limits()"),
    "DOORWAY": (PLATFORM, "a platform needs doorway(lock)"),
    "ADMITTED": (PLATFORM, "a platform needs admitted(lock)"),

    "TABLES": (needs("locks/twa.hpp", f"usher::twa<{LEAST}> l;"), "this needs a platform with tables"),
    "INFLATION": (needs("core/inflatable.hpp", f"usher::inflatable<{LEAST}, least::own<{LEAST}>> l;"),
                  "this needs a platform with inflation"),
    "PRIORITIES": (needs("locks/loiter.hpp", f"usher::loiter<{LEAST}> l;"), "this needs a platform with priorities"),
    "STACK_OBJECTS": (needs("core/condition_core.hpp", "usher::basic_condition_variable<least::platform> c;"),
                      "this needs a platform with stack objects"),
    "ASYMMETRIC_FENCES": (needs("core/timed_waiters.hpp", "usher::timed_waiter_count<least::platform> g;"),
                          "this needs a platform with asymmetric fences"),
    "OWNER_TAGS": (needs("core/wait_morphing.hpp", "usher::requeue_mutex<least::platform, int> m;"),
                   "this needs a platform with owner tags"),

    "KIND": (WAITING, "a way of waiting needs the constant waiting_kind kind"),
    "PARKS": (WAITING, "a way of waiting needs the constant bool parks"),
    "POLL": (WAITING, "a way of waiting needs poll(word, pred)"),
    "AWAIT_SOON": (WAITING, "a way of waiting needs await_soon(word, pred)"),
    "SPIN_BUDGET": (WAITING, "a way of waiting needs spin_budget()"),

    "TRAITS": (MUTEX, "a lock needs static constexpr lock_traits traits"),
    "LOCK": (MUTEX, "a lock needs void lock()"),
    "TRY_LOCK": (MUTEX, "a lock needs bool try_lock()"),
    "UNLOCK": (MUTEX, "a lock needs void unlock()"),
    "CONSTEXPR_CONSTRUCTOR": (MUTEX, "a lock needs a constexpr default constructor"),
    "TRIVIAL_DESTRUCTOR": (MUTEX, "it needs a trivial destructor"),
    # A lock whose unlock() accesses the lock after the hand-over.
    "LAST_ACCESS": (MUTEX, "unlock() of this lock accesses it after the hand-over"),
}
# Cases in which the catalogue or the simulator uses the incomplete lock.
ELSEWHERE = {
    ("catalogue", "LAST_ACCESS"): CATALOGUE, ("catalogue", "TRAITS"): CATALOGUE, ("catalogue", "TRY_LOCK"): CATALOGUE, ("catalogue", "TRIVIAL_DESTRUCTOR"): CATALOGUE,
    ("simulator", "UNLOCK"): SIMULATED, ("simulator", "TRAITS"): SIMULATED,
}
FOR_ALL_COMPILERS = ("ATOMIC", "FETCH_XOR", "POLLING", "WIDE_PARK", "NODE", "NOW", "TABLES", "INFLATION", "PRIORITIES", "STACK_OBJECTS",
                     "ASYMMETRIC_FENCES", "OWNER_TAGS", "POLL", "TRAITS", "UNLOCK", "CONSTEXPR_CONSTRUCTOR", "TRIVIAL_DESTRUCTOR")
# The warnings that an embedding project may ask for. Only clang needs this test, since g++ checks templates only when
# it instantiates them: library/catalog is compiled with -Wsign-conversion, and the install test checks all headers.
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wsign-conversion", "-Werror"]
EMBEDS = """
#include <mutex>
#include "usher/condition_variable.hpp"
#include "usher/mutex.hpp"
#include "usher/semaphore.hpp"
#include "usher/usher.h"
template <template <class, class> class Lock>
void use() {
  static usher::mutex<Lock> m;
  static usher::timed_mutex<Lock> t;
  static usher::condition_variable c;
  std::unique_lock lock(m);
  c.wait_for(lock, std::chrono::seconds(1), [] { return true; });
  std::unique_lock timed(t, std::chrono::seconds(1));
  c.wait(timed);
}
"""


def embeds():
    """Returns a source that uses all locks of the catalogue except those for measurements only, and the other waiting types."""
    locks = [lock for lock in catalog.locks(TREE) if lock.excludes and not lock.is_the_c_librarys]
    uses = "".join(f"template <class P, class W> using lock_{i} = usher::{lock.type}<P, W>;\n" for i, lock in enumerate(locks))
    calls = "".join(f"  use<lock_{i}>();\n" for i in range(len(locks)))
    headers = "".join(f'#include "{path.relative_to(TREE / "include")}"\n' for path in sorted((TREE / "include").rglob("*.hpp")))
    return f"{EMBEDS}{headers}{uses}int main() {{\n{calls}  usher::semaphore s(1);\n  s.acquire();\n  s.release();\n}}\n"


DIAGNOSTIC = re.compile(r"\b(?:fatal )?error: (.*)")


def first_error(compiler, source, *options):
    """Returns the compiler's first error without its place, or None if there is no error."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(source)
        file.flush()
        done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", f"-I{HERE}", f"-I{TREE}/include", f"-I{TREE}",
                               *options, file.name], capture_output=True, text=True, timeout=300)
    found = DIAGNOSTIC.search(done.stderr)
    return found.group(1) if found else None if done.returncode == 0 else done.stderr


def precompiled(compiler, folder):
    """Returns options for the compiler by which the contracts' headers are precompiled, since they are most of its work
    for a small source. None of these headers reads the macros of least.hpp."""
    header = folder / "contracts.hpp"
    header.write_text("".join(f'#include "usher/core/{name}.hpp"\n' for name in ("lockable", "node", "waiting")))
    clang = "clang" in Path(compiler).name
    output = folder / ("contracts.pch" if clang else "contracts.hpp.gch")
    done = subprocess.run([compiler, "-std=c++20", f"-I{TREE}/include", "-x", "c++-header", header, "-o", output], timeout=300,
                          capture_output=True)
    return [] if done.returncode != 0 else ["-include-pch", str(output)] if clang else ["-include", str(header)]


def cases_of(compiler, number, headers):
    """Yields (name, the required error or None, the arguments of first_error). `headers` is the result of precompiled()."""
    name = Path(compiler).name
    # Both compilers check the same assertions. With the second compiler only some cases run, which show how it words an
    # error and which error it reports first.
    some = CASES if number == 0 else {n: case for n, case in CASES.items() if n in FOR_ALL_COMPILERS}
    for what, source in {"platform": PLATFORM, "waiting": WAITING, "mutex": MUTEX, "catalogue": CATALOGUE,
                         "simulator": SIMULATED, **{n.lower(): s for n, (s, _) in some.items()
                                                    if s not in (PLATFORM, WAITING, MUTEX)}}.items():
        yield f"{name} complete/{what}", None, (compiler, source, *headers)
    for missing, (source, words) in some.items():
        yield f"{name} without/{missing}", words, (compiler, source, f"-DWITHOUT_{missing}", *headers)
    for (place, missing), source in ELSEWHERE.items() if number == 0 else ():
        yield f"{name} {place} without/{missing}", CASES[missing][1], (compiler, source, f"-DWITHOUT_{missing}", *headers)
    # A lock whose header is not included. The header of the mutex always includes the default lock's.
    yield (f"{name} header/without", "mcs", (compiler, '#include "usher/mutex.hpp"\nusher::mutex<usher::mcs> m;\n'))
    yield f"{name} header/default", None, (compiler, '#include "usher/mutex.hpp"\nusher::mutex<usher::steady> m;\n')
    # A lock whose waiters are named by addresses, in memory that other processes map at other addresses.
    for lock, header in (("k42_stack", "k42_stack"), ("lifo_cr_stack", "lifo")):
        yield (f"{name} shared memory/{lock}", "this needs a platform with stack objects",
               (compiler, f'#include "usher/locks/{header}.hpp"\n#include "usher/shared_memory.hpp"\nusher::shared_mutex_in<usher::{lock}> m;\n'))
    if "clang" in name:
        # not precompiled: a precompiled header causes no warnings
        yield f"{name} strict", None, (compiler, embeds(), *STRICT)
    few = "-ferror-limit=1" if "clang" in name else "-fmax-errors=1"
    for header in sorted((TREE / "include").rglob("*.hpp")):
        header = header.relative_to(TREE / "include")
        if number != 0 and "locks" in header.parts:
            continue  # each of these headers begins with a part of core/
        yield (f"{name} c++17/{header}", '"Usher needs C++20: ' if "clang" not in name else "Usher needs C++20: ",
               (compiler, f'#include "{header}"\n', "-std=c++17", few))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compilers", nargs="+")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="usher-contract-") as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        tests = []
        for number, compiler in enumerate(options.compilers):
            folder = Path(temporary, str(number))
            folder.mkdir()
            tests += cases_of(compiler, number, precompiled(compiler, folder))
        for (name, wanted, _), said in zip(tests, pool.map(lambda t: first_error(*t[2]), tests)):
            if said is not None if wanted is None else said is None or wanted not in said:
                failed += 1
                print(f"FAIL {name}: {said!r} instead of {wanted!r}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
