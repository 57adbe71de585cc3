"""Tests the arena's judgement with made-up runs. Nothing is measured."""

import itertools
import math
import random
import re
import sys
import tempfile
import types
import unittest
import unittest.mock
import xml.dom.minidom
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
sys.dont_write_bytecode = True

from lab.arena import __main__ as arena  # noqa: E402
from lab.arena import judge  # noqa: E402
from lab.arena import page as arena_page  # noqa: E402
from lab.arena import picture as arena_picture  # noqa: E402
from lab.arena import points as arena_points  # noqa: E402
from lab.arena import runs as arena_runs  # noqa: E402
from lab.arena.judge import BASE, CONTROL  # noqa: E402


def made_up(seed, count, ratio, spread, lock="lock", **more):
    """Returns rounds in which the lock has `ratio` times the C library's throughput. Each run has noise of its own."""
    draw = random.Random(seed)

    def run(rate):
        return {"rate": rate * draw.lognormvariate(0, spread), "cost": 1 / rate, "work": 100, "voluntary": 10, "involuntary": 0, "cpu": 1} | more

    return [{BASE: run(1000), lock: run(1000 * ratio), CONTROL: run(1000)} for _ in range(count)]


class Intervals(unittest.TestCase):
    def test_the_cut_is_that_of_all_choices_of_signs(self):
        for rounds in range(1, 11):
            sums = sorted(sum(r for r, plus in zip(range(1, rounds + 1), signs) if plus)
                          for signs in itertools.product([False, True], repeat=rounds))
            for error in (0.5, 0.2, 0.05, 0.01):
                cut = judge.rank_to_cut(rounds, error)
                # At most error / 2 of all sums lie below the cut. More than error / 2 of all sums lie below the cut or are equal to it.
                self.assertLessEqual(sum(s < cut for s in sums), error / 2 * len(sums))
                self.assertGreater(sum(s <= cut for s in sums), error / 2 * len(sums))

    def test_few_rounds_have_no_interval(self):
        self.assertEqual(judge.rounds_needed(1), 6)
        self.assertEqual(judge.rounds_needed(60), 12)
        few = judge.estimate([1.1] * 11, 0.05 / 60)
        self.assertEqual((few.low, few.high), (0.0, math.inf))
        self.assertEqual(judge.verdict(few), "undecided")
        enough = judge.estimate([1.1] * 12, 0.05 / 60)
        self.assertAlmostEqual(enough.low, 1.1)
        self.assertAlmostEqual(enough.high, 1.1)

    def test_it_covers_the_truth_as_often_as_it_says(self):
        draw, missed = random.Random(5), 0
        for _ in range(400):
            e = judge.estimate([draw.lognormvariate(math.log(1.3), 0.2) for _ in range(15)], 0.1)
            missed += not e.low <= 1.3 <= e.high
        self.assertLess(missed, 65)  # 40 expected; more than 65 once in ten thousand
        self.assertGreater(missed, 15)

    def test_the_inverse_has_the_inverse_interval(self):
        values = [1.02, 0.9, 1.3, 1.1, 0.97, 1.2, 1.05, 1.15]
        there, back = judge.estimate(values, 0.1), judge.estimate([1 / v for v in values], 0.1)
        self.assertAlmostEqual(there.value, 1 / back.value)
        self.assertAlmostEqual(there.low, 1 / back.high)

    def test_an_outlier_changes_little(self):
        e = judge.estimate([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 50], 0.1)
        self.assertLess(abs(e.value - 1), 0.02)


