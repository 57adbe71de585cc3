#!/usr/bin/env python3
"""Installs the build into a temporary prefix, moves the prefix, and uses it as an embedder or a user does: a C++
project that finds it by CMake, a C program that finds it by pkg-config, the command usher, and an executable with
plugins that all embed locks, for every pair of the installed compilers.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONSUMER = HERE / "consumer"

failures = []


def run(command, limit, env=None, cwd=None):
    """Returns the finished process. The process and its children are killed at the limit."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=env, cwd=cwd, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        err += f"\nkilled after {limit} s"
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def must(command, limit, **more):
    """Runs a step that the tests need, and ends the program if it fails."""
    done = run(command, limit, **more)
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).stem}: failed ({done.returncode}): {' '.join(done.args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(what, done, expected=None):
    ok = done.returncode == 0 and (expected is None or expected(done.stdout))
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {' '.join(done.args)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def everything_in_place(prefix, libdir):
    files = ["bin/usher", f"{libdir}/libusher.so", f"{libdir}/libusher-all.so", f"{libdir}/libusher-stat.so", f"{libdir}/libusher_locks.a",
             f"{libdir}/pkgconfig/usher.pc",
             f"{libdir}/libusher-locks.so", f"{libdir}/libusher-locks.so.0", f"{libdir}/pkgconfig/usher-locks.pc",
             "share/man/man1/usher.1", "include/usher/version.h",
             *(f"share/doc/usher/{page}" for page in ("README.md", "CHANGELOG.md", "LICENSE", "docs/locks.md", "examples/accounts.c")),
             "include/usher/usher.h", "include/usher/mutex.hpp", "include/usher/locks/twa.hpp",
             "share/usher/machines/x5-2.toml",
             f"{libdir}/cmake/usher/usher-config.cmake", f"{libdir}/cmake/usher/usher-config-version.cmake"]
    missing = [f for f in files if not (prefix / f).is_file()]
    strangers = [str(f.relative_to(prefix)) for f in (prefix / "include").rglob("*")
                 if f.is_file() and f.suffix not in (".h", ".hpp")]
    for f in missing + strangers:
        failures.append(f)
        print(f"FAIL  {f}: {'missing' if f in missing else 'not a header'}")


def links_resolve(prefix):
    """Checks the links of the installed pages, and that no page of the laboratory is installed."""
    folder = prefix / "share/doc/usher"
    links = 0
    for page in folder.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if not re.match(r"[a-z]+:", target):
                links += 1
                if not (page.parent / target).exists():
                    failures.append(f"{page.relative_to(folder)}: {target}")
                    print(f"FAIL  {page.relative_to(folder)}: its link to {target} has no target")
    if links < 50:
        failures.append("links")
        print(f"FAIL  {links} links in the installed pages are too few")
    for part in ("lab", "results", "docs/measurements"):
        if (folder / part).exists():
            failures.append(part)
            print(f"FAIL  {part} is installed")


def refused(what, done, *words):
    """Checks that the command prints one line, which names the missing part, and nothing else."""
    ok = (done.returncode == 125 and done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("usher: ") and
          all(word in done.stderr for word in words))
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {' '.join(done.args)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def components(prefix, folder, env):
    """Checks that the command finds the helper programs of single subcommands in the moved tree, and reports missing
    ones."""
    usher, svg = prefix / "bin" / "usher", folder / "curves.svg"
    simulator = prefix / "libexec" / "usher" / "usher_bench"
    recorder = prefix / "libexec" / "usher" / "usher_stat"
    check("usher needs no library that reads debug information, and no fibers",
          run(["readelf", "--dynamic", usher], 20, env),
          lambda out: "NEEDED" in out and not any(library in out for library in ("libdw", "boost")))
    if recorder.exists():
        check("usher stat finds its executable", run([usher, "stat", "--help"], 20, env), lambda out: "usher stat" in out)
        recorder.unlink()
    refused("no usher_stat: usher stat reports it", run([usher, "stat", "--", "true"], 20, env),
            "usher_stat", "has not been built, or not installed")
    sim = [usher, "sim", "mutexbench", "--threads", "1,2", "--seeds", "1", "--ms", "0.05", "--locks", "ticket-spin", "--quiet"]
    tried = [usher, "try", "--locks", "ticket", "--rounds", "1", "--quiet", "--json", "-", "--", "true"]
    if simulator.exists():
        check("usher sim --list finds the machines", run([usher, "sim", "--list"], 20, env), lambda out: "x5-2" in out)
        check("usher bench --list", run([usher, "bench", "--list"], 20, env), lambda out: "mutexbench:" in out)
        check("usher sim draws a chart", run([*sim, "--chart", svg], 60, env), lambda out: "<svg" in svg.read_text())
        simulator.unlink()
    refused("no simulator: usher sim reports it", run(sim, 20, env), "usher_bench", "has not been built, or not installed")
    refused("no simulator: usher bench reports it", run([usher, "bench", "--list"], 20, env), "usher_bench")
    check("usher try", run(tried, 60, env), lambda out: '"candidates"' in out)


def cmake_consumer(options, prefix, folder, env):
    must([options.cmake, "-S", CONSUMER, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
          f"-DCMAKE_C_COMPILER={options.cc}", f"-DCMAKE_CXX_COMPILER={options.cxx}"], 60, env=env)
    must([options.cmake, "--build", folder, "-j", "2"], 120, env=env)
    c_only = folder / "c_only"
    must([options.cmake, "-S", CONSUMER / "c_only", "-B", c_only, f"-DCMAKE_PREFIX_PATH={prefix}",
          f"-DCMAKE_C_COMPILER={options.cc}"], 60, env=env)
    check("C by find_package, in a project without C++: builds", run([options.cmake, "--build", c_only], 60, env))
    check("C by find_package, in a project without C++: runs", run([c_only / "c_consumer"], 20, env))
    check("C by find_package, with the shared library: runs", run([c_only / "c_consumer_shared"], 20, env))
    (library,) = (prefix / options.libdir).glob("libusher-locks.so.0")
    for program in ("with_shared", "with_shared_linked"):
        check(f"an executable that embeds and the shared library share one state: {program}", run([folder / program, library], 20, env))
    preload = {"LD_PRELOAD": str(next((prefix / options.libdir).rglob("libusher.so"))), "USHER_LOCK": "steady"}
    check("the same under the preload, which has a state of its own", run([folder / "with_shared", library], 20, env | preload))
    check("C++ by find_package: usher::headers", run([folder / "embeds"], 20, env))
    check("C++ by find_package: usher::locks", run([folder / "by_name"], 20, env))
    check("CMake: executable and plugin share one state", run([folder / "host", folder / "libplugin.so"], 20, env))


def c_consumer(cc, package, libraries, folder, env):
    """Builds a C program with the options of pkg-config. `libraries`: the folder of the shared library."""
    flags = must(["pkg-config", "--cflags", "--libs", package], 10, env=env).split()
    program = folder / f"c_consumer_{package}"
    done = run([cc, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", CONSUMER / "c_consumer.c", "-o", program] + flags, 60, env)
    check(f"C by pkg-config {package}: builds", done)
    if done.returncode == 0:
        check(f"C by pkg-config {package}: runs", run([program], 20, env | {"LD_LIBRARY_PATH": str(libraries)}))


def examples(options, prefix, source, folder, env, few=False):
    """Builds the examples as a project of their own, as an embedder would. `few`: only those of the C interface, which
    compile quickly."""
    must([options.cmake, "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug",
          f"-DCMAKE_C_COMPILER={options.cc}", f"-DCMAKE_CXX_COMPILER={options.cxx}"], 60, env=env)
    must([options.cmake, "--build", folder, "-j", "2", *(["--target", "example_accounts"] if few else [])], 120, env=env)
    check("examples: their tests", run(["ctest", "--test-dir", folder, "--no-tests=error", "--output-on-failure",
                                        *(["-R", "accounts|ctypes"] if few else [])], 120, env))


def headers_alone(options, prefix, folder, env):
    """Compiles each header alone: it must cause no warning in an embedder's program."""
    names = sorted(str(h.relative_to(prefix / "include")) for h in (prefix / "include").rglob("*.hpp"))
    source = folder / "headers.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in names) + "int main() {}\n")
    check(f"{len(names)} headers compile together without warnings",
          run([options.cxx, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wsign-conversion", "-Werror", "-fsyntax-only",
               f"-I{prefix}/include", source], 60, env))


def plugins(options, compile_flags, link_flags, folder, env):
    """Tests an executable and plugins built by each pair of compilers, linked with pkg-config's options and with -rdynamic."""
    found = [c for c in (options.cxx, "g++", "clang++-16") if shutil.which(c)]
    compilers = {os.path.basename(c): c for c in {os.path.realpath(shutil.which(c)): c for c in found}.values()}
    modules = []
    for name, cxx in compilers.items():
        modules.append(folder / f"plugin-{name}.so")
        must([cxx, "-std=c++20", "-O2", "-fPIC", "-shared", CONSUMER / "plugin.cpp", "-o", modules[-1]] + compile_flags, 60,
             env=env)
    for name, cxx in compilers.items():
        object_file = folder / f"host-{name}.o"
        must([cxx, "-std=c++20", "-O2", "-fPIE", "-c", CONSUMER / "host.cpp", "-o", object_file] + compile_flags, 60, env=env)
        for how, flags in (("pkg-config", link_flags), ("-rdynamic", ["-rdynamic", "-pthread"])):
            host = folder / f"host-{name}-{how}"
            must([cxx, "-pie", object_file, "-o", host] + flags + ["-ldl"], 60, env=env)
            # Each plugin is loaded by itself: with several, the first could give its state to the second.
            for module in modules:
                check(f"{host.name} and {module.name} share one state", run([host, module], 20, env))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--build", required=True)
    parser.add_argument("--libdir", default="lib")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k not in ("LD_PRELOAD", "DESTDIR")}

    with tempfile.TemporaryDirectory(prefix="usher-install-") as temporary:
        first, prefix, folder = (Path(temporary) / name for name in ("first", "moved", "work"))
        folder.mkdir()
        must([options.cmake, "--install", options.build, "--prefix", first], 60, env=env)
        first.rename(prefix)
        everything_in_place(prefix, options.libdir)
        links_resolve(prefix)

        env["PKG_CONFIG_PATH"] = str(prefix / options.libdir / "pkgconfig")
        compile_flags = must(["pkg-config", "--cflags", "usher"], 10, env=env).split()
        link_flags = must(["pkg-config", "--libs", "usher"], 10, env=env).split()

        usher = prefix / "bin" / "usher"
        check("usher run -- /bin/true", run([usher, "run", "--", "/bin/true"], 20, env))
        check("usher run selects a lock", run([usher, "run", "--lock", "twa", "--", "/bin/sh", "-c",
                                               'test "$USHER_LOCK" = twa'], 20, env))
        check("usher list --json", run([usher, "list", "--json"], 20, env),
              lambda out: any(lock["name"] == "loiter" for lock in json.loads(out)["locks"]))
        for package in ("usher", "usher-locks"):
            c_consumer(options.cc, package, prefix / options.libdir, folder, env)
        headers_alone(options, prefix, folder, env)
        cmake_consumer(options, prefix, folder / "consumer", env)
        examples(options, prefix, prefix / "share/doc/usher/examples", folder / "examples", env, few=True)
        plugins(options, compile_flags, link_flags, folder, env)
        components(prefix, folder, env)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
