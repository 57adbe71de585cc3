#!/usr/bin/env python3
"""Compares the results of a trial with what `make demo` expects, and prints one line: as expected, not as expected, or undecided."""

import json
import sys

BUSY = 0.1  # if other programs use more than this share of the CPU time, `usher try` recommends no further trial
LITTLE = 0.01  # if threads wait for less than this share of their time, `usher try` recommends none


def gain(data):
    """Expects that some lock is better."""
    if data["winner"]:
        return True, f"{data['winner']} is better"
    if any(c["verdict"] in ("better", "undecided") for c in data["candidates"][1:]):
        return None, "no lock was shown to be better"
    return False, "no lock was shown to be better"


def little_waiting(data):
    """Expects that threads hardly wait for mutexes and that no lock is better."""
    calls = data["candidates"][0]["calls"]
    share = calls and calls["waiting_share"]
    if share is None:
        return None, "the waiting was not measured"
    if data["winner"]:
        return False, f"{data['winner']} is better"
    return share < LITTLE, f"threads wait for mutexes {100 * share:.2g} % of their time, and no lock was shown to be better"


def loses(lock):
    """Expects that the lock is worse."""
    def expectation(data):
        verdict = next((c["verdict"] for c in data["candidates"] if c["name"] == lock), "undecided")
        if verdict == "undecided":
            return None, f"{lock} is neither better nor worse in {data['rounds']} rounds"
        return verdict == "worse", f"{lock} is {'no different' if verdict == 'level' else verdict}"
    return expectation


EXPECTATIONS = {"gain": gain, "little-waiting": little_waiting, "twa-loses": loses("twa")}


def line(name, data):
    """Returns the line about a trial. `data` is the JSON of `usher try`."""
    met, why = EXPECTATIONS[name](data)
    if met:
        return f"As expected: {why}."
    others = data["others_cpu_share"]
    if met is None or others > BUSY:
        noise = f"other programs took {100 * others:.0f} % of the CPU time; " if others > BUSY else ""
        return f"Undecided: {noise}{why}."
    return f"Not as expected: {why}."


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        print(line(sys.argv[1], json.load(file)))