class Verdicts(unittest.TestCase):
    def test_words(self):
        for low, high, word in [(0.5, 0.949, "lost"), (0.90, 0.96, "below"), (0.94, 0.98, "level"), (0.99, 1.05, "level"),
                                (1.01, 1.5, "won"), (0.9, 1.05, "undecided"), (0.86, 0.969, "undecided"), (0, math.inf, "undecided")]:
            e = judge.Estimate((low + min(high, 2)) / 2, low, high)
            self.assertEqual(judge.verdict(e), word, (low, high))
            self.assertEqual(judge.settled(e), word != "undecided")

    def test_a_loss_a_gain_and_the_control(self):
        error = 0.05 / 60
        self.assertEqual(judge.compare("p", "lock", made_up(1, 20, 0.7, 0.03), error).verdict, "lost")
        self.assertEqual(judge.compare("p", "lock", made_up(2, 20, 2.0, 0.1), error).verdict, "won")
        self.assertEqual(judge.compare("p", CONTROL, made_up(3, 20, 0.7, 0.02), error).verdict, "level")
        self.assertEqual(judge.compare("p", "lock", made_up(4, 20, 1.0, 0.5), error).verdict, "undecided")

    def test_a_lock_that_does_nothing_has_lost(self):
        rounds = made_up(1, 12, 1, 0)
        for r in rounds:
            r["lock"]["rate"] = 0
        self.assertEqual(judge.compare("p", "lock", rounds, 0.05).verdict, "lost")

    def test_failed_and_disturbed_rounds_do_not_count(self):
        rounds = made_up(1, 12, 1.2, 0.01)
        rounds[0]["lock"] = {"failed": "hung: killed after 25 s"}
        rounds[1][BASE]["others"] = 0.5
        rounds[2].pop("lock")
        c = judge.compare("p", "lock", rounds, 0.05, most_others=0.15)
        self.assertEqual((c.rounds, c.left_out, len(c.failures)), (9, 1, 1))
        self.assertIn("lock: hung", c.failures[0])

    def test_figures_beside_throughput(self):
        rounds = made_up(1, 5, 2, 0, longest_wait=0.25, smallest_share=0.5)
        rounds[0]["lock"]["longest_wait"] = 1.5
        c = judge.compare("p", "lock", rounds, 0.5)
        self.assertEqual(c.longest, (0.25, 0.25))
        self.assertEqual(c.longest_ever, (0.25, 1.5))
        self.assertEqual(c.switches, (0.1, 0.1))
        self.assertAlmostEqual(c.cpu.value, 0.5)
        self.assertAlmostEqual(c.ratio_of_minima, 2)

    def test_mean_of_points(self):
        mean = judge.mean_with_interval([[2.0] * 5, [0.5] * 5, [1.0, 1.1, 0.9]])
        self.assertAlmostEqual(mean.value, 1.0)
        self.assertLess(mean.low, 1.0)
        self.assertGreater(mean.high, 1.0)
        self.assertIsNone(judge.mean_with_interval([]))


class NextPoints(unittest.TestCase):
    narrow, wide, wider = judge.Estimate(1, 0.98, 1.02), judge.Estimate(1, 0.9, 1.1), judge.Estimate(1, 0.8, 1.2)

    def test_all_get_their_first_rounds_in_turn(self):
        self.assertEqual(judge.next_points([("a", 1, [None]), ("b", 0, [None]), ("c", 0, [None])], 12, 60), ["b", "c"])

    def test_then_the_undecided_the_widest_first(self):
        points = [("a", 12, [self.wide]), ("b", 12, [self.narrow]), ("c", 12, [self.narrow, self.wider]), ("d", 60, [self.wider])]
        self.assertEqual(judge.next_points(points, 12, 60), ["c", "a"])

    def test_at_last_none(self):
        self.assertEqual(judge.next_points([("a", 12, [self.narrow]), ("b", 60, [self.wide])], 12, 60), [])


