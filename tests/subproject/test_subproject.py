#!/usr/bin/env python3
"""Tests a project that gets this tree by FetchContent. By default it gets only the headers, and Usher searches only for
threads. It gets both libraries if it asks for them. None of its own settings may change. Also tests the messages about
missing packages when Usher is built by itself.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "install"))
from test_install import check, failures, must, run

LOOKS = {"find_package", "find_path", "find_library", "find_program", "find_file", "pkg_check_modules", "pkg_search_module"}
PACKAGES = ["CLI11", "fmt", "nlohmann_json", "PkgConfig", "ZLIB", "Boost", "GTest", "Python3", "SQLite3", "TBB"]
ABSENT = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{p}=ON" for p in PACKAGES]


def expect(what, ok, why=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {why}")


def looked_for(trace, tree):
    """Returns the packages for which Usher's own CMake files search."""
    found = []
    for line in trace.read_text().splitlines():
        step = json.loads(line)
        if step.get("cmd", "").lower() in LOOKS and Path(step["file"]).is_relative_to(tree):
            found.append(step["args"][0])
    return found


def configure(options, folder, env, *more):
    """Configures the parent project, and traces the executed CMake commands."""
    must([options.cmake, "-S", HERE / "parent", "-B", folder, "-G", options.generator, f"-DUSHER_TREE={options.tree}",
          f"-DCONSUMER={HERE.parent / 'install' / 'consumer'}", f"-DCMAKE_C_COMPILER={options.cc}",
          f"-DCMAKE_CXX_COMPILER={options.cxx}", "--trace-expand", "--trace-format=json-v1",
          f"--trace-redirect={folder}.trace", *ABSENT, *more], 60, env=env)
    before, after = ((folder / name).read_text() for name in ("before.txt", "after.txt"))
    expect("nothing of the parent is changed", before == after and "CMAKE_BUILD_TYPE=;" in after, before + after)
    # the header with the macros of static probes
    wanted = ["Threads"] + (["SDT_INCLUDE"] if "-DUSHER_BUILD_LIBRARIES=ON" in more else [])
    found = looked_for(Path(f"{folder}.trace"), options.tree)
    expect(f"only {', '.join(wanted)} looked for", found == wanted, found)
    for name in ("compile_commands.json", "DartConfiguration.tcl"):
        expect(f"no {name}", not (folder / name).exists(), "was made")


def headers_only(options, folder, env):
    configure(options, folder, env)
    targets = (folder / "targets.txt").read_text().strip().split(";")
    expect("the only targets are the headers and the warnings", sorted(targets) == ["usher_headers", "usher_warnings"], targets)
    must([options.cmake, "--build", folder], 120, env=env)
    check("the headers: runs", run([folder / "programs" / "embeds"], 20, env))
    check("the parent's flags are its own", run([folder / "programs" / "careless"], 20, env))
    check("the parent's tests are its own", run(["ctest", "-N"], 20, env, folder), lambda out: "Total Tests: 1\n" in out)
    must([options.cmake, "--install", folder, "--prefix", f"{folder}-installed"], 20, env=env)
    expect("nothing is installed", not list(Path(f"{folder}-installed").rglob("*")), "something is")


def both_libraries(options, folder, env):
    configure(options, folder, env, "-DUSHER_BUILD_LIBRARIES=ON", "-DUSHER_LOCKS=steady;twa")
    must([options.cmake, "--build", folder, "-j", "2"], 200, env=env)
    programs = folder / "programs"
    for program in ("embeds", "by_name", "c_consumer", "careless"):
        check(f"both libraries: {program} runs", run([programs / program], 20, env))
    library = (folder / "preload.txt").read_text().strip()
    check("usher::preload under a program", run([programs / "embeds"], 20, env | {"LD_PRELOAD": library, "USHER_LOCK": "twa"}))


