#!/usr/bin/env python3
"""A simulated run is the same every time, with every compiler, at every address. The test compares the output of
lab/tests/sim/determinism.cpp, built twice, in several environments. valgrind's memcheck and the sanitizers show that it reads no
uninitialised memory."""

import os
import shutil
import subprocess
import sys
import unittest

OPTIONS = {}
LIMIT = 600


def run(command, **environment):
    outcome = subprocess.run(command, capture_output=True, timeout=LIMIT, env={**os.environ, **environment})
    if outcome.returncode == 77:
        raise unittest.SkipTest("built without the locks of these points")
    if outcome.returncode != 0:
        raise AssertionError(f"{command}: status {outcome.returncode}\n{outcome.stderr.decode()}")
    return outcome.stdout


class Determinism(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = run([OPTIONS["--program"], OPTIONS["--machines"]])

    def same(self, what, said):
        """Compares the outputs byte by byte. If they differ, shows the first line that differs."""
        if said == self.expected:
            return
        for ours, theirs in zip(self.expected.decode().splitlines(), said.decode().splitlines()):
            self.assertEqual(ours, theirs, what)
        self.fail(f"{what}: another number of lines")

    def in_all_surroundings(self, program):
        command = [program, OPTIONS["--machines"]]
        self.same("again", run(command))
        # These environments put the stacks at other addresses, and fill unwritten memory with other bytes.
        self.same("with a larger environment", run(command, USHER_PADDING="x" * 70001))
        self.same("with memory full of 0x5a", run(command, MALLOC_PERTURB_="165"))
        if shutil.which("setarch"):
            fixed = ["setarch", "-R", *command]
            # A container may forbid setarch.
            if subprocess.run(["setarch", "-R", "true"], capture_output=True, timeout=LIMIT).returncode == 0:
                self.same("without address randomisation", run(fixed))

    def test_the_program(self):
        self.assertGreaterEqual(len(self.expected.splitlines()), 2)
        self.in_all_surroundings(OPTIONS["--program"])

    def test_another_compiler_without_optimisation(self):
        self.in_all_surroundings(OPTIONS["--plain"])

    def test_threads_differ_and_seeds_count(self):
        """Shows that the comparison can fail: no two points have the same output."""
        lines = [line.split(b":", 1)[1] for line in self.expected.splitlines()]
        self.assertEqual(len(set(lines)), len(lines))

    def test_sanitized(self):
        if "--sanitized" not in OPTIONS:
            self.skipTest("no clang with sanitizers")
        # The sanitizer supports fibers here, because they throw no exceptions and their stacks are blocks of the heap.
        self.same("sanitized", run([OPTIONS["--sanitized"], OPTIONS["--machines"]], ASAN_OPTIONS="detect_leaks=1"))

    def test_memcheck(self):
        if "--valgrind" not in OPTIONS:
            self.skipTest("no valgrind")
        by_number = {int(line.split()[0]): line for line in self.expected.splitlines()}
        for number in (2, 7):  # spinning; sleeping and loads
            if number in by_number:
                said = run([OPTIONS["--valgrind"], "-q", "--error-exitcode=9", OPTIONS["--plain"], OPTIONS["--machines"],
                            str(number)])
                self.assertEqual(said.strip(), by_number[number])


if __name__ == "__main__":
    arguments = sys.argv[1:]
    OPTIONS = dict(zip(arguments[::2], arguments[1::2]))
    unittest.main(argv=sys.argv[:1])