class Runs(unittest.TestCase):
    def test_every_point_can_be_put_as_a_command(self):
        for point in arena_points.POINTS:
            words = arena_runs.words_of(point, arena_runs.duration(point, 0.5), 1.6)
            self.assertFalse([w for w in words if "{" in w], point.name)
            self.assertIn(point.group, arena_points.GROUPS)
            self.assertTrue(point.reason)

    def test_a_section_is_so_many_steps(self):
        words = arena_runs.words_of(arena_points.BY_NAME["200-5x-2"], 0.5, 2.0)
        self.assertEqual(words[words.index("--section") + 1], "100")
        self.assertEqual(words[words.index("--outside") + 1], "500")

    def test_rate_and_cost(self):
        outcome = types.SimpleNamespace(cpu_seconds=3.0, voluntary=6, involuntary=0, stderr="")
        told = arena_runs.told(arena_points.BY_NAME["queue-8"], 100.0, {}, outcome, 2)
        self.assertEqual((told["rate"], told["work"], told["cost"]), (100, 200, 0.015))
        told = arena_runs.told(arena_points.BY_NAME["kyotocabinet-8"], 4.0, {}, outcome, 1)  # seconds for a fixed amount of work
        self.assertEqual((told["rate"], told["work"], told["cost"]), (0.25, 1, 3.0))
        document = {"operations": 50, "cpu": 1.0, "voluntary": 1, "involuntary": 0, "longest_wait": 0.5, "smallest_share": 1.0}
        told = arena_runs.told(arena_points.BY_NAME["50-0-2"], 100.0, document, outcome, 2)
        self.assertEqual((told["cost"], told["longest_wait"]), (0.02, 0.5))

    def test_what_jemalloc_says_of_owners(self):
        text = '"num_ops": 100,"num_owner_switch": 20, ... "num_ops":300, "num_owner_switch":20'
        self.assertEqual(arena_points.jemalloc_facts(text), {"owner_changes": 0.1, "lock_operations": 400})
        self.assertEqual(arena_points.jemalloc_facts(""), {})


