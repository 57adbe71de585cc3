#!/usr/bin/env python3
"""The checks of hangs.py and hostile.py must find what is wrong: each test here has a report with one mistake."""

import copy
import unittest

import hangs
import hostile
import look

STACK = {"frames": [], "cut": False, "uncertain_from": None}
SAID = {"case": "mutex-normal", "pid": 1, "object": "0x1000", "threads": [
    {"role": "holder", "tid": 2, "pid": 1, "function": "holds_mutex"}, {"role": "waiter", "tid": 3, "pid": 1, "function": "locks_mutex"}]}


def stack(*functions):
    return {**STACK, "frames": [{"function": f} for f in functions]}


def report(**of_wait):
    wait = {"what": "mutex", "library": "glibc", "kind": "", "known_by": "words", "address": "0x1000", "free": False,
            "holder": {"tid": 2, "pid": None, "stack": stack("pause", "holds_mutex")},
            "waiters": [{"tid": 3, "stack": stack("pthread_mutex_lock", "locks_mutex")}], **of_wait}
    return {"waits": [wait], "findings": [], "chains": []}


def case(name):
    return next(c for c in hangs.PROGRAMS_IN_C if c.name == name)


def check(seen, name="mutex-normal", said=None):
    return hangs.check(case(name), "glibc", said or SAID, seen, hangs.own_ids(seen))


class Hangs(unittest.TestCase):
    def assert_false(self, verdict, words):
        self.assertEqual(verdict.word(), "FALSE")
        self.assertIn(words, "; ".join(verdict.false))

    def test_a_right_report(self):
        verdict = check(report())
        self.assertEqual((verdict.word(), verdict.kind, verdict.holder, verdict.stack), ("named", True, True, True))

    def test_what_is_missing_is_not_false(self):
        for words, seen in (("waiter 3 not found", report(waiters=[])), ("kind not named", report(what="futex", library=None)),
                            ("holder not named", report(holder=None))):
            with self.subTest(words):
                verdict = check(seen)
                self.assertEqual(verdict.word(), "incomplete")
                self.assertIn(words, "; ".join(verdict.missing))

    def test_stacks(self):
        for words, seen in (("locks_mutex not on the stack of waiter 3", report(waiters=[{"tid": 3, "stack": stack("locks_mutex_again")}])),
                            ("holds_mutex not on the stack of holder 2", report(holder={"tid": 2, "pid": None, "stack": STACK}))):
            with self.subTest(words):
                verdict = check(seen)
                self.assertFalse(verdict.stack)
                self.assertIn(words, verdict.absent)

    def test_what_is_false(self):
        other = {"tid": 9, "pid": None, "stack": STACK}
        for words, seen in (("does not wait for a semaphore", report(what="semaphore")), ("the mutex is not recursive", report(kind="recursive")),
                            ("the object is not musl's", report(library="musl")), ("9 is not the holder, 2 is", report(holder=other)),
                            ("not 0x2000", report(address="0x2000")), ("the lock is not free", report(free=True)),
                            ("the holder's process is 1", report(holder={"tid": 2, "pid": 7, "stack": STACK})),
                            ("thread 2 waits for no mutex", report(waiters=[{"tid": 2, "stack": STACK}]))):
            with self.subTest(words):
                self.assert_false(check(seen), words)

    def test_findings_that_are_not_there(self):
        for what in ("circle", "lost_wake_up", "holder_ended"):
            seen = {**report(), "findings": [{"what": what, "text": "", "threads": [2, 3]}]}
            self.assert_false(check(seen), f"there is no {what}")
        self.assert_false(check({**report(), "findings": [{"what": "chain", "text": "", "threads": [3, 77]}]}), "a chain of")

    def test_chains(self):
        def chain(circle, *tids):
            return {**report(), "chains": [{"circle": circle, "links": [{"tid": t} for t in tids]}]}
        self.assertEqual(check(chain(False, 3, 2)).word(), "named")
        self.assert_false(check(chain(False, 2, 3)), "2 does not wait for 3")
        self.assert_false(check(chain(True, 3, 2)), "there is no circle")

    def test_a_circle(self):
        said = {**SAID, "threads": [{"role": "waiter", "tid": t, "pid": 1, "function": "f"} for t in (2, 3)]}
        waits = [{**report()["waits"][0], "address": f"0x{a}", "holder": {"tid": h, "pid": None, "stack": stack("f")},
                  "waiters": [{"tid": w, "stack": stack("f")}]} for a, w, h in ((1, 2, 3), (2, 3, 2))]
        right = {"waits": waits, "chains": [], "findings": [{"what": "circle", "text": "", "threads": [3, 2]}]}
        self.assertEqual(check(right, "deadlock-2", said).word(), "named")
        self.assertIn("circle not found", check({**right, "findings": []}, "deadlock-2", said).missing)
        wrong = copy.deepcopy(right)
        wrong["findings"][0]["threads"] = [2, 4]
        self.assert_false(check(wrong, "deadlock-2", said), "the circle is [2, 3]")
        wrong = copy.deepcopy(right)
        wrong["waits"][0]["holder"]["tid"] = 2
        self.assert_false(check(wrong, "deadlock-2", said), "2 is not the holder, 3 is")

    def test_ids_of_a_namespace(self):
        seen = report(holder={"tid": 102, "own_tid": 2, "pid": None, "stack": stack("holds_mutex")},
                      waiters=[{"tid": 103, "own_tid": 3, "stack": stack("locks_mutex")}])
        seen["threads"] = [{"tid": 102, "own_tid": 2}, {"tid": 103, "own_tid": 3}]
        seen["findings"] = [{"what": "chain", "text": "", "threads": [103, 102]}]
        self.assertEqual(check(seen).word(), "named")

    def test_an_object_that_names_no_holder(self):
        self.assert_false(check(report(what="semaphore", holder={"tid": 5, "pid": None, "stack": STACK}), "semaphore",
                                {**SAID, "threads": SAID["threads"][1:]}), "5 is not the holder: there is none")


