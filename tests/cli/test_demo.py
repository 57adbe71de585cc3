#!/usr/bin/env python3
"""Tests, with made-up results, the line that `make demo` prints after each trial: as expected, not as expected, or
undecided.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from demo_verdict import EXPECTATIONS, line  # noqa: E402


def trial(winner=None, others=0.0, waiting=0.2, rounds=9, **verdicts):
    """Returns results in the form of `usher try --json`, with the keys that tools/demo_verdict.py reads."""
    candidates = [{"name": "pthread", "verdict": "reference", "calls": None if waiting is None else {"waiting_share": waiting}}]
    candidates += [{"name": name, "verdict": verdict, "calls": None} for name, verdict in verdicts.items()]
    return {"winner": winner, "others_cpu_share": others, "rounds": rounds, "candidates": candidates}


class Demo(unittest.TestCase):
    def check(self, name, begin, *words, **results):
        text = line(name, trial(**results))
        self.assertTrue(text.startswith(begin + ": "), text)
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn("no lock helps", text)

    def test_a_gain(self):
        self.check("gain", "As expected", "steady is better", winner="steady", others=0.5, steady="better", futex="worse")
        self.check("gain", "Not as expected", "no lock was shown to be better", steady="worse", futex="level")
        self.check("gain", "Undecided", "no lock was shown", steady="undecided", futex="level")
        self.check("gain", "Undecided", "other programs took 35 % of the CPU time", others=0.35, steady="worse", futex="worse")

    def test_little_waiting(self):
        self.check("little-waiting", "As expected", "0.03 % of their time", waiting=0.0003, steady="undecided")
        self.check("little-waiting", "Not as expected", "steady is better", winner="steady", waiting=0.0003, steady="better")
        self.check("little-waiting", "Not as expected", "20 % of their time", steady="undecided")
        self.check("little-waiting", "Undecided", "not measured", waiting=None, steady="undecided")
        self.check("little-waiting", "Undecided", "took 11 %", others=0.11, winner="steady", waiting=0.0003, steady="better")

    def test_a_loss(self):
        self.check("twa-loses", "As expected", "twa is worse", others=0.5, steady="undecided", twa="worse")
        self.check("twa-loses", "Not as expected", "twa is no different", steady="undecided", twa="level")
        self.check("twa-loses", "Not as expected", "twa is better", winner="twa", steady="undecided", twa="better")
        self.check("twa-loses", "Undecided", "in 9 rounds", steady="worse", twa="undecided")
        self.check("twa-loses", "Undecided", "took 35 %", "neither better nor worse", others=0.35, twa="undecided")

    def test_the_demo_uses_these_expectations(self):
        script = (Path(__file__).resolve().parents[2] / "tools" / "demo.sh").read_text()
        for name in EXPECTATIONS:
            self.assertIn(f'" {name} \\', script)
        self.assertEqual(script.count('\ntrial "'), len(EXPECTATIONS))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
