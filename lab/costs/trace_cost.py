"""What `usher stat --trace` costs a recorded program: its throughput with the option relative to that without it.

  python3 -m lab.costs.trace_cost --build build/release      measures, and prints a table: about two minutes

The program is lab/programs/arena.cpp under the C library's locks. A pair of runs, one with the option and one without, is made in
turns, so that other programs disturb both. The ratio is that of the sums of operations; the range is that of the middle half of
the pairs."""

import argparse
import json
import os
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
    return result["operations"] / result["seconds"], "there was no room" in done.stderr


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=Path, default=TREE / "build/release")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seconds", default="0.5")
    given = options.parse_args()
    for name, words in SITUATIONS.items():
        ratios, sums, is_full = [], [0, 0], False
        with tempfile.TemporaryDirectory(prefix="usher-trace-cost-") as folder:
            words = [*words, "--seconds", given.seconds]
            for i in range(given.rounds):
                pair = [0, 0]
                for which in (0, 1) if i % 2 == 0 else (1, 0):
                    trace = ["--trace", Path(folder) / "trace"] if which else []
                    pair[which], full = operations(given.build.resolve(), words, Path(folder), *trace)
                    is_full |= full
                ratios.append(pair[1] / pair[0])
                sums = [a + b for a, b in zip(sums, pair)]
        quarters = statistics.quantiles(ratios, n=4)
        print(f"{name:40} {sums[1] / sums[0]:.3f} ({quarters[0]:.3f}–{quarters[2]:.3f})"
              f"  {sums[0] / given.rounds / 1e6:.2f} M operations a second{', table full' if is_full else ''}", flush=True)


if __name__ == "__main__":
    main()
