"""Tests lab.causes: its programs, and its judgement with made-up reports. With a build folder it also judges `usher stat` on eight drawn
programs. Their truth is measured, so a failure means that a sentence of `usher stat` contradicts the measured truth."""

import collections
import re
import sys
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
sys.dont_write_bytecode = True

import lab  # noqa: E402, F401
import harness  # noqa: E402
from lab.causes import __main__ as causes  # noqa: E402
from lab.causes import expected, programs  # noqa: E402
from lab.causes.expected import GAIN, NONE  # noqa: E402
from lab.causes.truth import Runner  # noqa: E402

SEEDS = range(901, 909)  # not those of a published result
BUILD = sys.argv.pop() if len(sys.argv) > 1 and Path(sys.argv[-1]).is_dir() else None


def report(rule, verdict, *rows, next=None):
    return {"rule": rule, "verdict": verdict, "next": next, "rows": [dict(zip(("name", "rule", "verdict"), row)) for row in rows]}


class Judgements(unittest.TestCase):
    def test_a_gain_contradicts_that_no_lock_can_help(self):
        cold = report("cold", "threads waited 0 % of their time for locks: no lock can make this program faster")
        self.assertEqual(expected.judge("read-write lock", GAIN, cold).dangerous, ["no lock can make"])
        without = expected.judge("read-write lock", NONE, cold)
        self.assertTrue(without.right)
        self.assertEqual(without.dangerous, [])

    def test_what_one_of_two_truths_allows_is_not_dangerous(self):
        cold = report("cold", "no lock can make this program faster")
        undecided = expected.judge("read-write lock", None, cold)
        self.assertTrue(undecided.right)
        self.assertEqual(undecided.dangerous, [])

    def test_more_credits_break_exclusion(self):
        row = ("hot_binary", "semaphore-lock", "it is used as a lock; shorten what is done with the credit, or have more")
        judged = expected.judge("semaphore as mutex", GAIN, report("credits", "threads waited, but hot_binary: " + row[2], row))
        self.assertFalse(judged.right)
        self.assertEqual(judged.dangerous, ["have more"])
        cool = report("cold", "threads waited 0.1 % of their time for locks", row)
        self.assertEqual(expected.judge("semaphore as mutex", NONE, cool).dangerous, ["have more"])
        warned = report("credits", "hot_binary: it excludes: more credits would break that", ("hot_binary", "excludes", ""))
        self.assertEqual(expected.judge("semaphore as mutex", GAIN, warned).dangerous, [])

    def test_a_full_machine_gains_nothing_by_a_lock(self):
        said = report("hot-mutex", "threads waited 27 %, all for hot_mutex: woken waiters find it taken; try a lock that wakes fewer",
                      next="usher try -- causes")
        judged = expected.judge("full CPUs", NONE, said)
        self.assertFalse(judged.right)
        self.assertEqual(judged.dangerous, ["try a lock", "wakes fewer"])

    def test_the_object_must_be_named(self):
        row = ("hot_mutex", "long-hold", "held 96 % of the time")
        right = report("hot-mutex", "threads waited 60 % of their time for locks, all of that for hot_mutex: held 96 %", row)
        self.assertTrue(expected.judge("working hold", GAIN, right).right)
        self.assertFalse(expected.judge("working hold", GAIN, right | {"verdict": "all of that for other: held 96 %"}).right)

    def test_credits_may_be_too_few_if_they_may_be_work(self):
        said = report("credits", "24 % for credits of work_items: for work, if it counts work; else there are too few")
        self.assertEqual(expected.judge("waits for work", NONE, said).dangerous, [])
        wrong = said | {"verdict": "credits are too few"}
        self.assertEqual(expected.judge("waits for work", NONE, wrong).dangerous, ["credits are too few"])


class Programs(unittest.TestCase):
    def test_every_cause_has_expectations(self):
        named = {p.cause for p in [*programs.drawn(1, 400), *programs.FIXED]}
        self.assertEqual(named, set(expected.EXPECTED))

    def test_every_rule_exists(self):
        page = (TREE / "docs" / "stat.md").read_text()
        tables = page.split("<!-- rules of rows -->")[1].split("<!-- /rules of programs -->")[0]
        rules = set(re.findall(r"^\| `([a-z-]+)` \|", tables, re.M))
        named = set().union(*(p.silent | p.expects.rules | p.expects.rows for p in programs.FIXED),
                            *(e.rules | e.rows for ways in expected.EXPECTED.values() for e in ways.values()))
        self.assertEqual(named - rules, set())

    def test_draws_are_repeatable_and_different(self):
        self.assertEqual(programs.drawn(7, 60), programs.drawn(7, 60))
        self.assertNotEqual([p.options for p in programs.drawn(7, 60)], [p.options for p in programs.drawn(8, 60)])

    def test_sixty_programs_have_every_family(self):
        causes_of = collections.Counter(p.cause for p in programs.drawn(7, 60))
        self.assertEqual(set(causes_of), set(expected.EXPECTED) - {"circle"})  # only fixed programs deadlock

    def test_fixed_programs_have_different_names_and_a_half_are_counterexamples(self):
        names = [p.name for p in programs.FIXED]
        self.assertEqual(len(names), len(set(names)))
        quiet = [p for p in programs.FIXED if not p.expects.rules - expected.QUIET or p.silent]
        self.assertGreaterEqual(len(quiet), 19)


@unittest.skipUnless(BUILD, "needs a build folder")
class Reports(unittest.TestCase):
    def test_eight_drawn_programs(self):
        build, judged = harness.Build(BUILD), []
        with Runner(build, build.usher, 0.3, (2,)) as runner:
            for number, seed in enumerate(SEEDS):
                program = programs.drawn(seed, 2)[number % 2]
                truth, said = runner.truth(program), runner.stat(program, 1.0)
                # Two short rounds may give a wrong truth. So the measured truth counts only if it agrees with the kind of program that was
                # drawn.
                if truth["truth"] != (NONE if number % 2 else GAIN):
                    truth["truth"] = None
                judged.append(causes.entry_of(program, truth, said, expected.judge(program.cause, truth["truth"], said)))
                causes.progress(judged[-1])
        self.assertEqual([e["verdict"] for e in judged if e["dangerous"]], [])
        self.assertGreaterEqual(sum(e["right"] for e in judged), 6, [(e["cause"], e["why"]) for e in judged if not e["right"]])


if __name__ == "__main__":
    unittest.main()