class Pages(unittest.TestCase):
    """Tests the way from stored runs (lines of JSON) to the page."""

    def written(self, files):
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for number, lines in enumerate(files):
                names.append(Path(folder, f"{number}.jsonl"))
                names[-1].write_text("".join(line + "\n" for line in lines))
            page = Path(folder, "arena.md")
            page.write_text(f"before\n<!-- {arena_page.MARKER} -->\n<!-- /{arena_page.MARKER} -->\nafter\n")
            options = types.SimpleNamespace(page=page, charts=Path(folder), others=arena.OTHERS)
            results = arena.Results(names)
            arena_page.print = lambda *_: None
            arena_page.write(results, options)
            charts = {p.name: p.read_text() for p in Path(folder).glob("*.svg")}
            return results, page.read_text(), charts

    def session(self, name, libc="glibc 2.36", library="1"):
        return arena.json.dumps({"session": name, "date": "2031-01-02T03:04:05Z", "libc": libc, "library": library, "commit": "c", "compiler": "g++",
                                 "command": "arena.py run", "packages": {}, "step_ns": 1.5, "machine": {"cpu": "CPU", "cpus": 2, "kernel": "Linux"}})

    def lines(self, session, point, rounds):
        return [arena.json.dumps(run | {"session": session, "point": point, "round": n, "candidate": candidate})
                for n, r in enumerate(rounds) for candidate, run in r.items()]

    def test_a_page_of_two_libraries(self):
        one = [self.session("s")] + self.lines("s", "200-0-2", made_up(1, 12, 0.5, 0.01)) + self.lines("s", "queue-8", made_up(2, 12, 3, 0.01))
        two = [self.session("t", "glibc 2.41")] + self.lines("t", "queue-8", made_up(3, 12, 1.5, 0.01))
        _, page, charts = self.written([one, two])
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        self.assertRegex(page, r"\| lost: [^|]* \| `200-0-2` 0\.\d+")
        self.assertRegex(page, r"\| won: [^|]* \| `queue-8` (2\.9|3\.0)")
        self.assertRegex(page, r"\| MutexBench \| 1 \| 0\.[45]\d \([^|]*\| [^|]* \| 0 \| 1 \| 0 \|")
        self.assertRegex(page, r"\| `queue-8` \| (2\.9|3\.0)\d \([^|]*\| 1\.[45]\d \(")
        self.assertEqual(len(charts), 2)
        for text in charts.values():
            xml.dom.minidom.parseString(text)
        self.assertIn(">0.50</text>", "".join(charts.values()))

    def test_text_of_the_readmes_picture_has_room(self):
        def interval(value):
            return types.SimpleNamespace(value=value, low=value / 1.3, high=value * 1.3)

        rows = [("a program with a long name (2)", interval(5), interval(1)), ("x", interval(1), None), ("y", interval(0.6), interval(1))]
        with unittest.mock.patch.object(arena_picture, "rows_of", lambda *_: rows):
            root = xml.dom.minidom.parseString(arena_picture.programs(None, "loiter-barging-park", "Processor & Co " * 4, "2031-01-02"))
        width, height = (int(root.documentElement.getAttribute(name)) for name in ("width", "height"))
        boxes = []
        for e in root.getElementsByTagName("text"):
            size = int(e.getAttribute("font-size") or arena_picture.TEXT)
            wide = arena_picture.text_width(e.firstChild.data, size, "bold" if e.getAttribute("font-weight") else "regular")
            left = float(e.getAttribute("x")) - wide * {"": 0, "middle": 0.5, "end": 1}[e.getAttribute("text-anchor")]
            y = float(e.getAttribute("y"))
            boxes.append((left, y - 0.75 * size, left + wide, y + 0.22 * size, e.firstChild.data))
        for left, top, right, bottom, text in boxes:
            self.assertTrue(-0.1 < left and 0 < top and right < width + 0.1 and bottom < height, text)
        for a, b in itertools.combinations(boxes, 2):
            self.assertTrue(any(a[i] > b[i + 2] - 0.1 or b[i] > a[i + 2] - 0.1 for i in (0, 1)), (a, b))

    def test_only_points_with_runs_are_counted(self):
        lines = [self.session("s")]
        lines += self.lines("s", "200-0-2", made_up(1, 3, 1.5, 0.01)) + self.lines("s", "queue-8", made_up(2, 2, 1, 0.01))
        lines += [line for line in self.lines("s", "herd-64", made_up(3, 2, 1, 0.01)) if '"lock"' not in line]
        _, page, _ = self.written([lines])
        self.assertIn("| undecided | 2 of 2, all of them with too few rounds for an interval: `200-0-2`, `queue-8`", page)
        self.assertIn("| undecided, of the points that were run | few | 2 of 2 | 3 of 3 |", page)
        self.assertNotIn("`herd-64`", page.split("### The C library")[0])

    def test_notable_waits_and_shares(self):
        def rounds(longest, share):
            return [{c: run | {"longest_wait": longest[c == "lock"], "smallest_share": share[c == "lock"]} for c, run in r.items()}
                    for r in made_up(1, 6, 1, 0.01)]

        lines = [self.session("s")]
        for point, longest, share in [("0-0-2", (0.0001, 0.0015), (0.9, 0.75)), ("0-0-8", (0.01, 0.04), (0.9, 0.5)),
                                      ("0-0-64", (0.3, 0.05), (0, 0.9)), ("200-0-2", (0.01, 0.015), (1, 1)),
                                      ("200-0-3", (0.001, 0.02), (1, 1))]:
            lines += self.lines("s", point, rounds(longest, share))
        _, page, _ = self.written([lines])
        self.assertIn("| longest wait much longer, ms: C library → lock | `200-0-3` 1 → 20, `0-0-8` 10 → 40 |\n", page)
        self.assertIn("| longest wait much shorter, ms: C library → lock | `0-0-64` 300 → 50 |\n", page)
        self.assertIn("| smallest share much smaller: C library → lock | `0-0-8` 0.90 → 0.50 |\n", page)
        self.assertIn("| smallest share much larger: C library → lock | `0-0-64` 0.00 → 0.90 |", page)

    def test_of_a_lock_the_last_library_counts(self):
        lines = ([self.session("s", library="old")] + self.lines("s", "200-0-2", made_up(1, 12, 0.5, 0.01)) +
                 [self.session("t", library="new")] + self.lines("t", "200-0-2", made_up(2, 12, 1.5, 0.01)))
        results, page, _ = self.written([lines])
        compared = results.of(results.places()[0]).compare("200-0-2", "lock")
        self.assertEqual(compared.rounds, 12)
        self.assertAlmostEqual(compared.throughput.value, 1.5, delta=0.03)

    def test_a_line_cut_off_is_left_out(self):
        lines = [self.session("s")] + self.lines("s", "200-0-2", made_up(1, 2, 1, 0.01))
        arena.print = lambda *_, **__: None
        results, _, _ = self.written([lines + [lines[-1][:20]]])
        self.assertEqual(len(results.runs), 6)


class Documents(unittest.TestCase):
    def test_the_page_has_one_place_for_results(self):
        text = (TREE / "lab" / "pages" / "arena.md").read_text()
        self.assertEqual(len(re.findall(f"<!-- /?{arena_page.MARKER} -->", text)), 2)


if __name__ == "__main__":
    unittest.main()