def the_example(options, folder, env):
    """Builds the example project of FetchContent, with this tree in place of the repository."""
    source = options.tree / "examples" / "fetch_content"
    common = [options.cmake, "-S", source, "-G", options.generator, f"-DCMAKE_CXX_COMPILER={options.cxx}", "-DCMAKE_BUILD_TYPE=Debug"]
    must([*common, "-B", folder, f"-DFETCHCONTENT_SOURCE_DIR_USHER={options.tree}"], 60, env=env)
    must([options.cmake, "--build", folder], 120, env=env)
    check("examples/fetch_content runs", run([folder / "fetched"], 20, env))
    done = run([*common, "-B", f"{folder}-nowhere"], 60, env)
    expect("examples/fetch_content asks where Usher is", done.returncode != 0 and "Where is Usher?" in done.stderr, done.stderr)


def what_is_missing(options, folder, env):
    """Configures Usher by itself in several ways, mostly with packages or components missing. Nothing is built."""
    def usher(name, *more):
        return run([options.cmake, "-S", options.tree, "-B", folder / name, "-G", options.generator,
                    f"-DCMAKE_C_COMPILER={options.cc}", f"-DCMAKE_CXX_COMPILER={options.cxx}", "-DUSHER_LOCKS=steady", *more],
                   60, env)

    done = usher("missing", "-DBUILD_TESTING=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON",
                 "-DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_re2=ON", "-DRE2_INCLUDE=")
    lines = [line for line in done.stderr.splitlines() if line.startswith("Usher: ")]
    wanted = [("CLI11", "apt-get install libcli11-dev", "-DUSHER_BUILD_COMMAND=OFF"),
              ("RE2", "apt-get install libre2-dev", "-DUSHER_BUILD_COMMAND=OFF"),
              ("zlib", "apt-get install zlib1g-dev", "-DUSHER_BUILD_STAT=OFF"),
              ("Boost.Context", "apt-get install libboost-context-dev", "-DUSHER_BUILD_SIMULATOR=OFF")]
    expect("a line for each package that is missing",
           done.returncode != 0 and len(lines) == len(wanted) and all(all(w in line for w in ws) for ws, line in zip(wanted, lines)),
           done.stderr)
    done = usher("contrary", "-DUSHER_BUILD_COMMAND=OFF", "-DUSHER_BUILD_SIMULATOR=ON")
    expect("an enabled component that needs a disabled one is an error", done.returncode != 0 and
           "Usher: USHER_BUILD_SIMULATOR=ON needs USHER_BUILD_COMMAND=ON\n" in done.stderr, done.stderr)
    done = usher("checker", "-DBUILD_TESTING=OFF", "-DUSHER_BUILD_CHECKER=ON", *(f"-DUSHER_BUILD_{c}=OFF" for c in
                 ("SIMULATOR", "STAT", "EXAMPLES")))
    check("the checker can be built without tests", done)
    if options.generator == "Ninja":
        for part, what in (("all", "check/all"), ("check/all", "check/engine/all"), ("check/engine/all", "bin/usher_check")):
            check(f"the target all contains the checker: {what}",
                  run([options.cmake, "--build", folder / "checker", "--", "-t", "query", part], 20, env),
                  lambda out, what=what: f" {what}\n" in out)
    check("library and command need neither elfutils nor Boost",
          usher("small", "-DUSHER_BUILD_SIMULATOR=OFF", "-DUSHER_BUILD_STAT=OFF", "-DBUILD_TESTING=OFF",
                "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON"))
    check("the libraries need no package but sys/sdt.h", usher("libraries", "-DUSHER_BUILD_COMMAND=OFF", *ABSENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    options.tree = options.tree.resolve()
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k not in ("LD_PRELOAD", "DESTDIR")}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="usher-subproject-") as temporary:
        folder = Path(temporary).resolve()
        headers_only(options, folder / "headers", env)
        both_libraries(options, folder / "libraries", env)
        the_example(options, folder / "example", env)
        what_is_missing(options, folder / "alone", env)
    print(f"{len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
