#!/usr/bin/env python3
"""Compares the report of `usher stat` with the program's own clock, for known schedules of threads for which an earlier
version reported wrong times.
"""

import unittest

from planted import Planted, lines_of, marked

BOTH = (None, "loiter")


def charged(row, mark):
    """Returns the seconds of waiting that are charged to holders that released the object at the marked line."""
    return sum(one["waited"] for one in row["holders"] if marked(mark) in lines_of(one))


class Schedules(Planted):
    def in_both(self, scenario, name, compare, exact, *options, succeeded=lambda run: True):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured(scenario, *options, lock=lock, compare=compare, succeeded=succeeded)
                self.assert_exact(run.row(name), **exact(run.own))

    def test_a_waiter_that_gives_up_is_the_holders_too(self):
        self.in_both("gives-up", "given_up",
                     lambda run: [("waited", run.row("given_up")["waiting"]["total"], run.own["given_up"]["waited"]),
                                  ("charged", charged(run.row("given_up"), "given up released"),
                                   run.own["given_up"]["waited"])],
                     lambda own: {"acquisitions": own["given_up"]["acquisitions"], "timeouts": 8})

    def test_a_signal_that_comes_too_late(self):
        self.in_both("late-signal", "late",
                     lambda run: [("to run", run.row("late")["waiting"]["total"], run.own["late"]["waited"])],
                     lambda own: {"woken": own["late"]["woken"], "timeouts": own["late"]["timeouts"]},
                     succeeded=lambda run: run.own["late"]["timeouts"] == 1)

    def test_processes_of_one_thread(self):
        def compare(run):
            rows = [row for row in run.rows if row["kind"] == "mutex"]
            return [("waited", sum(row["waiting"]["total"] for row in rows), run.own["between"]["waited"]),
                    ("contended", sum(row["contended"] for row in rows), run.own["between"]["contended"])]
        for lock in BOTH:
            with self.subTest(lock=lock):
                self.measured("between-processes", lock=lock, compare=compare)

    def test_another_kind_at_the_same_place(self):
        self.in_both("another-kind", "reborn",
                     lambda run: [("held", run.row("reborn")["holding"]["total"], run.own["reborn"]["held"])],
                     lambda own: {"acquisitions": own["reborn"]["acquisitions"]}, "--hold-times")

    def test_a_hold_that_ends_in_a_wait(self):
        self.in_both("held-until-a-wait", "parted",
                     lambda run: [("charged", charged(run.row("parted"), "parted with"), run.own["parted"]["waited"])],
                     lambda own: {})

    def test_long_holds_and_short_ones(self):
        self.in_both("long-and-short", "by_turns",
                     lambda run: [("held", run.row("by_turns")["holding"]["total"], run.own["by_turns"]["held"]),
                                  ("longest", run.row("by_turns")["holding"]["longest"],
                                   run.own["by_turns"]["longest_hold"])],
                     lambda own: {"acquisitions": 120})

    def test_yields_count_for_the_hold_in_which_they_were(self):
        def contended(run):
            return all(run.row(mark=mark)["contended"] > 0 for mark in ("yields in its holds", "yields outside of its holds"))
        run = self.measured("yielding", "--hold-times", compare=lambda run: [], succeeded=contended)
        self.assertGreater(run.row(mark="yields in its holds")["holding"]["yielding"], 0.5)
        self.assertEqual(run.row(mark="yields outside of its holds")["holding"]["yielding"], 0)
        self.assertEqual(run.row("yielded_before")["holding"]["yielding"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
