#!/usr/bin/env python3
"""`usher stat` must record the locks that a program embeds if the program was built with USHER_RECORD, and the locks of
Usher's C functions. For programs built without USHER_RECORD it must report that their embedded locks are not recorded.
The program is programs/embedded.cpp.
"""

import unittest

from planted import PROGRAMS, Planted, lines_of, marked

UNSEEN = "embeds locks of Usher, which usher stat does not see"


class Embedded(Planted):
    def run_of(self, scenario, form="recorded", *options, **more):
        return self.stat(scenario, *options, command=[str(PROGRAMS / f"embedded_{form}"), scenario], **more)

    def check_all(self, run):
        self.assertNotIn(UNSEEN, run.text + run.error)
        self.assertIn("plain (embedded)", run.error)
        row = run.row("plain")
        self.assert_exact(row, kind="mutex", embedded=True, objects=1, acquisitions=1006, contended=3, failed_tries=3, command=None)
        self.assert_first_line(row["waiters"], "embedded waits")
        self.assertGreaterEqual(row["waiting"]["total"], 3 * 0.002)
        # A timed wait begins with one try of the lock. This try is not counted as a failed try.
        self.assert_exact(run.row("timed"), embedded=True, acquisitions=2, contended=1, timeouts=1, failed_tries=0)
        self.assert_exact(run.row("hot"), embedded=True, acquisitions=200000)
        made = [row for row in run.rows if row["by_init"] and row["embedded"]]
        self.assertEqual(len(made), 1, [row["name"] for row in run.rows])
        self.assert_exact(made[0], kind="mutex", objects=3, gone=3, acquisitions=30, contended=0)
        self.assertIn(marked("embedded made"), lines_of(made[0]["place"]))
        # Three acquisitions in each of 20 turns: the waiter locks and waits, the other thread locks, the waiter acquires the mutex again.
        self.assert_exact(run.row("handed"), embedded=True, acquisitions=20 * 3 + 2)
        self.assert_exact(run.row("turn"), kind="condition", embedded=True, acquisitions=21, woken=20, timeouts=1, signals=21, unheard=1)
        self.assert_exact(run.row("credits"), kind="semaphore", embedded=True, acquisitions=31, contended=1, signals=31, timeouts=1)

    def test_exact_counts(self):
        for form in ("recorded", "recorded_fixed"):
            for lock in (None, "mcs"):
                with self.subTest(form=form, lock=lock):
                    self.check_all(self.run_of("all", form, lock=lock))

    def test_without_the_macro(self):
        run = self.run_of("all", "unrecorded")
        self.assertIn(UNSEEN, run.error)
        self.assertIn("-DUSHER_RECORD", run.error)
        self.assertEqual([row["name"] for row in run.rows if row["embedded"]], [])

    def test_the_c_functions(self):
        run = self.run_of("c")
        self.assert_exact(run.row("of_c"), kind="mutex", embedded=True, acquisitions=3, contended=1, timeouts=1, failed_tries=1)
        self.assert_exact(run.row("handed_of_c"), embedded=True, acquisitions=20 * 3)
        made = run.row(mark="embedded of C")
        self.assert_exact(made, by_init=True, embedded=True, objects=1, gone=1, acquisitions=100)
        self.assert_exact(run.row("turn_of_c"), kind="condition", acquisitions=20, woken=20, signals=20, unheard=0)
        self.assert_exact(run.row("credits_of_c"), kind="semaphore", acquisitions=11, contended=1, signals=11, timeouts=1)

    def test_a_thread_that_waits_for_itself(self):
        for scenario, name, mark in (("self", "once", "embedded once more"), ("self-of-c", "of_c", "embedded once more of C")):
            for form in ("recorded", "recorded_fixed"):
                with self.subTest(scenario=scenario, form=form):
                    run = self.run_of(scenario, form, "--duration", "1.6", status=None)
                    self.assertEqual(run.report["rule"], "deadlock", run.error)
                    circle, = run.report["deadlocks"]
                    thread, = circle["threads"]
                    self.assertIn(name, thread["waits_for"])
                    self.assert_first_line([thread["stack"]], mark)
                    self.assertIn("locks it again while it holds it", run.error)

    def test_a_thread_that_waits_for_itself_until_a_deadline(self):
        for scenario in ("self-timed", "self-timed-of-c"):
            with self.subTest(scenario=scenario):
                run = self.run_of(scenario)
                self.assertEqual(run.report["deadlocks"], [])
                self.assertNotIn("deadlock", run.error)


if __name__ == "__main__":
    unittest.main()
