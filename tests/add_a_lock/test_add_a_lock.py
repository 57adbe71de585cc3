#!/usr/bin/env python3
"""Adds the example lock of CONTRIBUTING.md to a copy of the tree, by its header and its line in the catalogue and nothing
else, and the example way of waiting, by its line in the table and nothing else. Builds libusher-all.so, the catalogue that
`usher list` prints, and the simulated locks in the copy. All forms of the lock must be in both, also in the new way of waiting, and so
must that form of an old lock. A program runs under each. (The command is not built: it takes a minute and contains no code of locks.)"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import catalog  # noqa: E402


def run(command, limit, **more):
    """Returns the command's standard output, or ends the test if it fails. The command and its children are killed at the limit."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True, **more)
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, _ = process.communicate()
        sys.exit(f"{out}\nadd_a_lock: killed after {limit} s: {' '.join(command)}")
    if process.returncode != 0:
        sys.exit(f"{out}\nadd_a_lock: exit status {process.returncode}: {' '.join(command)}")
    return out


def example(contributing):
    """Returns the header's path, its text, and the catalogue's line from CONTRIBUTING.md."""
    header = re.search(r"<!-- add-a-lock: header (\S+) -->\n```cpp\n(.*?)^```$", contributing, re.M | re.S)
    line = re.search(r"<!-- add-a-lock: line -->\n```\n(.*?\n)```$", contributing, re.M | re.S)
    if header is None or line is None:
        sys.exit("add_a_lock: CONTRIBUTING.md no longer has the example where this test looks for it")
    return header.group(1), header.group(2), line.group(1)


def example_way(contributing):
    """Returns the line for the table of the ways of waiting from CONTRIBUTING.md."""
    line = re.search(r"<!-- add-a-way: line -->\n```cpp\n(.*?\n)```$", contributing, re.M | re.S)
    if line is None:
        sys.exit("add_a_lock: CONTRIBUTING.md no longer has the example of a way of waiting where this test looks for it")
    return line.group(1)


def add_way(tree, line):
    """Adds the line to the end of the table."""
    path = tree / catalog.WAYS
    last = catalog.ways(tree)[-1].kind
    text, times = re.subn(rf"^  way\({last},.*\n", lambda found: found.group(0) + line, path.read_text(), flags=re.M)
    if times != 1:
        sys.exit(f"add_a_lock: {path} has {times} lines of {last}")
    path.write_text(text)


def copy_tree(tree, to):
    """Copies the files that git tracks, and untracked files that git does not ignore."""
    try:
        names = subprocess.run(["git", "-C", tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               check=True, capture_output=True, timeout=150).stdout.decode().split("\0")
        names = [n for n in names if n]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        names = [str(f.relative_to(tree)) for f in Path(tree).rglob("*")
                 if f.is_file() and f.relative_to(tree).parts[0] not in ("build", ".git")]
    for name in names:
        source = Path(tree, name)
        if source.is_file():  # git still lists a file that was deleted
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", default=HERE.parent.parent)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    start = time.monotonic()

    with tempfile.TemporaryDirectory(prefix="usher-add-a-lock-") as temporary:
        tree, build = Path(temporary, "tree"), Path(temporary, "build")
        copy_tree(options.tree, tree)
        path, text, line = example((tree / "CONTRIBUTING.md").read_text())
        name = line.split()[0]
        (tree / path).write_text(text)
        with open(tree / catalog.LIST, "a") as list_of_locks:
            list_of_locks.write(line)
        ways_before = catalog.ways(tree)
        add_way(tree, example_way((tree / "CONTRIBUTING.md").read_text()))
        ways = catalog.ways(tree)
        (new_way,) = ways[len(ways_before):]

        run([options.cmake, "-S", tree, "-B", build, "-G", options.generator, "-DCMAKE_BUILD_TYPE=Debug",
             "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DBUILD_TESTING=OFF",
             f"-DUSHER_LOCKS={name};loiter",  # the other locks take minutes and are not needed here
             f"-DCMAKE_C_COMPILER={options.cc}", f"-DCMAKE_CXX_COMPILER={options.cxx}"], 60, env=env)
        # A lock without a section in docs/locks.md: `usher list` names its header and does not refer to that page.
        facts = (build / "support" / "lock_facts.cpp").read_text()
        for lock, header, has_section in ((name, Path(path).name, "false"), ("loiter", "loiter.hpp", "true")):
            if not re.search(rf'{{"{lock}", "[^"]*", "{header}", (?:true|false), {has_section},', facts):
                sys.exit(f"add_a_lock: {lock}: header or section is wrong in {facts}")

        run([options.cmake, "--build", build, "-j", "2", "--target", "usher_catalog", "usher_sim", "usher_preload_all"], 300, env=env)
        print(f"built after {time.monotonic() - start:.0f} s", flush=True)

        lister = Path(temporary, "list_locks")
        run([options.cxx, "-std=c++20", "-I", tree, "-I", tree / "include", HERE / "list_locks.cpp", "-L", build / "lib",
             "-lusher_sim", "-lusher_programs", "-lusher_locks", "-lboost_context", "-pthread", "-o", lister], 60, env=env)
        listed = [tuple(line.split()) for line in run([lister], 20, env=env).splitlines()]
        forms = [name + way.suffix for way in ways if way.usual]
        if name + new_way.suffix not in forms:
            sys.exit(f"add_a_lock: the example {new_way} does not exist for every lock")
        wanted = [(platform, form, "4") for platform in ("native", "simulated") for form in forms]
        wanted += [(platform, f"loiter{new_way.suffix}", size) for platform, lock, size in listed if lock == "loiter"]
        for lock in wanted:
            if lock not in listed:
                sys.exit(f"add_a_lock: the catalogue has no {' '.join(lock)}, but {listed}")

        program = Path(temporary, "uses_mutexes")
        run([options.cc, "-O1", "-Wall", "-Wextra", "-pthread", HERE / "uses_mutexes.c", "-o", program], 60, env=env)
        for form in forms + [f"loiter{new_way.suffix}"]:
            rounds = 200 if form.endswith("-spin") else 5000
            under = {"LD_PRELOAD": str(build / "lib" / "libusher-all.so"), "USHER_LOCK": form}
            run([program, rounds], 30, env=env | under)
            print(f"ok    {form}", flush=True)
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
