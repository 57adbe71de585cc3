"""What `usher stat --trace` costs a recorded program: its throughput with the option relative to that without it.

  python3 -m lab.costs.trace_cost --build build/release      measures, and prints a table: about two minutes

The program is lab/programs/arena.cpp under the C library's locks. A pair of runs, one with the option and one without, is made in
turns, so that other programs disturb both. Throughput is that of elapsed time and, since other programs change it less, that of the
program's CPU time. A ratio is that of the medians; its interval is that of 95 % of 2,000 samples of the pairs (bootstrap)."""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

from harness import TREE

SITUATIONS = {"one thread": ["--threads", "1", "--section", "20", "--outside", "20"],
              "2 threads, 64 mutexes": ["--threads", "2", "--mutexes", "64", "--section", "20", "--outside", "200"],
              "2 threads, one mutex, short sections": ["--threads", "2", "--section", "20", "--outside", "20"],
              "8 threads, one mutex, short sections": ["--threads", "8", "--section", "20", "--outside", "20"],
              "8 threads, one mutex, long sections": ["--threads", "8", "--section", "5000", "--outside", "5000"]}
LIMIT = 60  # seconds, for each run


def operations(build, words, folder, *options):
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    env["USHER_LIBRARY"] = str(build / "lib/libusher.so")
    done = subprocess.run([build / "bin/usher", "stat", "-o", folder / "table", *options, "--", build / "lab/programs/arena", *words],
                          env=env, capture_output=True, text=True, timeout=LIMIT, check=True)
    result = json.loads(done.stdout)
    return result["operations"] / result["seconds"], result["operations"] / max(result["cpu"], 1e-9)


def ratio(pairs):
    """The ratio of medians, with against without, and its interval."""
    def of(some):
        return statistics.median(p[1] for p in some) / statistics.median(p[0] for p in some)
    dice = random.Random(1)
    samples = sorted(of(dice.choices(pairs, k=len(pairs))) for _ in range(2000))
    return f"{of(pairs):.3f} ({samples[50]:.3f}–{samples[1949]:.3f})"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=Path, default=TREE / "build/release")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seconds", default="0.5")
    given = options.parse_args()
    for name, words in SITUATIONS.items():
        elapsed, cpu = [], []
        with tempfile.TemporaryDirectory(prefix="usher-trace-cost-") as folder:
            words = [*words, "--seconds", given.seconds]
            for i in range(given.rounds):
                pair = [None, None]
                for which in (0, 1) if i % 2 == 0 else (1, 0):
                    trace = ["--trace", Path(folder) / "trace"] if which else []
                    pair[which] = operations(given.build.resolve(), words, Path(folder), *trace)
                elapsed.append([p[0] for p in pair])
                cpu.append([p[1] for p in pair])
        print(f"{name:40} of time {ratio(elapsed)}, of CPU time {ratio(cpu)}, "
              f"{statistics.median(p[0] for p in elapsed) / 1e6:.2f} M operations a second without", flush=True)


if __name__ == "__main__":
    main()
