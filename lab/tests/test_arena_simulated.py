#!/usr/bin/env python3
"""Tests the arena on simulated machines: that points are run, that stored results are not run again, and the choice of the best lock of
a point."""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
from lab.arena import simulated as arena_sim

CASE = {"machine": "numa-q", "workload": "mutexbench", "parameters": {"cs": 4}, "threads": 8, "spin_ns": 5000}


def arena_of(throughputs, waits=None):
    """Returns an arena that runs nothing: the throughput of each lock is given, and the longest wait in ms."""
    arena = arena_sim.Arena(None, None, 1)

    def run(case, lock, seed, ms):
        if lock not in throughputs:
            return None
        return {"throughput": throughputs[lock], "settled": True, "longest_wait_ns": (waits or {}).get(lock, 1) * 1e6}
    arena.run = run
    return arena


class Best(unittest.TestCase):
    def judge(self, throughputs, waits=None):
        return arena_of(throughputs, waits).judge(CASE, list(throughputs), "own")

    def test_is_the_fastest(self):
        verdict = self.judge({"own": 2.0, "fast": 3.0, "slow": 1.0})
        self.assertEqual((verdict["best"], verdict["ratio"], verdict["too_long"]), ("fast", 1.5, []))

    def test_is_the_default_where_it_is_ahead(self):
        verdict = self.judge({"own": 2.0, "slow": 1.0})
        self.assertEqual((verdict["best"], verdict["ratio"]), ("own", 1.0))

    def test_keeps_the_bound_on_waiting(self):
        # With eight threads the bound on the longest wait is 10 ms.
        verdict = self.judge({"own": 2.0, "starves": 4.0, "fast": 3.0}, {"starves": 11, "fast": 9})
        self.assertEqual((verdict["best"], verdict["ratio"], verdict["too_long"]), ("fast", 1.5, ["starves"]))

    def test_may_wait_as_long_as_the_default_does(self):
        self.assertEqual(self.judge({"own": 2.0, "starves": 4.0}, {"own": 30, "starves": 30})["best"], "starves")
        self.assertEqual(self.judge({"own": 2.0, "starves": 4.0}, {"own": 30, "starves": 31})["best"], "own")

    def test_counts_however_long_it_waits_where_it_is_hardly_faster(self):
        self.assertEqual(self.judge({"own": 2.0, "starves": 2.04}, {"starves": 500})["best"], "starves")

    def test_is_unknown_without_the_default(self):
        self.assertIsNone(arena_of({"fast": 1.0}).judge(CASE, ["own", "fast"], "own"))

    def test_is_found_beyond_those_that_are_confirmed(self):
        starve = {f"starves{i}": 10.0 - i for i in range(arena_sim.CONTENDERS + 1)}
        verdict = self.judge({"own": 2.0, "fast": 3.0} | starve, dict.fromkeys(starve, 500))
        self.assertEqual((verdict["best"], len(verdict["too_long"])), ("fast", len(starve)))


class Points(unittest.TestCase):
    def test_go_to_twice_the_cpus(self):
        for machine, cpus in arena_sim.CPUS.items():
            self.assertEqual(arena_sim.threads_of(machine, 5000)[-1], 2 * cpus)
        self.assertEqual(arena_sim.threads_of("x5-2", 20000), [])
        self.assertEqual(arena_sim.threads_of("graviton4-2", 20000), [4, 32, 192])

    def test_a_lock_that_sleeps_at_once_has_no_budget(self):
        self.assertNotIn("spin_ns", arena_sim.Arena.point(CASE, "mcs-park", 1, 4))
        self.assertEqual(arena_sim.Arena.point(CASE, "mcs", 1, 4)["spin_ns"], 5000)

    def test_numbers_of_cpus_are_the_machines(self):
        shown = subprocess.run([USHER, "sim", "--list"], capture_output=True, text=True, timeout=100, env=arena_sim.ENVIRONMENT).stdout
        for machine, cpus in arena_sim.CPUS.items():
            self.assertRegex(shown, rf"\n *{machine} .*\({cpus} CPUs\)")

    def test_geometric_mean(self):
        self.assertAlmostEqual(arena_sim.geometric([1, 4]), 2)
        self.assertIsNone(arena_sim.geometric([]))


class Command(unittest.TestCase):
    def call(self, folder, *words):
        return subprocess.run([sys.executable, "-m", "lab.arena.simulated", "--usher", USHER, "--runs", str(Path(folder) / "runs"),
                               "--machines", "numa-q", "--programs", "mutexbench:1", "--threads", "2", "--jobs", "2", *words],
                              capture_output=True, text=True, timeout=300, cwd=TREE)

    def test_goes_on_where_it_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.call(folder, "--locks", "mcs,futex", "--default", "loiter")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("### loiter", done.stdout)
            file = Path(folder) / "runs"
            lines = file.read_text().splitlines()
            made = [json.loads(line) for line in lines]
            self.assertIn("build", made[0])
            self.assertEqual({e["point"]["lock"] for e in made[1:]}, {"loiter", "mcs", "futex"})
            file.write_text("\n".join(lines[:-1] + [lines[-1][:20]]))  # cuts the last line, as a killed call does
            again = self.call(folder, "--locks", "mcs,futex", "--default", "loiter")
            self.assertIn("; 1 runs now.", again.stdout)
            self.assertEqual(again.stdout.split("loiter: 1 of")[0], done.stdout.split("loiter: 1 of")[0])
            self.assertIn("; 0 runs now.", self.call(folder, "--locks", "mcs,futex", "--default", "loiter").stdout)

    def test_another_build_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.call(folder, "--locks", "mcs").returncode, 0)
            file = Path(folder) / "runs"
            lines = file.read_text().splitlines()
            file.write_text("\n".join(['{"build":"another"}'] + lines[1:]) + "\n")
            done = self.call(folder, "--locks", "mcs")
            self.assertEqual(done.returncode, 2)
            self.assertIn("was made by another build: name another file by --runs", done.stderr)
            self.assertIn("; 0 runs now.", self.call(folder, "--locks", "mcs", "--same").stdout)

    def test_the_time_may_be_up(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.call(folder, "--locks", "mcs", "--minutes", "0.00001")
            self.assertEqual(done.returncode, 0)
            self.assertIn("the time is up; the same command goes on", done.stderr)

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, line in ((["--locks", "mcx"], "lock 'mcx': 'usher list --all' shows"),
                                (["--machines", "x5"], "machine 'x5' has no points: take xeon-8260-8"),
                                (["--threads", "3"], "no point in common")):
                done = self.call(folder, *words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(line, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("usher")
    USHER = parser.parse_args().usher
    unittest.main(argv=sys.argv[:1])