class Pages(unittest.TestCase):
    def test_size(self):
        self.assertEqual(look.errors_of_page("x" * 80 + "\n" + "字" * 40), [])
        self.assertEqual(len(look.errors_of_page("x\n" * 61)), 1)
        self.assertEqual(len(look.errors_of_page("字" * 41)), 1)

    def test_characters(self):
        for text in ("\x1b[2J", "\r", "\x7f", "\x9b", "\u202e", "\u200f", "\u2028", "a\tb"):
            self.assertTrue(look.errors_of_page(text), repr(text))

    def test_functions(self):
        frames = stack("waits::locks_mutex::h0123", "locks_mutex_again(void*)")
        self.assertTrue(look.has_function(frames, "locks_mutex"))
        self.assertFalse(look.has_function(frames, "locks"))


class Truth(unittest.TestCase):
    A = 0x1000

    def said(self, tid, events, begin=10, end=20, pid=None):
        seen = report(holder={"tid": tid, "pid": pid, "stack": STACK})
        lives = [(0, 0, t, 0, hostile.BEGINS, 1) for t in (5, 6)]
        return hostile.false_holders(seen, hostile.Truth.of(lives + events), begin, end)

    def test_a_holder_in_time(self):
        self.assertEqual(self.said(5, [(1, self.A, 5, 5, hostile.NAMES, 1)]), [])
        self.assertEqual(self.said(5, [(1, self.A, 5, 5, hostile.NAMES, 1), (12, self.A, 5, 5, hostile.NAMED, 1)]), [])

    def test_a_holder_before_or_after(self):
        self.assertTrue(self.said(5, [(1, self.A, 5, 5, hostile.NAMES, 1), (9, self.A, 5, 5, hostile.NAMED, 1)]))
        self.assertTrue(self.said(5, [(21, self.A, 5, 5, hostile.NAMES, 1)]))

    def test_another_thread_or_lock(self):
        self.assertTrue(self.said(6, [(1, self.A, 5, 5, hostile.NAMES, 1)]))
        self.assertTrue(self.said(5, [(1, 0x2000, 5, 5, hostile.NAMES, 1)]))

    def test_a_forged_thread(self):
        """A word that names a thread which the process does not have."""
        self.assertTrue(self.said(1, [(1, self.A, 5, 1, hostile.NAMES, 1)]))

    def test_a_forged_process(self):
        """The program's memory is private: no thread of another process can hold a lock in it."""
        self.assertTrue(self.said(5, [(1, self.A, 5, 5, hostile.NAMES, 1)], pid=7))

    def test_an_exec_ends_everything(self):
        self.assertTrue(self.said(5, [(1, self.A, 5, 5, hostile.NAMES, 1), (5, 0, 5, 0, hostile.EXECUTES, 1)]))


if __name__ == "__main__":
    unittest.main()
