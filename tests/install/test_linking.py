#!/usr/bin/env python3
"""Builds executables and plugins that embed locks, of two translation units each, with and without link-time
optimisation and with both compilers. They must link, and share one process-wide state. A module that is linked so that
it has a state of its own must report this.
"""

import argparse
import itertools
import os
import re
import shutil
import string
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import catalog  # noqa: E402

UNITS = {"host": HERE / "consumer/host.cpp", "plugin": HERE / "consumer/plugin.cpp", "second": HERE / "linking/second.cpp"}
EXAMPLES = HERE.parents[1] / "examples"
EXPORT = "-Wl,--export-dynamic-symbol=usher_process_state_v2"

failures = []


def run(command, limit):
    command = [str(word) for word in command]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, "", f"killed after {late.timeout:.0f} s\n")


def check(what, ok, done):
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {' '.join(done.args)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return ok


class Toolchain:
    """A compiler with its linker and the kinds of object files that it links."""

    def __init__(self, cxx, kinds, link_flags):
        self.cxx, self.kinds, self.link_flags = cxx, kinds, link_flags

    def name(self):
        return Path(self.cxx).name

    def link(self, what, output, objects, *flags):
        done = run([self.cxx, "-O2", "-pthread", *self.link_flags, *flags, *objects, "-o", output, "-ldl"], 120)
        return check(f"{what}: links", done.returncode == 0, done)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--locks", type=Path, help="libusher_locks.a; without it no program in C is built")
    parser.add_argument("--gxx", default="g++")
    parser.add_argument("--clangxx", default="clang++-16")
    parser.add_argument("--names", action="store_true", help="only whether the headers cause warnings in a program with the same names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="usher-linking-") as temporary:
        folder = Path(temporary)
        names_of_its_own(options, folder) if options.names else test(options, folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


def test(options, folder):
    def compiled(cxx, unit, kind, *flags):
        output = folder / f"{unit}-{kind}.o"
        done = run([cxx, "-std=c++20", "-O2", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{options.include}",
                    *flags, "-c", UNITS[unit], "-o", output], 120)
        if done.returncode != 0:
            sys.exit(f"{' '.join(done.args)}\n{done.stderr}")
        return output

    def objects(cxx, kind, *flags):
        return {unit: compiled(cxx, unit, kind, *flags) for unit in UNITS}

    kinds, toolchains = {}, []
    if shutil.which(options.gxx):
        kinds |= {"gcc": objects(options.gxx, "gcc"), "gcc-lto": objects(options.gxx, "gcc-lto", "-flto", "-fvisibility=hidden")}
        toolchains.append(Toolchain(options.gxx, ["gcc", "gcc-lto"], ["-flto"]))
    else:
        print(f"skipped: no {options.gxx}")
    lld = shutil.which("ld.lld-16") or shutil.which("ld.lld")
    if shutil.which(options.clangxx) and lld:
        kinds |= {"clang": objects(options.clangxx, "clang", "-fvisibility=hidden"),
                  "clang-full": objects(options.clangxx, "clang-full", "-flto", "-fvisibility=hidden"),
                  "clang-thin": objects(options.clangxx, "clang-thin", "-flto=thin")}
        toolchains.append(Toolchain(options.clangxx, ["clang", "clang-full", "clang-thin"],
                                    ["-flto=thin", f"--ld-path={lld}"]))
        for toolchain in toolchains:  # without link-time optimisation each compiler also links the other's object files
            toolchain.kinds = [k for k in kinds if k in toolchain.kinds or k in ("gcc", "clang")]
    else:
        print(f"skipped with all tests that need it: no {options.clangxx} with ld.lld (Debian: clang-16, lld-16)")

    for toolchain in toolchains:
        examples(toolchain, options, folder)
    hosts, plugins = [], []
    for toolchain in toolchains:
        for first, second in itertools.product(toolchain.kinds, repeat=2):
            what = f"by {toolchain.name()}, {first} and {second}"
            host, static, plugin = (folder / f"{which}-{toolchain.name()}-{first}-{second}" for which in ("host", "static", "plugin"))
            # With clang's link-time optimisation all symbols are exported (-rdynamic): ld.lld selects the symbols to export before the
            # optimisation defines the one that EXPORT names.
            export = "-rdynamic" if first in ("clang-full", "clang-thin") else EXPORT
            if toolchain.link(f"executable {what}", host, [kinds[first]["host"], kinds[second]["second"]], export):
                hosts.append(host)
            if toolchain.link(f"static executable {what}", static, [kinds[second]["second"], kinds[first]["host"]], "-static",
                              "-Wl,--gc-sections", "-Wl,--no-warnings" if toolchain.name() != options.gxx else "-w"):
                done = run([static], 30)
                check(f"static executable {what}: runs", done.returncode == 0 and done.stderr == "", done)
            if toolchain.link(f"plugin {what}", plugin, [kinds[first]["plugin"], kinds[second]["second"]], "-shared"):
                plugins.append(plugin)
    for host in hosts:
        # The first host loads each plugin by itself, because the first of several plugins could give its state to the
        # others.
        for some in ([[plugin] for plugin in plugins] if host == hosts[0] else [plugins]):
            done = run([host, *some], 60)
            check(f"{host.name} and {some[0].name if len(some) == 1 else 'all plugins'} share one state",
                  done.returncode == 0 and done.stderr == "", done)
    own_states(toolchains, kinds, folder, lambda *arguments: compiled(*arguments))


# Identifiers in the headers that a program cannot use for a global variable: keywords of the language, functions of the
# C library.
NO_VARIABLES = set("""auto bool break case catch char class concept consteval constexpr constinit const continue decltype default delete do
  double else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept nullptr operator
  private protected public requires return short signed sizeof static static_assert struct switch template this throw true try typename
  typedef union unsigned using void volatile while
  usher std main clock errno free getenv iovec pause random sleep""".split())


def names_of_its_own(options, folder):
    """Compiles a program like names.cpp: the headers must cause no warning, whatever its global names are."""
    (folder / "generated").mkdir()
    headers = sorted(options.include.rglob("*.hpp"))
    text = re.sub(r'//.*|"[^"\n]*"', "", "".join(header.read_text() for header in headers))
    # Finds words at which a variable or parameter is named. Names of class members, which end in _, are left out.
    names = set(re.findall(r"(?<=[\w>&*] )[&*]?([a-z]\w*)(?<!_)(?=\s*[,)={;:])", text)) | set(string.ascii_lowercase)
    locks = [lock for lock in catalog.locks() if lock.excludes]
    for file, lines in {
        "headers": [f'#include "{header.relative_to(options.include)}"' for header in headers],
        "names": [f"[[maybe_unused]] static int {name};" for name in sorted(names - NO_VARIABLES)],
        "locks": [*(f"template <class P_, class W_>\nusing lock_{i} = usher::{lock.type}<P_, W_>;" for i, lock in enumerate(locks)),
                  "inline void use_all_locks() {", *(f"  use_lock<lock_{i}>();" for i in range(len(locks))), "}"],
    }.items():
        (folder / f"generated/{file}.hpp").write_text("\n".join(["#pragma once", *lines, ""]))
    for cxx in filter(shutil.which, (options.gxx, options.clangxx)):
        done = run([cxx, "-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{options.include}", f"-I{folder}",
                    # compiles, because with -fsyntax-only g++ would instantiate no templates
                    "-S", "-o", "/dev/null", HERE / "linking/names.cpp"], 120)
        done.stderr = "".join(done.stderr.splitlines(keepends=True)[:60])
        check(f"{Path(cxx).name} -Wshadow, in a program with {len(names)} names of its own", done.returncode == 0, done)


def examples(toolchain, options, folder):
    """Builds each program of examples/ with link-time optimisation, from the headers or in C with the static library, and runs it."""
    for kind in ("-flto",) if toolchain.name() == options.gxx else ("-flto=full", "-flto=thin"):
        for source in sorted(EXAMPLES.glob("*.c*")):
            in_c, program = source.suffix == ".c", folder / f"example-{source.stem}-{toolchain.name()}{kind}"
            if in_c and options.locks is None:
                continue
            done = run([toolchain.cxx, *toolchain.link_flags, kind, "-O2", "-pthread", f"-I{options.include}",
                        *(["-x", "c", source, "-x", "none", options.locks] if in_c else ["-std=c++20", source, EXPORT]),
                        *(["-rdynamic"] if kind != "-flto" else []), "-o", program], 120)
            what = f"examples/{source.name} by {toolchain.name()} {kind}"
            if check(f"{what}: links", done.returncode == 0 and done.stderr == "", done):
                done = run([program], 30)
                check(f"{what}: runs", done.returncode == 0 and done.stderr == "", done)


def own_states(toolchains, kinds, folder, compiled):
    """Tests modules whose states the linker or the version script keeps apart."""
    for toolchain in toolchains:
        kind, name = toolchain.kinds[0], toolchain.name()
        if kind not in ("gcc", "clang"):
            continue
        host, by_hand, shared = folder / f"own-host-{name}", folder / f"by-hand-{name}", folder / f"own-{name}-shared.so"
        toolchain.link(f"executable by {name}", host, [kinds[kind]["host"], kinds[kind]["second"]], EXPORT)
        toolchain.link(f"executable by {name} without the export", by_hand, [kinds[kind]["host"]])
        toolchain.link(f"plugin by {name}", shared, [kinds[kind]["plugin"]], "-shared")

        def said(what, program, plugin, mine, other="the executable"):
            done = run([program, *([plugin] if isinstance(plugin, Path) else plugin)], 30)
            check(f"{name}: {what}", done.returncode == 1 and "state of its own" in done.stdout and done.stderr.count("\n") == 1 and
                  done.stderr.startswith(f"usher: {mine} does not use the process state of {other}: ") and
                  "export usher_process_state_v2" in done.stderr, done)

        said("an executable that does not export the state", by_hand, shared, shared)
        for how, flags in (("symbolic", ["-Wl,-Bsymbolic"]), ("local", [f"-Wl,--version-script={HERE / 'linking/local.map'}"])):
            plugin = folder / f"own-{name}-{how}.so"
            toolchain.link(f"plugin by {name}, {how}", plugin, [kinds[kind]["plugin"], kinds[kind]["second"]], "-shared", *flags)
            said(f"a plugin that has bound the state within itself: {how}", host, plugin, plugin)
        private = folder / f"own-{name}-private.so"
        of_private = [compiled(toolchain.cxx, unit, f"private-{kind}", "-DUSHER_PRIVATE_STATE") for unit in ("plugin", "second")]
        toolchain.link(f"plugin by {name}, private", private, of_private, "-shared")
        done = run([host, private], 30)
        check(f"{name}: USHER_PRIVATE_STATE: a state of its own, and no message about it",
              done.returncode == 1 and "state of its own" in done.stdout and done.stderr == "", done)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
