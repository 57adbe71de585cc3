#!/usr/bin/env python3
"""`usher stat` must name the object, the source line and the verdict where contention was planted. Counts must be exact
wherever they can be counted exactly; times must be within 5 % of the program's own clock readings.
"""

import concurrent.futures
import unittest

from planted import PROGRAMS, Planted, lines_of, marked

BOTH = (None, "loiter")  # with the C library's locks, and under a lock of Usher


def waiting(name, own=None):
    """Returns the argument `compare` of measured(), which compares the waiting of a row with the program's own clock.
    """
    def compare(run):
        row, clock = run.row(name), run.own[own or name]
        return [("waited", row["waiting"]["total"], clock["waited"]),
                ("longest", row["waiting"]["longest"], clock["longest"])]
    return compare


def waiting_and_holding(name, own=None):
    def compare(run):
        row, clock = run.row(name), run.own[own or name]
        return [*waiting(name, own)(run), ("held", row["holding"]["total"], clock["held"])]
    return compare


class Mutexes(Planted):
    def test_one_hot_lock_among_a_thousand(self):
        mark = "accounts"

        def compare(run):
            row, own = run.row(mark=mark), run.own["hot"]
            return [("waited", row["waiting"]["total"], own["waited"]),
                    ("longest", row["waiting"]["longest"], own["longest"])]
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("one-hot", compare=compare, lock=lock)
                row, hot, cold = run.row(mark=mark), run.own["hot"], run.own["cold"]
                self.assertIs(row, run.rows[0])
                self.assert_exact(row, kind="mutex", by_init=True, objects=cold["objects"] + 1,
                                  acquisitions=hot["acquisitions"] + cold["objects"] * cold["each"])
                self.assertEqual(int(row["each"][0]["address"], 16), hot["address"])
                self.assert_exact(row["each"][0], acquisitions=hot["acquisitions"])
                self.assertEqual(row["each"][0]["contended"], row["contended"])
                self.assert_first_line(row["waiters"], "hot account waits")
                self.assert_first_line(row["holders"], "hot account released")
                self.assert_verdict(row, "one-of-many", says=row["each"][0]["name"])

    def test_a_convoy(self):
        # All holds are timed (--hold-times). Otherwise a sampled hold would stand for many holds, even if its thread
        # had lost the CPU during it. On a busy machine threads lose the CPU in any case, so one of three rules may
        # apply.
        rules = "convoy", "hot-short", "cpus-taken"
        run = self.measured("convoy", "--hold-times", compare=waiting("queue_mutex"),
                            succeeded=lambda run: run.row("queue_mutex")["rule"] in rules)
        row = run.row("queue_mutex")
        self.assert_exact(row, kind="mutex", objects=1, acquisitions=run.own["queue_mutex"]["acquisitions"])
        self.assert_first_line(row["waiters"], "convoy waits")
        self.assert_first_line(row["holders"], "convoy released")
        self.assertAlmostEqual(row["holding"]["yielding"], 1 / 16, delta=0.01)
        self.assert_verdict(row, *rules)

    def test_held_over_a_sleep(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("held-over-sleep", "--hold-times", lock=lock,
                                    compare=waiting_and_holding("ledger"))
                row = run.row("ledger")
                self.assertIs(row, run.rows[0])
                self.assert_exact(row, kind="mutex", objects=1, acquisitions=36)
                # The reported line is the program's call of the C++ library, not a line in that library.
                self.assert_first_line(row["waiters"], "ledger waits")
                self.assert_first_line(row["holders"], "ledger released")
                self.assertTrue(row["holding"]["exact"])
                self.assertGreater(row["held_share"], 0.7)
                self.assert_verdict(row, "sleeping-hold", says="mutexes.cpp:")

    def test_a_starving_thread(self):
        # If another rule applies, the run is repeated: if a holder has lost its CPU, the longest hold is too long for
        # the rules "starving" and "rare-wait".
        run = self.measured("starving", compare=waiting("greedy_mutex", own="starved"),
                            succeeded=lambda run: run.row("greedy_mutex")["rule"] in ("starving", "rare-wait"))
        row, own = run.row("greedy_mutex"), run.own["starved"]
        self.assert_exact(row, acquisitions=run.own["greedy_mutex"]["acquisitions"])
        self.assertEqual(row["threads"][0]["tid"], own["thread"])
        self.assertGreater(row["threads"][0]["waited"], 0.99 * row["waiting"]["total"])
        self.assert_first_line(row["waiters"], "starved waits")
        self.assert_first_line(row["holders"], "greedy released")
        self.assert_verdict(row, "starving", "rare-wait")

    def test_a_table_of_buckets(self):
        for scenario, options, own in (("buckets", {"name": "table"}, "table"),
                                       ("heap-buckets", {"mark": "heap bucket waits"}, "heap")):
            with self.subTest(scenario=scenario):
                # If another rule names one bucket as the cause, the run is repeated: the holder of that bucket's mutex
                # may have lost the CPU.
                run = self.measured(scenario, compare=lambda run: [],
                                    succeeded=lambda run, options=options: run.row(**options)["rule"] == "spread")
                row = run.row(**options)
                self.assert_exact(row, kind="mutex", objects=1024, acquisitions=run.own[own]["acquisitions"])
                self.assertEqual({each["acquisitions"] for each in row["each"]}, {16})
                self.assertLessEqual(row["waiting"]["total"], run.own[own]["waited"])
                self.assert_verdict(row, "spread")

    def test_a_hot_bucket(self):
        def compare(run):
            row, own = run.row("table"), run.own["table"]
            # Only the longest waits are compared. The program's sum of waiting contains the time of calls that did not
            # wait.
            return [("longest", row["waiting"]["longest"], own["longest"])]
        run = self.measured("hot-bucket", compare=compare)
        row, own = run.row("table"), run.own["table"]
        hot = row["each"][0]
        self.assert_exact(row, objects=1024 // 2 + 1, acquisitions=own["acquisitions"])
        self.assertEqual(int(hot["address"], 16), own["address"])
        self.assert_exact(hot, acquisitions=own["acquisitions"] // 2)
        self.assertIn(f"+{own['offset']:#x}", hot["name"])
        self.assertGreater(hot["waiting"]["total"], 0.9 * row["waiting"]["total"])
        self.assert_first_line(row["waiters"], "bucket waits")
        self.assert_verdict(row, "one-of-many", says=hot["name"])

    def test_kinds_of_mutex(self):
        names = ("recursive_mutex", "checking_mutex", "adaptive_mutex")

        def compare(run):
            return [one for name in names for one in waiting_and_holding(name)(run)]
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("kinds", "--hold-times", compare=compare, lock=lock)
                for name in names:
                    own = run.own[name]
                    self.assert_exact(run.row(name), acquisitions=own["acquisitions"], contended=own["contended"],
                                      most_waiting=1, failed_tries=0)
                    self.assert_first_line(run.row(name)["waiters"], "met")

    def test_locks_that_time_out(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("timeouts", compare=waiting("timed_mutex"), lock=lock)
                row = run.row("timed_mutex")
                self.assert_exact(row, acquisitions=1, timeouts=run.own["timed_mutex"]["timeouts"], most_waiting=3)
                self.assert_first_line(row["waiters"], "gave up")
                self.assert_verdict(row, "sleeping-hold")

    def test_trylocks_that_fail(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("tries", lock=lock)
                own = run.own["tried_mutex"]
                self.assert_exact(run.row("tried_mutex"), acquisitions=own["acquisitions"],
                                  failed_tries=own["failed"], contended=0)
                self.assertEqual(run.row("tried_mutex")["tries"], {"count": 0, "total": 0, "longest": 0})

    def test_acquisitions_after_trylocks_that_failed(self):
        """The report measures the time from a failed trylock to the next acquisition, and no time after an acquisition
        by lock()."""
        def compare(run):
            tries, own = run.row("retried_mutex")["tries"], run.own["retried_mutex"]
            return [("tried", tries["total"], own["waited"]), ("longest", tries["longest"], own["longest"])]
        for lock in BOTH:
            with self.subTest(lock=lock):
                row = self.measured("retries", compare=compare, lock=lock).row("retried_mutex")
                self.assert_exact(row, acquisitions=6, failed_tries=2, contended=0)
                self.assertEqual(row["tries"]["count"], 2)

    def test_locks_that_nobody_waits_for(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("uncontended", lock=lock)
                row = run.row("idle_mutex")
                self.assert_exact(row, acquisitions=run.own["idle_mutex"]["acquisitions"], contended=0)
                self.assertEqual(row["waiting"]["total"], 0)
                self.assert_verdict(row, "uncontended")
                self.assertEqual(run.report["rule"], "cold")


class Conditions(Planted):
    def test_a_herd(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("herd", lock=lock)
                row, own = run.row("item_came"), run.own["item_came"]
                self.assert_exact(row, kind="condition", acquisitions=own["waits"], woken=own["waits"],
                                  signals=own["broadcasts"], unheard=0, herd=own["herd"])
                self.assert_first_line(row["waiters"], "herd waits")
                self.assert_verdict(row, "herd", says="40 threads")

    def test_signals_with_and_without_waiters(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("signals", compare=waiting("signalled"), lock=lock)
                row, own = run.row("signalled"), run.own["signalled"]
                self.assert_exact(row, kind="condition", woken=own["heard"], signals=own["signals"],
                                  unheard=own["unheard"], timeouts=own["timeouts"],
                                  acquisitions=own["heard"] + own["timeouts"])
                self.assert_first_line(row["waiters"], "wait for signal")

    def test_calls_in_vain_by_the_million(self):
        """Failed trylocks and signals without a waiter are counted roughly, which the report says. Acquisitions of the
        same objects are counted exactly."""
        run = self.stat("many-in-vain")
        tried, signalled = run.row("vain_mutex"), run.row("vain_condition")
        self.assert_exact(tried, acquisitions=run.own["vain_mutex"]["acquisitions"])
        rate = run.report["counting"]["then_one_in"]
        self.assertGreater(rate, 1)
        for counted, own in ((tried["failed_tries"], run.own["vain_mutex"]["failed"]),
                             (signalled["unheard"], run.own["vain_condition"]["unheard"])):
            # Each counted call stands for a random number of calls from 1 to 31. The mean of about 12,000 such numbers is 16 ± 0.5 %.
            self.assertAlmostEqual(counted / own, 1, delta=0.05)
        self.assertEqual(signalled["signals"], signalled["unheard"])
        timed = tried["holding"]["timed"]
        self.assertGreater(timed, 1000)
        self.assertLess(timed, tried["acquisitions"])

    def test_mutexes_that_are_locked_often(self):
        """Each thread counts its holds in slots of its own. No hold is lost, whatever else the program does with the
        mutexes."""
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("locked-often", lock=lock)
                for row, own in ((run.row("inner_mutex"), "inner_mutex"), (run.row("passed_on_mutex"), "passed_on_mutex"),
                                 (run.row(mark="many often"), "many"), (run.row(mark="again often"), "again")):
                    self.assert_exact(row, acquisitions=run.own[own]["acquisitions"])
                often, own = run.row("often_mutex"), run.own["often_mutex"]
                # Acquisitions within pthread_cond_wait are counted, too, but the program does not know their number.
                self.assertGreaterEqual(often["acquisitions"], own["acquisitions"])
                self.assertLess(often["acquisitions"], own["acquisitions"] + 8000)
                # About one acquisition in thirty is in the sample of timed holds.
                inner = run.row("inner_mutex")
                self.assertLess(inner["holding"]["timed"], inner["acquisitions"] / 5)

    def test_holds_with_a_period(self):
        """The holds of the program are long with a fixed period; the sample of timed holds must not have the same
        period."""
        run = self.measured("in-a-rhythm", compare=lambda run: [],
                            succeeded=lambda run: 0.8 < self.rhythm(run) < 1.3)
        self.assertGreater(self.rhythm(run), 0.8)
        self.assertLess(self.rhythm(run), 1.3)

    def rhythm(self, run):
        """Returns the report's estimate of the time of all holds, divided by the program's measurement of its long
        holds, which are most of that time."""
        row = run.row("rhythm_mutex")
        return row["holding"]["total"] / (run.own["rhythm_mutex"]["long_holds"] / 1e9)

    def test_two_signals_for_one_waiter(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.stat("signalled-twice", lock=lock)
                own = run.own["twice"]
                self.assert_exact(run.row("twice"), acquisitions=own["heard"], woken=own["heard"],
                                  signals=own["signals"], unheard=own["signals"] - own["heard"])


class Semaphores(Planted):
    def test_few_credits(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("credits", compare=waiting("connections"), lock=lock)
                row, own = run.row("connections"), run.own["connections"]
                self.assert_exact(row, kind="semaphore", acquisitions=own["acquisitions"], signals=own["posts"])
                self.assert_first_line(row["waiters"], "connection waits")
                self.assert_verdict(row, "no-credits")

    def test_as_a_mutex(self):
        def compare(run):
            return [("waited", run.row(mark="door")["waiting"]["total"], run.own["door"]["waited"])]
        run = self.measured("semaphore-mutex", compare=compare)
        row, own = run.row(mark="door"), run.own["door"]
        self.assert_exact(row, kind="semaphore", by_init=True, acquisitions=own["acquisitions"], signals=own["posts"])
        self.assert_first_line(row["waiters"], "door waits")
        self.assert_verdict(row, "no-credits")


class Deadlocks(Planted):
    """Deadlocks in programs that wait, without CPU time, until they are killed. So all of these programs run at the
    same time."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pool = concurrent.futures.ThreadPoolExecutor(8)
        one = cls()
        cls.runs = {(scenario, lock): cls.pool.submit(one.stat, scenario, "--duration", "1.6", lock=lock, status=None)
                    for scenario in ("opposite-order", "ring", "self") for lock in BOTH}
        cls.runs["write-locks", None] = cls.pool.submit(one.stat, "write-locks", "--duration", "1.6", status=None)
        cls.runs["no-deadlock", None] = cls.pool.submit(one.stat, "no-deadlock")
        cls.runs.update({(scenario, lock): cls.pool.submit(one.stat, scenario, lock=lock)
                         for scenario in ("retreats", "ended-circle", "deadlocked-child") for lock in BOTH})

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        super().tearDownClass()

    def deadlock(self, scenario, lock):
        run = self.runs[scenario, lock].result()
        self.assertEqual(len(run.report["deadlocks"]), 1, run.text + run.error)
        self.assertEqual(run.report["rule"], "deadlock")
        self.assertTrue(any(row["rule"] == "deadlock" for row in run.rows))
        circle = run.report["deadlocks"][0]
        self.assertGreaterEqual(circle["seconds"], 1)
        self.assertEqual(len({thread["tid"] for thread in circle["threads"]}), len(circle["threads"]))
        self.assertIn("deadlock", (run.text + run.error).lower())
        return circle["threads"]

    def test_two_in_opposite_order(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                by_name = {one["waits_for"].split("::")[-1]: one["stack"] for one in self.deadlock("opposite-order", lock)}
                self.assertEqual(set(by_name), {"left", "right"})
                self.assert_first_line([by_name["right"]], "left, then right")
                self.assert_first_line([by_name["left"]], "right, then left")

    def test_read_write_locks_that_are_held_to_write(self):
        by_name = {one["waits_for"].split("::")[-1]: one["stack"] for one in self.deadlock("write-locks", None)}
        self.assertEqual(set(by_name), {"outer", "inner"})
        self.assert_first_line([by_name["inner"]], "outer, then inner")
        self.assert_first_line([by_name["outer"]], "inner, then outer")
        self.assertEqual({row["rule"] for row in self.runs["write-locks", None].result().rows if row["kind"] == "rwlock"}, {"deadlock"})

    def test_a_ring_of_three(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                threads = self.deadlock("ring", lock)
                self.assertEqual(len(threads), 3)
                for thread in threads:
                    self.assert_first_line([thread["stack"]], "own, then next")

    def test_a_thread_that_waits_for_itself(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                thread, = self.deadlock("self", lock)
                self.assertIn("once", thread["waits_for"])
                self.assert_first_line([thread["stack"]], "once more")

    def test_a_deadlock_of_a_killed_process(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                self.assertEqual(len(self.deadlock("deadlocked-child", lock)), 2)

    def test_threads_that_retreat_at_a_deadline(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.runs["retreats", lock].result()
                self.assertEqual((run.status, run.report["deadlocks"]), (0, []), run.error)
                self.assertNotIn("deadlock:", run.text + run.error)

    def test_a_circle_that_ends(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.runs["ended-circle", lock].result()
                self.assertEqual((run.status, run.report["deadlocks"]), (0, []), run.error)
                self.assertNotEqual(run.report["rule"], "deadlock")
                self.assertNotIn("deadlock", [row["rule"] for row in run.rows])
                said, ended = run.error.splitlines()[:2]
                self.assertIn("deadlock: 2 threads have waited", said)
                self.assertRegex(ended, r"threads \d+, \d+ no longer wait for each other: no deadlock")
                remark, = (one for one in run.report["remarks"] if "each other in a circle" in one)
                self.assertRegex(remark, r"^2 threads waited for each other in a circle for at least [\d.]+ s and then went on")

    def test_a_long_wait_is_none(self):
        run = self.runs["no-deadlock", None].result()
        self.assertEqual(run.report["deadlocks"], [])
        self.assertNotEqual(run.report["rule"], "deadlock")


class Places(Planted):
    """Places of critical sections that are made by C++ guards, in a program that is compiled with -O2."""

    def guards(self, scenario, form):
        run = self.stat(scenario, command=[str(PROGRAMS / form), scenario])
        self.assertNotIn("libstdc++", run.report["verdict"])
        self.assertIn("held at (" if scenario == "inlined" else "held in a function called at (", run.error)
        self.assertNotIn("gives no names", run.error)
        return run.row("ledger")["verdict"]

    def test_of_an_unlock_by_a_tail_call(self):
        file, line = marked("guard waits")
        for scenario in ("thread", "loop"):
            with self.subTest(scenario=scenario):
                self.assertIn(f"critical section at {file}:{line} (append_entry), where it is entered", self.guards(scenario, "guards"))
                self.assertIn("critical section at append_entry in guards_no_debug, where it is entered",
                              self.guards(scenario, "guards_no_debug"))

    def test_of_an_inlined_guard(self):
        file, line = marked("inlined guard's end")
        self.assertIn(f"critical section at {file}:{line} (read_entries);", self.guards("inlined", "guards"))
        self.assertIn("critical section at read_entries in guards_no_debug;", self.guards("inlined", "guards_no_debug"))


class Elsewhere(Planted):
    def in_library(self, scenario, rounds):
        run = self.measured(scenario, compare=waiting("library_mutex"))
        row = run.row("library_mutex")
        self.assertIs(row, run.rows[0])
        self.assertEqual(row["module"].rsplit("/")[-1], "libplanted.so")
        self.assert_exact(row, acquisitions=45 * rounds)
        self.assert_first_line(row["waiters"], "library waits")
        self.assert_first_line(row["holders"], "library released")
        self.assert_exact(run.row(mark="library's heap mutex"), by_init=True, acquisitions=45 * rounds)
        return row

    def test_a_hot_lock_inside_a_shared_library(self):
        self.assert_verdict(self.in_library("in-library", 1), "sleeping-hold", says="library.cpp:")

    def test_a_library_that_is_closed_and_opened_again(self):
        self.in_library("unloaded", 3)

    def test_the_mutex_of_an_allocator(self):
        for lock in BOTH:
            with self.subTest(lock=lock):
                run = self.measured("", command=[str(PROGRAMS / "allocator")], compare=waiting("heap_mutex"), lock=lock)
                row, own = run.row("heap_mutex"), run.own["heap_mutex"]
                self.assertIs(row, next(r for r in run.rows if r["kind"] != "join"))
                # The report may miss a few acquisitions, because the loader allocates memory before libusher.so is
                # initialised.
                self.assertLessEqual(row["acquisitions"], own["acquisitions"])
                self.assertGreaterEqual(row["acquisitions"], own["acquisitions"] - own["before_main"])
                self.assert_first_line(row["waiters"], "heap waits")
                self.assertTrue(any(marked("allocates") in lines_of(one) for one in row["waiters"]), row["waiters"])
                self.assert_first_line(row["holders"], "heap released", within=3)
                self.assert_verdict(row, "allocator")


if __name__ == "__main__":
    unittest.main(verbosity=2)
