#!/usr/bin/env python3
"""Tests cases that `usher stat` must survive without losing data, and report in one clear line: large numbers of
objects, many processes, all ways in which a program can end.
"""

import json
import os
import signal
import subprocess
import unittest

from planted import PROGRAMS, USHER, Planted, lines_of, marked

BOTH = (None, "loiter")


class Numbers(Planted):
    def test_a_hundred_thousand_mutexes_made_and_destroyed(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("made-and-destroyed", lock=lock)
                made = run.own["made"]["objects"]
                self.assert_exact(run.row(mark="made"), by_init=True, objects=made, acquisitions=made, contended=0)
                self.assert_exact(run.row("shared_mutex"), acquisitions=60)
                self.assertFalse([one for one in run.report["remarks"] if "--objects" in one], run.report["remarks"])

    def test_more_at_once_than_there_is_room_for(self):
        run = self.stat("many-at-once")
        self.assert_exact(run.row("shared_mutex"), acquisitions=60)
        remarks = [one for one in run.report["remarks"] if "--objects" in one]
        self.assertEqual(len(remarks), 1, run.report["remarks"])
        self.assertIn("--objects", run.text + run.error)
        roomy = self.stat("many-at-once", "--objects", "262144")
        made = roomy.own["made"]["objects"]
        self.assert_exact(roomy.row(mark="many"), objects=made, acquisitions=made, contended=0)
        self.assertFalse([one for one in roomy.report["remarks"] if "--objects" in one], roomy.report["remarks"])

    def test_a_hot_one_after_the_room_is_used(self):
        run = self.stat("hot-after-many")
        self.assertRegex(run.report["verdict"], r"; [\d,]+ calls that found no room in the record were not seen$")
        self.assertNotIn("save no more", run.report["verdict"])
        self.assertGreater(run.report["not_seen"]["calls"], 180)
        self.assertEqual(run.report["next"], f"usher stat --objects 131072 -- {PROGRAMS / 'planted'} hot-after-many")
        self.assertIn("Next: usher stat --objects 131072", " ".join((run.text + run.error).split()))
        roomy = self.stat("hot-after-many", "--objects", "262144")
        self.assertEqual(roomy.report["not_seen"]["calls"], 0)
        self.assertNotIn("not seen", roomy.report["verdict"])

    def test_a_thousand_threads(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("thousand-threads", lock=lock)
                row = run.row("shared_mutex")
                self.assert_exact(row, acquisitions=run.own["shared_mutex"]["acquisitions"])
                self.assertGreaterEqual(run.report["threads"], run.own["shared_mutex"]["threads"])
                self.assertLessEqual(row["contended"], row["acquisitions"])
                self.assert_first_line(row["waiters"], "a thousand wait")


class Processes(Planted):
    def test_a_child_contends_for_its_own(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("forked", lock=lock)
                rows = [row for row in run.rows if "shared_mutex" in row["name"]]
                own = run.own["shared_mutex"]
                each = sorted(one["acquisitions"] for row in rows for one in row["each"])
                self.assertEqual(each, sorted((own["acquisitions"], own["childs"])), run.report)
                self.assertEqual(run.report["processes"], 2)
                for row in rows:
                    self.assert_first_line(row["waiters"], "shared waits")

    def test_a_chain_of_execs(self):
        run = self.stat("chain 200")
        rows = [row for row in run.rows if "shared_mutex" in row["name"]]
        self.assertEqual(sum(row["acquisitions"] for row in rows), 200 * 10 + 60)
        self.assertEqual(run.report["processes"], 200)

    def test_many_short_processes(self):
        run = self.stat("processes 200")
        rows = [row for row in run.rows if "tried_mutex" in row["name"]]
        self.assertEqual(sum(row["acquisitions"] for row in rows), 200 * 501)
        self.assertEqual(sum(row["failed_tries"] for row in rows), 200 * 3000)
        self.assert_exact(run.row("shared_mutex"), acquisitions=60)


class Unmapping(Planted):
    def test_code_and_stacks_that_go_while_chains_are_taken(self):
        run = self.stat("unmaps")
        self.assertEqual(sum(row["acquisitions"] for row in run.rows if marked("under generated code") in
                             lines_of(row["place"])), run.own["unmapped"]["made"], run.report)


    def test_two_libraries_in_turn_at_one_place(self):
        run = self.stat("alternating")
        own = run.own["made"]
        if own["same"] < own["each"]:
            self.skipTest("the libraries were loaded at different addresses")
        for form in "first", "second":
            self.assert_exact(run.row(mark=f"made in the {form} form"), by_init=True, objects=own["each"],
                              acquisitions=own["each"])
            self.assert_exact(run.row(f"{form}_data"), acquisitions=own["each"])


class Sandboxes(Planted):
    def test_killed_for_opening_a_file(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("sandboxed", lock=lock)
                row = run.row("shared_mutex")
                self.assert_exact(row, acquisitions=run.own["shared_mutex"]["acquisitions"])
                self.assert_first_line(row["waiters"], "shared waits")


class Ends(Planted):
    def test_the_table_survives_the_program(self):
        for scenario, ends in (("aborts", signal.SIGABRT), ("killed", signal.SIGKILL)):
            for lock in BOTH:
                with self.subTest(scenario=scenario, lock=lock):
                    run = self.stat(scenario, lock=lock, status=128 + ends)
                    row = run.row("shared_mutex")
                    self.assert_exact(row, acquisitions=run.own["shared_mutex"]["acquisitions"])
                    self.assertGreater(row["contended"], 0)
                    self.assert_first_line(row["waiters"], "shared waits")
                    self.assertIn("shared_mutex", run.text + run.error)

    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        for option in ("--json", "--pprof", "--folded"):
            with self.subTest(option=option):
                run = self.stat("aborts", option, "/dev/full", status=None)
                self.assertNotEqual(run.status, 0)
                wrong = [line for line in run.error.splitlines() if "/dev/full" in line]
                self.assertEqual(len(wrong), 1, run.error)
                self.assertIn("shared_mutex", run.text + run.error)  # the table is shown nevertheless

    def test_a_program_without_symbols(self):
        run = self.stat("", command=[str(PROGRAMS / "planted_stripped"), "held-over-sleep"])
        row = run.rows[0]
        self.assert_exact(row, kind="mutex", acquisitions=36)
        self.assertIn("planted_stripped", row["name"])  # and an offset that addr2line accepts
        self.assertTrue(row["waiters"] and row["waiters"][0]["frames"], row)

    def test_programs_without_locks(self):
        for command in (["true"], [str(PROGRAMS / "planted"), "nothing"]):
            with self.subTest(command=command):
                run = self.stat("", command=command)
                self.assertEqual(run.report["rows"], [])
                self.assertEqual(len([line for line in (run.text + run.error).splitlines() if line.strip()]), 1)


class Reused(Planted):
    def test_a_mutex_where_another_one_lay(self):
        """The report names a mutex by the code that locks it now, not by the code that locked an earlier object at the
        same address."""
        run = self.stat("reused-memory")
        self.assertEqual(run.own["reused"]["same"], 1, "malloc did not give the same memory again")
        row = run.row("lock_the_new_one")
        self.assert_exact(row, acquisitions=run.own["reused"]["acquisitions"] + 1)
        self.assertIn("lock_the_old_one", row["first_locked"])
        self.assertIn("first locked elsewhere", " ".join((run.text + run.error).split()))


class Forged(Planted):
    """The recorded program writes forged values into its record: programs/forger.cpp. The observer must end with the program's status and
    write a report of some kind."""

    def forged(self, what):
        run = self.stat(None, command=[str(PROGRAMS / "forger"), what], status=7)
        self.assertIsNotNone(run.report)
        return run

    def test_the_header(self):
        self.forged("header")

    def test_all_of_it(self):
        self.forged("all")

    def test_thousands_of_deadlocks(self):
        run = self.forged("circles")
        self.assertLessEqual(len(run.report["deadlocks"]), 16)

    def test_ids_of_others(self):
        self.forged("ids")


class Interrupted(Planted):
    def test_handlers_that_post(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("handler-posts", lock=lock)
                self.assert_exact(run.row("posted"), kind="semaphore", signals=run.own["posted"]["posts"],
                                  acquisitions=run.own["posted"]["posts"])

    def test_the_stack_of_a_handler(self):
        os.environ["LD_BIND_NOW"] = "1"
        self.addCleanup(os.environ.pop, "LD_BIND_NOW")
        for lock in BOTH:
            with self.subTest(lock=lock):
                plain = subprocess.run([USHER, "run", "--lock", lock or "pthread", "--", PROGRAMS / "planted",
                                        "handler-stack"], env=self.environment(), stdout=subprocess.PIPE, check=True,
                                       timeout=300)
                unrecorded = json.loads(plain.stdout)["needed"]
                run = self.stat("handler-stack", lock=lock)
                self.assert_exact(run.row("held"), contended=1)
                more = {call: run.own["needed"][call] - bytes for call, bytes in unrecorded.items()}
                self.assertLessEqual(max(more.values()), 1024, more)

    def test_a_handler_that_forks(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("handler-forks", lock=lock)
                row = run.row("between")
                posts = run.own["between"]["posts"]
                self.assert_exact(row, acquisitions=posts, signals=posts, still_waiting=0, most_waiting=1)
                self.assertLessEqual(row["contended"], posts)

    def test_condition_variables_that_are_left_in_haste(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("left-in-haste", lock=lock)
                own = run.own["left"]
                self.assert_exact(run.row(mark="door of a room"), acquisitions=own["waits"], woken=own["waits"],
                                  signals=own["broadcasts"], unheard=0, still_waiting=0)

    def test_threads_that_are_cancelled_while_they_wait(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("cancelled", lock=lock)
                own = run.own["never"]
                self.assert_exact(run.row("never_posted"), acquisitions=1)
                self.assert_exact(run.row("never_signalled"), acquisitions=own["waits"], woken=0, signals=0)
                self.assertEqual(run.report["deadlocks"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
