#!/usr/bin/env python3
"""lab/results/held-out.json agrees with the machine files; a page of other files is refused."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
MACHINES = TREE / "lab" / "sim" / "machines"
sys.path.insert(0, str(TREE))
from lab.claims import held_out
from lab.claims.held_out_numbers import CURVES, RUNS, SENTENCES, SOURCES


def tool(*words):
    return subprocess.run([sys.executable, "-m", "lab.claims.held_out", *words], capture_output=True, text=True, timeout=250, cwd=TREE)


class HeldOut(unittest.TestCase):
    def test_results_and_machine_files_belong_together(self):
        done = tool("--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_machine_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MACHINES, folder, dirs_exist_ok=True)
            file = Path(folder) / "x5-2.toml"
            file.write_text(file.read_text() + "\nanother = 1\n")
            done = tool("--check", "--machines", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("x5-2.toml is another than when lab/results/held-out.json was measured", done.stderr)
            with unittest.mock.patch.object(held_out, "MACHINES", Path(folder)), self.assertRaises(SystemExit):
                held_out.whole_page("<!-- held out -->\n<!-- /held out -->\n")

    def test_comments_and_sources_may_change(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MACHINES, folder, dirs_exist_ok=True)
            file = Path(folder) / "niagara-2.toml"
            file.write_text("# a comment\n" + file.read_text().replace('source = "', 'source = "another '))
            self.assertEqual(tool("--check", "--machines", folder).returncode, 0)

    def test_a_machine_that_is_not_measured_may_change(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MACHINES, folder, dirs_exist_ok=True)
            (Path(folder) / "graviton3.toml").write_text("")
            self.assertEqual(tool("--check", "--machines", folder).returncode, 0)

    def test_what_is_fitted_is_read_from_the_file(self):
        for key in ("coherence.per_sharer", "coherence.per_read"):
            self.assertIn(key, held_out.fitted_keys(MACHINES, "x5-2"))
        self.assertNotIn("coherence.clean", held_out.fitted_keys(MACHINES, "x5-2"))

    def test_factors(self):
        self.assertEqual(held_out.factor(2, 4), 2)
        self.assertEqual(held_out.factor(4, 2), 2)
        self.assertEqual(held_out.factor(0, 0), 1)
        self.assertIsNone(held_out.factor(0, 1))
        self.assertEqual(held_out.factor(3, None), float("inf"))
        self.assertEqual(held_out.shares([1, 1.3, 1.6, 3]), "4 | 1.45 | 25 % | 50 % | 75 %")

    def test_trials_are_the_forms_of_a_home(self):
        self.assertEqual(held_out.trials_of()["all"], {"coherence.home_waits_for": "all answers"})
        self.assertEqual(set(held_out.trials_of()), set(held_out.TRIALS))
        self.assertEqual(held_out.share_texts([1, 1.3, 1.6, 3]), "1.45 (25, 50, 75)")

    def test_waiters_of_libslock_slow_their_neighbour_as_work_does(self):
        self.assertEqual(held_out.spinning_is_work("xeon-e7-4830v3", MACHINES), {"hardware_threads.slowed_by_spin": 1.6})
        self.assertEqual(held_out.spinning_is_work("opteron-6172", MACHINES), {})

    def test_the_second_run_of_a_machine_has_the_settings_of_the_first(self):
        westmere = next(c for c in CURVES if c.id == "westmere")
        again = RUNS["westmere again"]
        cs = json.loads(held_out.RESULT.read_text())["curves"]["westmere"]["cs"]
        (_, first) = held_out.runs_of(westmere, cs, MACHINES)
        self.assertEqual((again.machine, again.settings, again.placement, again.ms, again.machine_settings, again.locks),
                         (first.machine, first.settings, first.placement, first.ms, first.machine_settings, first.locks))

    def test_crossings(self):
        self.assertEqual(held_out.crossing({1: 2.0, 2: 1.5, 4: 1.0}, {1: 1.0, 2: 1.45, 4: 1.4}, 1.1), (1, 4))
        self.assertIsNone(held_out.crossing({1: 2.0, 2: 1.0}, {1: 1.0, 2: 1.05}, 1.1))
        self.assertIsNone(held_out.crossing({1: 1.0}, {1: 2.0}, 1))

    def test_what_has_not_settled_is_said(self):
        self.assertEqual(held_out.settling_text({"runs": 5, "unsettled": {}}), "All 5 runs had settled.")
        settling = held_out.Settling()
        settling.count(RUNS["randarray 256"], [{"lock": "mcs", "threads": 256, "settled": s} for s in (True, False, False)])
        self.assertIn("Of 3 runs 2 had not settled",
                      text := held_out.settling_text({"runs": settling.runs, "unsettled": settling.unsettled}))
        self.assertIn("randarray on t5, mcs with 256 threads 2 times", text)

    def test_a_run_may_be_repeated_alone(self):
        result = {"machines": held_out.hashes(MACHINES), "numbers": {"F3 spinlock": [1.0]}, "sentences": {}, "commands": {}, "unsettled": {}}
        points = lambda usher, run, settling: [lambda lock, threads, of="throughput": 2.0]
        with unittest.mock.patch.object(held_out, "points_of", points):
            again = held_out.measure_again("usher", MACHINES, result, ["mcsg"])
        self.assertEqual(again["numbers"]["G4 MCS"], [2.0])
        self.assertEqual(again["numbers"]["F3 spinlock"], [1.0])
        self.assertEqual(again["commands"], {"mcsg": held_out.shown(RUNS["mcsg"])})
        self.assertEqual(set(again["again"]), {"mcsg"})
        with self.assertRaises(SystemExit):
            held_out.measure_again("usher", MACHINES, again | {"machines": {}}, ["mcsg"])

    def test_curves_of_other_commands_are_refused(self):
        curve = CURVES[0]
        written = {"cs": 7, "set_by": held_out.set_by(curve), "commands": [held_out.shown(r) for r in held_out.runs_of(curve, 7, MACHINES)],
                   "values": {name: {str(t): [1] for t in row} for name, row in curve.published.items()}}
        self.assertTrue(held_out.same_curve(curve, written, "", MACHINES))
        self.assertFalse(held_out.same_curve(curve, written, "all", MACHINES))
        self.assertFalse(held_out.same_curve(curve, written | {"cs": 8}, "", MACHINES))
        self.assertFalse(held_out.same_curve(curve, written | {"set_by": ["MCS", 6, 1.0]}, "", MACHINES))
        self.assertFalse(held_out.same_curve(curve, written | {"values": {}}, "", MACHINES))

    def test_numbers_are_named_once_and_run(self):
        names = [n.id for source in SOURCES for n in source.numbers]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({n.run for source in SOURCES for n in source.numbers} | {s.run for s in SENTENCES}, set(RUNS))
        for curve in CURVES:
            self.assertTrue((MACHINES / f"{curve.machine}.toml").is_file())
            keys = held_out.fitted_keys(MACHINES, curve.machine)
            self.assertEqual(keys, set(), "a machine of a held-out curve is set from latencies only")


if __name__ == "__main__":
    unittest.main()
