#!/usr/bin/env python3
"""`usher try` compares the C library's mutex with itself, again and again: how often does it see a difference where there is
none? Says each trial's ratio and interval, how many were within the noise, and how wide the intervals were, so that what
a trial of this length cannot see is known, too. Exit status 1 if fewer than nine tenths were within the noise."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release", help="build folder (build/release)")
    parser.add_argument("--trials", type=int, default=10, help="how many (10)")
    parser.add_argument("--rounds", type=int, default=7, help="of each trial (7)")
    parser.add_argument("--seconds", default="0.3", help="of each run (0.3)")
    parser.add_argument("--threads", default="4", help="that take the mutex in turns (4)")
    parser.add_argument("--json", help="write every trial to this file")
    chosen = parser.parse_args()
    if chosen.trials < 1 or chosen.rounds < 5:
        parser.error("at least one trial, and five rounds: fewer always are within the noise")
    return chosen


def trial(chosen, build, folder):
    """All that `usher try` says of the C library's mutex under a second name."""
    file = os.path.join(folder, "trial.json")
    command = [build / "bin" / "usher", "try", "--quiet", "--locks", "again=pthread", "--rounds", str(chosen.rounds),
               "--metric", f"^ +{chosen.threads} +([0-9.]+)", "--json", file, "--", build / "bin" / "usher", "bench", "mutexbench",
               "--set", "shared=1", "--locks", "pthread", "--threads", chosen.threads, "--seconds", chosen.seconds, "--rounds", "1"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    environment["USHER_LIBRARY"] = str(build / "lib" / "libusher.so")
    limit = 60 + 4 * (chosen.rounds + 1) * (float(chosen.seconds) + 10)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit)
    if done.returncode != 0:
        sys.exit(f"aa_trials: usher try ended with {done.returncode}: {done.stderr or done.stdout}")
    with open(file) as f:
        return json.load(f)


def main():
    chosen = options()
    build = Path(chosen.build).resolve()
    seen = []
    with tempfile.TemporaryDirectory(prefix="usher-aa-") as folder:
        for number in range(1, chosen.trials + 1):
            data = trial(chosen, build, folder)
            again = data["candidates"][1]
            low, high = again["interval"]
            seen.append({"ratio": again["ratio"], "interval": [low, high], "noise": again["noise"],
                         "others_cpu_share": data["others_cpu_share"],
                         "runs": [[r["metric"] for r in c["runs"]] for c in data["candidates"]]})
            verdict = "within the noise" if again["noise"] else "SEEN AS A DIFFERENCE"
            print(f"{number:3}  {again['ratio']:.3f}  {low:.3f}–{high:.3f}  {verdict}; others took "
                  f"{100 * data['others_cpu_share']:.0f} % of the CPU", flush=True)
    if chosen.json:
        with open(chosen.json, "w") as f:
            json.dump(seen, f, indent=1)
    noise = sum(t["noise"] for t in seen)
    widths = [t["interval"][1] - t["interval"][0] for t in seen]
    print(f"{noise} of {len(seen)} within the noise; the intervals were {statistics.mean(widths):.3f} wide in the mean, "
          f"{statistics.median(widths):.3f} in the median")
    return 0 if noise >= math.ceil(0.9 * len(seen)) else 1


if __name__ == "__main__":
    sys.exit(main())
