#!/usr/bin/env python3
"""The report must be written even if a file of the recorded program crashes the reader of debug information."""

import unittest

from planted import PROGRAMS, Planted


class Hostile(Planted):
    def test_debug_information_that_crashes_its_reader(self):
        run = self.stat("", command=[str(PROGRAMS / "hostile")])
        self.assertEqual(sum(row["acquisitions"] for row in run.rows if row["kind"] == "mutex"), 300, run.report)
        self.assertTrue(any("hostile are missing" in one for one in run.report["remarks"]), run.report["remarks"])
        stack = run.rows[0]["waiters"][0]["frames"]
        self.assertTrue(any("hostile" in (frame["module"] or "") and frame["offset"] for frame in stack), stack)
        self.assertTrue(any("libc" in (frame["module"] or "") and frame["function"] for frame in stack), stack)  # the names of other files


if __name__ == "__main__":
    unittest.main(verbosity=2)
