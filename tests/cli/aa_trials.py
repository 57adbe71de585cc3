#!/usr/bin/env python3
"""Repeats trials in which `usher try` compares the C library's mutex with itself (A/A tests), and counts the trials
that find a gain. Prints each trial's speed-up, its confidence interval, the verdict and the number of rounds. The exit
status is 1 if more than one trial in ten found a gain.
"""

import argparse
import json
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
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--budget", default="12", help="budget of each trial in seconds (12)")
    length.add_argument("--rounds", type=int, help="number of rounds of each trial, instead of a budget")
    parser.add_argument("--seconds", default="0.3", help="length of each run (0.3)")
    parser.add_argument("--threads", default="4", help="number of threads that lock the mutex in turns (4)")
    parser.add_argument("--json", help="write every trial to this file")
    chosen = parser.parse_args()
    if chosen.trials < 1 or (chosen.rounds is not None and chosen.rounds < 5):
        parser.error("needs at least one trial, and five rounds: fewer never decide")
    return chosen


def trial(chosen, build, folder):
    """Returns the results of `usher try` for the C library's mutex, compared with itself under a second name."""
    file = os.path.join(folder, "trial.json")
    length = ["--rounds", str(chosen.rounds)] if chosen.rounds else ["--budget", chosen.budget]
    command = [build / "bin" / "usher", "try", "--quiet", "--locks", "again=pthread", *length,
               "--metric", f"^ +{chosen.threads} +([0-9.]+)", "--json", file, "--", build / "bin" / "usher", "bench", "mutexbench",
               "--set", "shared=1", "--locks", "pthread", "--threads", chosen.threads, "--seconds", chosen.seconds, "--rounds", "1"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    environment["USHER_LIBRARY"] = str(build / "lib" / "libusher.so")
    seconds = 4 * (chosen.rounds + 1) * (float(chosen.seconds) + 10) if chosen.rounds else 10 * float(chosen.budget)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60 + seconds)
    if done.returncode != 0:
        sys.exit(f"aa_trials: usher try ended with {done.returncode}: {done.stderr or done.stdout}")
    with open(file) as f:
        return json.load(f)


def limit(value):
    """Returns a limit of a confidence interval as text; None means that there were too few rounds for a limit."""
    return "…" if value is None else f"{value:.3f}"


def is_wrong(data):
    """Returns whether the trial reports a gain. Only the verdict shows this, since the C library's mutex is never
    recommended."""
    return data["candidates"][1]["verdict"] == "better"


def line(number, data):
    """Returns a line about a trial."""
    again = data["candidates"][1]
    low, high = again["interval"] or [None, None]
    verdict = "SEEN AS BETTER" if is_wrong(data) else again["verdict"]
    speed_up = "-" if again["speed_up"] is None else f"{again['speed_up']:.3f}"
    return (f"{number:3}  {speed_up}  {limit(low)}–{limit(high)}  {verdict} after {again['rounds']} rounds; others took "
            f"{100 * data['others_cpu_share']:.0f} % of the CPU")


def main():
    chosen = options()
    build = Path(chosen.build).resolve()
    seen = []
    with tempfile.TemporaryDirectory(prefix="usher-aa-") as folder:
        for number in range(1, chosen.trials + 1):
            seen.append(trial(chosen, build, folder))
            print(line(number, seen[-1]), flush=True)
    if chosen.json:
        with open(chosen.json, "w") as f:
            json.dump(seen, f, indent=1)
    wrong = sum(is_wrong(t) for t in seen)
    rounds = statistics.mean(t["candidates"][1]["rounds"] for t in seen)
    print(f"{wrong} of {len(seen)} saw a gain; {rounds:.1f} rounds in the mean")
    return 0 if wrong <= len(seen) // 10 else 1


if __name__ == "__main__":
    sys.exit(main())
