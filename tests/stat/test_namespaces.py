#!/usr/bin/env python3
"""Tests `usher stat` with programs in a PID namespace of their own. Such a program records the ids that are valid in
its own namespace; outside, these ids belong to other processes. Further tests use programs that have no /proc, or no
record. A test is skipped if its namespace cannot be made.
"""

import os
import subprocess
import tempfile
import unittest

from planted import LIMIT, PROGRAMS, USHER, Planted, schema

APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def can_be_apart():
    try:
        return subprocess.run([*APART, "true"], capture_output=True, timeout=100).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@unittest.skipUnless(can_be_apart(), "no right to make a PID namespace")
class Apart(Planted):
    def apart(self, *words, **more):
        return self.stat(None, *more.pop("options", ()), command=[*APART, *words], **more)

    def assert_two_ids(self, one, key):
        """Asserts that the report has two different ids: the one in the namespace of this test, and the program's own,
        counted from 1."""
        self.assertIn(f"own_{key}", one)
        self.assertNotEqual(one[key], one[f"own_{key}"])

    def test_lives_and_ids_of_threads(self):
        run = self.apart(str(PROGRAMS / "planted"), "held-over-sleep")
        self.assertLessEqual(sum(run.report["waited"].values()), run.report["thread_seconds"])
        waited_for = [row for row in run.rows if row["waiting"]["total"] > 0]
        self.assertTrue(waited_for, run.report)
        for row in waited_for:
            for one in row["threads"]:
                self.assert_two_ids(one, "tid")
            for one in row["each"]:
                self.assert_two_ids(one, "pid")
                self.assertEqual(one["own_pid"], 1)
        if valid := schema():
            valid.validate(run.report)
        self.assertFalse([one for one in run.report["remarks"] if "lived on" in one], run.report["remarks"])

    def test_a_deadlock(self):
        # The limit of 2 s needs SIGKILL, since the first process of a PID namespace ignores SIGTERM.
        run = self.apart("timeout", "--signal=KILL", "2", str(PROGRAMS / "planted"), "opposite-order", status=None)
        self.assertEqual(len(run.report["deadlocks"]), 1, run.text + run.error)
        self.assertEqual(run.report["rule"], "deadlock")
        for one in run.report["deadlocks"][0]["threads"]:
            self.assert_two_ids(one, "tid")
            self.assertIn(f"{one['tid']} (own {one['own_tid']})", run.text + run.error)

    def test_two_with_the_same_ids(self):
        """Both programs are process 1 of their namespaces at the same time."""
        one = f"{' '.join(APART)} {PROGRAMS / 'planted'} held-over-sleep"
        for _ in range(8):  # on a busy machine a program may have ended before it is looked at
            run = self.stat(None, command=["sh", "-c", f"{one} & {one}; wait"], status=None)
            seen = {object["pid"] for row in run.rows for object in row["each"] if object.get("own_pid") == 1}
            if len(seen) == 2:
                break
        self.assertEqual(len(seen), 2, run.report)
        self.assertLessEqual(sum(run.report["waited"].values()), run.report["thread_seconds"])


WITHOUT_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


def can_hide_proc():
    return subprocess.run([*WITHOUT_PROC, "true"], capture_output=True, timeout=100, check=False).returncode == 0


class Unseen(Planted):
    @unittest.skipUnless(can_be_apart() and can_hide_proc(), "no right to mount over /proc")
    def test_without_proc(self):
        for lock in None, "steady":
            with self.subTest(lock=lock):
                run = self.stat(None, command=[*WITHOUT_PROC, str(PROGRAMS / "planted"), "held-over-sleep"], lock=lock)
                row = run.rows[0]
                self.assert_exact(row, kind="mutex", acquisitions=36)
                self.assertNotIn("0x", row["name"])  # the program's path is known
                self.assertNotIn("had not opened", run.error)

    @unittest.skipUnless(can_be_apart() and can_hide_proc(), "no right to mount over /proc")
    def test_a_recording_without_proc(self):
        file = os.path.join(tempfile.mkdtemp(dir=self.folder), "recording")
        done = subprocess.run([USHER, "record", "-o", file, "--", *WITHOUT_PROC, PROGRAMS / "planted", "held-over-sleep"],
                              env=self.environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"ms in all, [1-9]\d* events")

    def test_a_process_without_the_record(self):
        run = self.stat(None, "--duration", "3", command=["env", "-u", "LD_PRELOAD", "sleep", "1000"])
        self.assertIn("1 process (sleep) had not opened the record", run.error)
        self.assertNotIn("nothing to change", run.error)
        self.assertIn("1 process (sleep) had not opened the record", " ".join(run.report["remarks"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
