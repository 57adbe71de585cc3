#!/usr/bin/env python3
"""Runs each fuzz target under libFuzzer for some seconds, with the kept inputs as seeds. New inputs are kept in
BUILD/corpus. Inputs that crash a target, or that take 10 s or 1 GiB, are kept in BUILD/found, and their names are
printed. The exit status is 1 if there was such an input.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

KEPT = pathlib.Path(__file__).resolve().parent / "corpus"
# The sanitizers get this path, because on their own they find only a symbolizer of their own LLVM version.
SYMBOLIZER = next((p for p in ("/usr/lib/llvm-16/bin/llvm-symbolizer", "/usr/bin/llvm-symbolizer") if os.path.exists(p)), None)
# bytes of an input; for targets not listed here the limit is 16 KiB
LONGEST = {"elf": 8192, "symbols": 16384, "record": 512, "census": 512}
MEGABYTES = 1024


def run(program, build, seconds):
    """Returns (name, whether the target passed, a line of figures, the last part of the output)."""
    symbolizer = {"ASAN_SYMBOLIZER_PATH": SYMBOLIZER} if SYMBOLIZER else {}
    name = program.name.removeprefix("fuzz_")
    corpus, found = build / "corpus" / name, build / "found"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    options = ["-close_fd_mask=3", "-print_final_stats=1", "-timeout=10", f"-rss_limit_mb={MEGABYTES}", "-use_value_profile=1",
               f"-max_total_time={seconds}", f"-max_len={LONGEST.get(name, 16384)}", f"-artifact_prefix={found}/{name}-"]
    done = subprocess.run([program, *options, corpus, KEPT / name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds + 300,
                          env={**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1", **symbolizer})
    executions = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    edges = re.findall(r"cov: (\d+)", done.stderr)
    figures = f"{int(executions[1]) if executions else 0:,} inputs, {edges[-1] if edges else '?'} edges"
    return name, done.returncode == 0, figures, done.stderr[-6000:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("targets", nargs="*")
    arguments = parser.parse_args()
    programs = [p for p in sorted((arguments.build / "bin").glob("fuzz_*"))
                if not arguments.targets or p.name.removeprefix("fuzz_") in arguments.targets]
    if not programs:
        sys.exit("no fuzz targets were built")
    well = True
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, good, figures, end in pool.map(lambda p: run(p, arguments.build.resolve(), arguments.seconds), programs):
            print(f"{name}: {figures}{'' if good else ': FAILED'}", flush=True)
            if not good:
                print(end, flush=True)
            well = well and good
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
