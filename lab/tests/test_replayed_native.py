"""Tests the judgement of lab.cases.replayed_native with made-up results, its picture, and that its lists have known programs."""

import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
sys.dont_write_bytecode = True

import lab  # noqa: E402, F401
import harness  # noqa: E402
from lab.cases import predicted_picture, replayed_native  # noqa: E402


def result():
    """Returns a made-up result with one program. futex is predicted exactly, steady 10 % too high, and twa, which is the slowest, is
    predicted as the fastest. mcs was not measured."""
    points = {"futex 2": [100.0, 90.0, 110.0], "steady 2": [200.0, 200.0, 200.0], "twa 2": [50.0, 50.0, 50.0], "mcs 2": "hung: killed after 30 s"}
    told = {"futex 2": [100.0, 95.0, 105.0], "steady 2": [220.0, 210.0, 230.0], "twa 2": [500.0, 500.0, 500.0], "mcs 2": [1.0, 1.0, 1.0]}
    run = {"rate": 90.0, "cpu_ns": 103.0, "cpu_s": 1.0}
    recorded = run | {"windows": 4, "windows_s": 0.2, "seconds": 2.0, "all_cpu_s": 2.0, "in_windows": 50.0, "replayed": 110.0}
    costs = {"alone": [{"rate": 100.0, "cpu_ns": 100.0, "cpu_s": 1.0}] * 3, **{str(length): [recorded] * 3 for length in replayed_native.LENGTHS}}
    return {"programs": {"p": {"title": "a < b", "recorded": 80.0, "windows": 4, "points": points, "predicted": told, "in_windows": 40.0}},
            "costs": {"c": {"title": "c", "runs": costs}}}


class Judgement(unittest.TestCase):
    def test_points(self):
        points = replayed_native.points_of(result()["programs"]["p"])
        self.assertEqual([(p["lock"], p["threads"], p["actual"]) for p in points],
                         [("futex", 2, [100.0, 90.0, 110.0]), ("steady", 2, [200.0, 200.0, 200.0]), ("twa", 2, [50.0, 50.0, 50.0])])
        self.assertEqual([round(e, 6) for e in replayed_native.ratio_errors(points)], [0.1, 9.0])
        self.assertEqual(replayed_native.choices(points), [0.25])
        self.assertEqual([replayed_native.within(points, limit) for limit in (0.05, 0.15, 0.40)], [1, 2, 2])

    def test_page(self):
        text = replayed_native.page_points(result())
        self.assertIn("Of 1 programs, 0 meet both bars. Of 3 points, 1 are within 5 %, 2 within 15 % and 2 within 40 %", text)
        self.assertIn("Of 3 pairs of locks that differ by 10 %, 1 are in order.", text)
        self.assertIn("at 2 of 3 points. 15 points have no value.", text)
        self.assertIn("900.0 % (twa, 2)", text)
        self.assertIn("| a < b | 8e-05 | 0.50 | 1.25 | 1.25 |", replayed_native.page_windows(result()))
        costs = replayed_native.page_costs(result())
        self.assertIn("missed by 1 of 3 programs", costs)
        self.assertIn("| c | 50 ms | 10.0 % | +3.0 (+3.0–+3.0) % | 0.95 (0.95–0.95) s | 0.90 (0.90–0.90) | 0.50 (0.50–0.50) | 1.10 (1.10–1.10) |", costs)

    def test_a_program_without_a_prediction_is_shown(self):
        r = result()
        r["programs"]["q"] = {"title": "q", "recorded": 1.0, "points": {"futex 2": [1.0]}, "predicted": "exit status 2: no"}
        self.assertIn("| q | not predicted: exit status 2: no |", replayed_native.page_points(r))
        self.assertIn("33 points have no value", replayed_native.page_points(r))

    def test_picture(self):
        points = replayed_native.points_of(result()["programs"]["p"])
        svg = xml.etree.ElementTree.fromstring(predicted_picture.picture([("a < b", points), ("empty", [])], replayed_native.LOCKS, "here"))
        self.assertEqual(svg[0].text, "a < b: futex 2 1, steady 2 1.1, twa 2 10")
        dots = [e for e in svg if e.find("{*}title") is not None]
        self.assertEqual(len(dots), 3)
        at = [float(e.get("cx")) for e in dots]
        self.assertTrue(0 < at[0] < at[1] < at[2] < predicted_picture.WIDTH, at)

    def test_a_report_after_the_figures_is_not_read(self):
        outcome = harness.Outcome([], stderr='{"points": [{"operations": [3, 5], "seconds": 2}]}\nusher record: {4} windows')
        self.assertEqual(replayed_native.Program("b", "", {}, "bench").rate(outcome), 4)
        outcome = harness.Outcome([], stdout='{"acquisitions": 100, "waits_not_full": 10, "waits_not_empty": 30, "seconds": 2}')
        self.assertEqual(replayed_native.Program("m", "", {}, "messages").rate(outcome), 30)

    def test_trials_have_other_parameters(self):
        judged = [(p.kind, p.options) for p in replayed_native.PROGRAMS]
        for p in replayed_native.TRIALS:
            self.assertNotIn((p.kind, p.options), judged)


if __name__ == "__main__":
    unittest.main()
