#!/usr/bin/env python3
"""`usher stat` must tell from samples of /proc what sleeping threads wait for, and how many threads wait for a CPU.
Expected shares have wide limits, since the machine may be busy. The attacker is the recorded process: its stack pointer
may lead nowhere, its stack may be memory that never arrives, and it may have thousands of threads, which end while the
observer samples them.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

from planted import LIBRARY, PROGRAMS, USHER, Planted

SLEEPING = PROGRAMS / "sleeping"
THREADS = 4


def share(report, call, module):
    """Returns the share of the samples in which a thread was in this system call, called by a module of this name."""
    places = [p for p in report["asleep"]["places"] if p["call"] == call and os.path.basename(p["module"] or "") == module]
    return sum(p["samples"] for p in places) / report["asleep"]["samples"]


def functions(report, call):
    return {f["function"] for p in report["asleep"]["places"] if p["call"] == call for f in p["stack"]["frames"]}


class Command(Planted):
    def sleeping(self, way, threads=THREADS, seconds=1, *options):
        return self.stat(None, *options, command=[str(SLEEPING), way, str(threads), str(seconds)])

    def assert_sums(self, report):
        asleep = report["asleep"]
        parts = sum(asleep["recorded"].values()) + asleep["unreadable"] + sum(p["samples"] for p in asleep["places"])
        self.assertEqual(asleep["samples"], parts)
        self.assertEqual(asleep["unreadable"], 0)

    def test_calls_and_their_callers(self):
        # The program has five threads: THREADS of them sleep in the call, and the main thread sleeps in nanosleep.
        for way, call, module in (("library", "futex", "libsleeping.so"), ("atomic", "futex", "sleeping"), ("poll", "poll", "sleeping"),
                                  ("read", "read", "sleeping")):
            with self.subTest(way=way):
                report = self.sleeping(way).report
                self.assert_sums(report)
                self.assertGreater(share(report, call, module), 0.5, report["asleep"])
                self.assertGreater(share(report, "clock_nanosleep", "sleeping") + share(report, "nanosleep", "sleeping"), 0.05,
                                   report["asleep"])
        self.assertIn("sleep_in_library", functions(self.sleeping("library").report, "futex"))

    def test_futexes_that_no_record_explains_are_named(self):
        run = self.sleeping("library")
        self.assertIn("in futexes of libsleeping.so", run.error)
        self.assertNotIn("no lock can", run.error)

    def test_the_caller_of_a_library_that_sleeps_on_a_futex(self):
        run = self.sleeping("library")
        below = {f["function"] for p in run.report["asleep"]["places"] if p["call"] == "futex" for f in p["below"]["frames"]}
        self.assertTrue(any(f.endswith("sleep_in") for f in below), run.report["asleep"])
        self.assertRegex(" ".join(run.error.split()), r"libsleeping\.so, probably most of it below sleeping\.cpp:\d+ \(")
        self.assertIn("usher stat --details -- ", run.report["next"])

    @unittest.skipUnless((PROGRAMS / "openmp").exists(), "no OpenMP")
    def test_the_caller_of_a_barrier_of_openmp(self):
        with unittest.mock.patch.dict(os.environ, {"OMP_WAIT_POLICY": "passive"}):
            run = self.stat(None, command=[str(PROGRAMS / "openmp")])
            details = self.stat(None, "--details", command=[str(PROGRAMS / "openmp")])
        self.assertEqual(run.report["rule"], "unseen-futexes", run.error)
        self.assertRegex(" ".join(run.error.split()), r"in lib(gomp|omp)\.so[^ ]*, probably most of it below openmp\.cpp:\d+ \(.*--details")
        self.assertRegex(details.error, r"probably below:\n[^\n]*openmp\.cpp:\d+")

    def test_recorded_waits_count_for_their_kind(self):
        for way in ("mutex", "condition"):
            for lock in (None, "loiter"):
                with self.subTest(way=way, lock=lock):
                    report = self.stat(None, lock=lock, command=[str(SLEEPING), way, str(THREADS), "1"]).report
                    self.assert_sums(report)
                    self.assertGreater(report["asleep"]["recorded"][way] / report["asleep"]["samples"], 0.5, report["asleep"])
                    self.assertEqual(share(report, "futex", "sleeping"), 0)
        self.assertIn("was for recorded", run_text := self.sleeping("mutex").error)
        self.assertIn("Used ", run_text)

    def test_more_threads_than_cpus(self):
        threads = 4 * len(os.sched_getaffinity(0))
        report = self.sleeping("busy", threads, 3).report
        cpu = report["cpu"]
        self.assertLessEqual(cpu["cpus"], len(os.sched_getaffinity(0)))
        self.assertGreater(cpu["waiting"], threads / 4)
        self.assertLess(cpu["busy"], cpu["cpus"] + 0.2)
        # Each thread always computes or waits for a CPU. The sum is less than 1 for each thread, because the waiting
        # after the last sample is missing.
        self.assertAlmostEqual((cpu["busy"] + cpu["waiting"]) / threads, 0.8, delta=0.3, msg=cpu)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU only")
    def test_threads_that_are_ready_without_a_cpu(self):
        """All threads run on one CPU, although all CPUs are allowed for the program: the report may not say that one
        thread ran at a time. Threads wait for the mutex only while its holder has no CPU, so the report may not
        recommend another lock."""
        run = self.sleeping("one-cpu", THREADS, 3)
        cpu = run.report["cpu"]
        self.assertGreater(cpu["waiting"], 1, cpu)
        self.assertLess(cpu["busy"], 1.2, cpu)
        self.assertNotIn("one thread ran", run.error)
        self.assertNotRegex(run.error, r"(?s)try (another|other) lock|that wakes fewer")
        self.assertIsNone(run.report["next"])

    def test_threads_that_wait_for_no_cpu(self):
        cpu = self.sleeping("poll").report["cpu"]
        self.assertLess(cpu["busy"] + cpu["waiting"], 0.5)

    def test_processes_in_a_pid_namespace(self):
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*apart, "true"], capture_output=True, timeout=100, check=False).returncode != 0:
            self.skipTest("no right to make a PID namespace")
        report = self.stat(None, command=[*apart, str(SLEEPING), "mutex", str(THREADS), "1"]).report
        self.assertGreater(report["asleep"]["recorded"]["mutex"] / report["asleep"]["samples"], 0.5, report["asleep"])

    def test_a_stack_pointer_that_leads_nowhere(self):
        report = self.sleeping("hole").report
        self.assert_sums(report)
        self.assertGreater(sum(p["samples"] for p in report["asleep"]["places"] if p["call"] == "poll" and p["module"] is None) /
                           report["asleep"]["samples"], 0.5, report["asleep"])

    def test_threads_that_end_while_they_are_looked_at(self):
        self.assert_sums(self.sleeping("brief", 16, 2).report)

    def test_thousands_of_threads_take_bounded_time(self):
        limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        threads = 3000
        if limit != resource.RLIM_INFINITY and limit < 2 * threads:
            self.skipTest("not as many threads are permitted")
        run = self.sleeping("poll", threads, 3)
        self.assertTrue(run.report["asleep"]["of_a_part"])
        self.assertGreater(share(run.report, "poll", "sleeping"), 0.9, run.report["asleep"])

    def test_cpu_time_of_a_shell_between_recorded_programs_counts_once(self):
        script = 'for i in 1 2 3 4 5 6; do k=0; while [ $k -lt 100000 ]; do k=$((k+1)); done; "$0" mutex 1 0.5; done; times'
        run = self.stat(None, command=["/bin/sh", "-c", script, str(SLEEPING)])
        times = re.findall(r"(\d+)m([\d.]+)s", run.text)[-4:]  # of the shell and of its children: user, system
        used = sum(60 * int(minutes) + float(seconds) for minutes, seconds in times)
        self.assertLess(run.report["cpu"]["busy"] * run.report["seconds"], 1.2 * used + 0.2, times)

    def test_all_threads_affinities_count(self):
        cpus = len(os.sched_getaffinity(0))
        usable = self.sleeping("poll").report["cpu"]["cpus"]
        # the sampler reads the affinities only at intervals; its first pass may come before the threads begin
        for seconds in (1, 5, 25):
            of_pinned = self.sleeping("pinned", cpus, seconds).report["cpu"]["cpus"]
            if of_pinned == usable:
                break
        self.assertEqual(of_pinned, usable)


class Attached(unittest.TestCase):
    def attached(self, *words, wait=lambda pid: None, seconds="2"):
        folder = Path(tempfile.mkdtemp(prefix="usher-stat-"))
        self.addCleanup(shutil.rmtree, folder, True)
        program = subprocess.Popen([USHER, "run", "--lock", "pthread", "--", str(SLEEPING), *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, env={**os.environ, "USHER_LIBRARY": LIBRARY}, start_new_session=True)
        try:
            while "libusher" not in Path(f"/proc/{program.pid}/maps").read_text():
                time.sleep(0.01)
            wait(program.pid)
            done = subprocess.run([USHER, "stat", "-p", str(program.pid), "--duration", seconds, "--json", str(folder / "report.json")],
                                  capture_output=True, text=True, timeout=300, check=False)
            self.assertIsNone(program.poll())
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait(60)
        self.assertEqual(done.returncode, 0, done)
        return json.loads((folder / "report.json").read_text())

    @staticmethod
    def until_threads(count):
        def wait(pid):
            while len(os.listdir(f"/proc/{pid}/task")) < count:
                time.sleep(0.01)
        return wait

    def test_a_process_that_makes_no_call(self):
        report = self.attached("library", str(THREADS), "60", wait=self.until_threads(THREADS + 1))
        self.assertGreater(share(report, "futex", "libsleeping.so"), 0.5, report["asleep"])

    def test_only_what_comes_after_attaching_counts(self):
        def wait(pid):
            self.until_threads(5)(pid)
            time.sleep(1)  # that does not count
        report = self.attached("busy", "4", "60", wait=wait)
        cpu = report["cpu"]
        self.assertAlmostEqual(cpu["busy"] + cpu["waiting"], 4, delta=1.5)

    def test_a_stack_that_never_arrives(self):
        """A read of this stack blocks the sampler. The sampler then stops reading this process's memory and goes on."""
        began = time.monotonic()
        report = self.attached("absent", str(THREADS), "60", wait=self.until_threads(THREADS + 1), seconds="5")
        self.assertLess(time.monotonic() - began, 200)
        self.assertGreater(report["asleep"]["observations"], THREADS)
        self.assertTrue(all(p["module"] is None for p in report["asleep"]["places"]), report["asleep"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
