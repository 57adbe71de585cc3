#!/usr/bin/env python3
"""Executables and plugins of two translation units that embed locks, built with and without link-time optimisation by both
compilers: they link, and have one state of the process. Where a module is linked so that it has a state of its own, it says so."""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"host": HERE / "consumer/host.cpp", "plugin": HERE / "consumer/plugin.cpp", "second": HERE / "linking/second.cpp"}
EXPORT = "-Wl,--export-dynamic-symbol=usher_process_state_v1"

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
    """A compiler with its linker, and the kinds of object files that it links."""

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
    parser.add_argument("--gxx", default="g++")
    parser.add_argument("--clangxx", default="clang++-16")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="usher-linking-") as temporary:
        folder = Path(temporary)
        test(options, folder)
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

    # A program whose names are those of our parameters: its warnings are not about our headers.
    for cxx in filter(shutil.which, (options.gxx, options.clangxx)):
        done = run([cxx, "-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{options.include}", "-fsyntax-only",
                    HERE / "linking/names.cpp"], 120)
        check(f"{Path(cxx).name} -Wshadow, in a program with names of its own", done.returncode == 0, done)

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
        for toolchain in toolchains:  # without link-time optimisation each links what the other has compiled
            toolchain.kinds = [k for k in kinds if k in toolchain.kinds or k in ("gcc", "clang")]
    else:
        print(f"skipped, with all that needs it: no {options.clangxx} with ld.lld (Debian: clang-16, lld-16)")

    hosts, plugins = [], []
    for toolchain in toolchains:
        for first, second in itertools.product(toolchain.kinds, repeat=2):
            what = f"by {toolchain.name()}, {first} and {second}"
            host, static, plugin = (folder / f"{which}-{toolchain.name()}-{first}-{second}" for which in ("host", "static", "plugin"))
            # ld.lld looks for the symbols to export before link-time optimisation defines this one.
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
        # One by one where it is not the same again: the first plugin could give its state to the others.
        for some in ([[plugin] for plugin in plugins] if host == hosts[0] else [plugins]):
            done = run([host, *some], 60)
            check(f"{host.name} and {some[0].name if len(some) == 1 else 'all plugins'} share one state",
                  done.returncode == 0 and done.stderr == "", done)
    own_states(toolchains, kinds, folder, lambda *arguments: compiled(*arguments))


def own_states(toolchains, kinds, folder, compiled):
    """What the linker or the version script keeps apart."""
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
                  "export usher_process_state_v1" in done.stderr, done)

        said("an executable that does not export the state", by_hand, shared, shared)
        for how, flags in (("symbolic", ["-Wl,-Bsymbolic"]), ("local", [f"-Wl,--version-script={HERE / 'linking/local.map'}"])):
            plugin = folder / f"own-{name}-{how}.so"
            toolchain.link(f"plugin by {name}, {how}", plugin, [kinds[kind]["plugin"], kinds[kind]["second"]], "-shared", *flags)
            said(f"a plugin that has bound the state within itself: {how}", host, plugin, plugin)
        private = folder / f"own-{name}-private.so"
        of_private = [compiled(toolchain.cxx, unit, f"private-{kind}", "-DUSHER_PRIVATE_STATE") for unit in ("plugin", "second")]
        toolchain.link(f"plugin by {name}, private", private, of_private, "-shared")
        done = run([host, private], 30)
        check(f"{name}: USHER_PRIVATE_STATE: a state of its own, and no word about it",
              done.returncode == 1 and "state of its own" in done.stdout and done.stderr == "", done)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
