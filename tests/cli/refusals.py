"""Helpers for tests of the command: assertions that a usage is refused, waits for a state, and checks for parts of a
build that some tests need.
"""

import os
import time
import unittest

_usher = os.path.realpath(os.environ["USHER_BIN"])
needs_simulator = unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(_usher), "usher_bench")),
                                      "there is no usher_bench: USHER_BUILD_SIMULATOR=OFF")
has_stat = os.path.exists(os.path.join(os.path.dirname(_usher), "usher_stat"))


def wait_for(condition, seconds=100):
    """Polls every 20 ms until the condition is true; raises AssertionError if it is not true after this time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not true after {seconds} s")
        time.sleep(0.02)


def fields_of(pid):
    """Returns the fields of /proc/PID/stat that follow the name. The first is the state; 11 and 12 are the CPU times in
    clock ticks."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()


def cpu_seconds(pid):
    return sum(map(int, fields_of(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


EVIL = "\033]0;title\a\033[2J\u009b1m\u202e\rx\nForged"


def with_evil(data, kept=()):
    """Returns the content of a result file as an attacker would write it. Each text, except under the keys in `kept`,
    ends in a terminal control sequence and in a forged line."""
    if isinstance(data, dict):
        return {key: value if key in kept else with_evil(value, kept) for key, value in data.items()}
    if isinstance(data, list):
        return [with_evil(value, kept) for value in data]
    return data + EVIL if isinstance(data, str) else data


class Refusals:
    """A mixin for unittest.TestCase."""

    def assert_refused(self, done, status, *words):
        """Asserts that the command ended with this status, printed nothing on standard output, and one line with these
        words on standard error."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("usher: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_harmless(self, text):
        """Asserts that the text has no control characters but line feeds, and no line that comes from a forged name."""
        for line in text.split("\n"):
            self.assertTrue(line.isprintable(), repr(line))
            self.assertFalse(line.startswith("Forged"), text)
