#!/usr/bin/env python3
"""Tests the pages of waits and of MutexBench that are made of the stored JSON: they are short.
Tests also a family's cell, and a candidate without a result. Nothing is measured."""

import json
import sys
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from lab.costs import fault_groups, measure_waits, summaries  # noqa: E402
from lab.pages import __main__ as pages  # noqa: E402
from lab.run import packed  # noqa: E402
from lab.costs.summaries import Column  # noqa: E402

RESULTS = TREE / "lab" / "results"
NAMES = [*measure_waits.FILES, "mutexbench-all"]


class Pages(unittest.TestCase):
    def test_pages_are_short(self):
        for name in NAMES:
            text = pages.PAGES[name]("")
            self.assertLessEqual(text.count("\n"), 150, name)
            self.assertLessEqual(max(map(len, text.splitlines())), 150, name)

    def test_json_has_one_point_a_line(self):
        for name in measure_waits.FILES:
            text = packed.text_of(RESULTS / f"{name}.json")
            self.assertEqual(text, summaries.compact(name, json.loads(text)["groups"]), name)


def turns_of(signalled, newcomer, relieved=0):
    return {"signalled_us": {"mean": signalled, "n": 1}, "newcomer_us": {"mean": newcomer, "n": 1}, "signalled_relieved": relieved,
            "newcomer_relieved": 0}


def signalled_point(name, *rounds, failures=()):
    return {"candidate": name, "hold_us": 1000, "hold": "sleep", "rounds": list(rounds), "failures": list(failures)}


class Tables(unittest.TestCase):
    def test_few_candidates_have_a_row_each(self):
        heading, rows = summaries.table(["C library", "mcs"], [Column("ns", lambda name: (len(name), str(len(name))))])
        self.assertEqual((heading, rows), (["lock", "ns"], [["C library", "9"], ["`mcs`", "3"]]))

    def test_many_candidates_are_summed_up_by_family(self):
        names = ["C library", "tas", "ttas", "futex", "fairlock", "ticket", "twa", "mcs", "clh", "k42", "loiter", "steady", "pthread"]
        figures = {name: (i, str(i)) for i, name in enumerate(names)}
        figures["futex"] = (None, "failed")
        large, small = Column("ns", figures.get), Column("rate", figures.get, least=True)
        rows = {row[0]: row[1:] for row in summaries.table(names, [large, small])[1]}
        self.assertEqual(list(rows), ["C library", "`pthread`", "`steady`, the default", "One word (4)", "Tickets (2)", "Queues (3)",
                                      "Few threads circulate (1)"])
        self.assertEqual(rows["`steady`, the default"], ["11", "11"])
        self.assertEqual(rows["Tickets (2)"], ["5; 6 `twa`", "5"])
        self.assertEqual(rows["Queues (3)"], ["8; 9 `k42`", "8; 7 `mcs`"])
        self.assertTrue(rows["One word (4)"][0].endswith("failed `futex`"))

    def test_waits_over_the_limit_are_named(self):
        points = [signalled_point("C library", turns_of(2000, 1500)), signalled_point("mcs", turns_of(5000, 1000)),
                  signalled_point("lifo", turns_of(9000, 1000, relieved=1)), signalled_point("clh", failures=["hung: killed after 46 s"])]
        (_, text, _, rows), = fault_groups.signalled_tables({"points": points})
        self.assertIn("With holds of 1 ms the signalled thread waits too long under 2 of 4 locks: `mcs` by 4.00 ms; `lifo` by more than "
                      "8.00 ms.", text)
        self.assertEqual(rows[2:], [["`lifo`", "> 9.00", "1.00"], ["`clh`", "> 46 s", "> 46 s"]])

    def test_missing_waiters_are_named(self):
        def round_of(missing):
            n = {"max": 5000.0, "median": 3000.0, "n": 1}
            return {"missing": missing, "us_until_through": n, "voluntary_per_waiter": n, "waiters": 50, "users": 3}
        points = [{"candidate": name, "hold_us": 10, "hold": "spin", "rounds": [round_of(missing)], "failures": []}
                  for name, missing in (("C library", 0), ("lifo", 7))]
        (_, text, _, rows), = fault_groups.broadcast_tables({"points": points})
        self.assertIn("With holds of 10 µs awake some waiters had not returned under 1 of 2 locks: `lifo` (7 missing).", text)
        self.assertEqual([row[1] for row in rows], ["3.00", "> 5.00"])

    def test_the_command_is_shown_without_files(self):
        self.assertEqual(summaries.measuring("x --build build/release --out a/b --only faults --json /c"),
                         "x --build build/release --only faults")


if __name__ == "__main__":
    unittest.main()
