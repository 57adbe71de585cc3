#!/usr/bin/env python3
"""Checks whether two builds are the same although their sources have other paths: for commits that move and rename files.

  tools/same_build.py --build build/release --record before.json     records a build exactly
  tools/same_build.py --build build/release --compare before.json    compares a build with the record

Three comparisons, all exact: the instructions and locked operations of an uncontended pair of lock and unlock under
each lock (as in count_instructions.py); simulated runs of every lock and of every benchmark program, to the last digit;
and the symbols that the libraries export.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

# Arguments of `usher sim`. With them every lock runs on two simulated machines, with few and with many threads.
# PROGRAM_LOCKS are the locks under which every benchmark program runs.
SIMULATED = [
    ["mutexbench", "--machine", "x5-2", "--locks", "all", "--threads", "1,4,40", "--ms", "0.1", "--seeds", "2"],
    ["mutexbench", "--machine", "t5", "--locks", "all", "--threads", "2,150", "--ms", "0.3", "--seeds", "1"],
]
PROGRAM_LOCKS = "ticket-spin,twa-spin,mcs-spin,mcsg,mcscr,loiter,fairlock,ttas-spin"
# keys of results about the host and the build, not about the simulated machine
TIMES = ("cpu_s", "wall_s", "commit", "date", "version", "command")


def instructions(build):
    with tempfile.TemporaryDirectory(prefix="usher-same-") as folder:
        record = Path(folder, "record.json")
        done = subprocess.run([sys.executable, harness.TREE / "tools" / "count_instructions.py", "--build", build.folder,
                               "--record", record, "--update"], timeout=900, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            harness.die("count_instructions.py failed", 1)
        return json.loads(record.read_text())["pairs"]


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def simulated_runs(build):
    listed = subprocess.run([build.usher, "sim", "--list"], timeout=30, check=True, capture_output=True, text=True).stdout
    programs = [line.split(":")[0] for line in listed.split("\n\n")[0].splitlines() if line and not line.startswith(" ")]
    commands = SIMULATED + [[p, "--locks", PROGRAM_LOCKS, "--threads", "2,12", "--ms", "0.1", "--seeds", "1"]
                            for p in programs if p not in ("mutexbench", "reflex", "mcsg-loop")]
    commands += [["mcsg-loop", "--locks", "mcsg,mcsg+,mcsg++,mcsg++-spin", "--threads", "4,12", "--set", "guests=2", "--ms", "0.1",
                  "--seeds", "1"],
                 ["reflex", "--machine", "numa-q", "--locks", PROGRAM_LOCKS, "--threads", "4,8", "--ms", "0.5", "--seeds", "1"]]
    runs = {}
    for command in commands:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = subprocess.run([build.usher, "sim", *command, "--quiet", "--json", file.name], timeout=900,
                                  capture_output=True, text=True)
            result = json.loads(Path(file.name).read_text() or "null") if done.returncode == 0 else done.stderr
            runs[" ".join(command)] = without_times(result)
    return runs


def symbols(build):
    """Returns the exported definitions from `nm`, without addresses."""
    found = {}
    for path, *options in ((build.library, "-D"), (build.folder / "lib" / "libusher_locks.a", "-g")):
        out = subprocess.run(["nm", "--defined-only", *options, path], timeout=60, check=True, capture_output=True, text=True).stdout
        found[Path(path).name] = sorted({" ".join(line.split()[-2:]) for line in out.splitlines() if len(line.split()) >= 3})
    return found


def differences(before, now, at=""):
    """Returns the paths at which two JSON values differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differences(before.get(key), now.get(key), f"{at}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now) and at.count("/") < 12:
        for i, (a, b) in enumerate(zip(before, now)):
            yield from differences(a, b, f"{at}/{i}")
    elif before != now:
        yield f"{at}: {str(before)[:200]} is now {str(now)[:200]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--record", type=Path, metavar="FILE")
    what.add_argument("--compare", type=Path, metavar="FILE")
    options = parser.parse_args()
    build = harness.Build(options.build)
    build.need(build.usher, build.library)
    now = {"instructions": instructions(build), "simulated": simulated_runs(build), "symbols": symbols(build)}
    if options.record:
        options.record.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        print(f"{len(now['simulated'])} simulated commands, {sum(map(len, now['symbols'].values()))} symbols recorded")
        return 0
    before = json.loads(options.compare.read_text())
    now = json.loads(json.dumps(now))
    status = 0
    for gate in ("instructions", "simulated", "symbols"):
        found = list(differences(before[gate], now[gate], gate))
        print(f"{gate}: " + ("identical" if not found else f"{len(found)} differences"))
        for line in found[:20]:
            print(f"  {line}")
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
