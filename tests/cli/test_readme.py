#!/usr/bin/env python3
"""Compares the samples of output in README.md and docs/*.md with what the commands print today. Output that depends
only on this tree is compared exactly: `usher list`, the simulator's figures, the checker's table without its seconds.
The output of a trial depends on the machine, so only its form is compared: any number may stand for a number. The words
of the sample of `usher stat` are compared by tests/stat/rules_test.cpp. `usher top` looks at the program that the sample
shows, top_hanging of tests/top; "…" in a sample stands for lines of the output. A command for which there is no
comparison is an error.

USHER_BIN is the command, USHER_LIB the library. Without usher_bench, usher_check, or usher_stat and top_hanging beside it
their samples are left out.
"""

import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import test_try

TREE = Path(__file__).resolve().parents[2]
USHER = Path(os.environ["USHER_BIN"])
COMPONENTS = [name for name, programs in (("simulator", ["usher_bench"]), ("checker", ["usher_check"]),
                                          ("top", ["usher_stat", "top_hanging"]))
              if all((USHER.resolve().parent / program).exists() for program in programs)]
LIMIT = 300

# A script in place of the program of README's trial. It makes lock calls and prints figures near those of the sample.
PROGRAM = """#!/bin/sh
{locking} 2000 > /dev/null
run=$(($(cat {count}) + 1))
echo $run > {count}
case $USHER_LOCK in steady) base=626286 ;; twa) base=46200 ;; *) base=565941 ;; esac
echo throughput: $((base + base / 500 * (run % 7)))
"""


def samples():
    """Yields each command that a page shows after a prompt: the page, the command without a comment, and the lines of
    output that follow."""
    for page in (TREE / "README.md", *sorted((TREE / "docs").glob("*.md"))):
        for block in re.findall(r"^```(?:text)?\n([$] .*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            for command, shown in re.findall(r"^[$] (.*)\n((?:(?![$] ).*\n)*)", block, re.M):
                yield page.name, command.partition("   #")[0], shown.splitlines()


def any_numbers(text):
    """Returns the text on one line, with N for each number, R for each range of numbers, and one space between words.
    """
    text = re.sub(r"[0-9][0-9,]*(\.[0-9]+)?", "N", text)
    return " ".join(re.sub(r"\((N–N|up to N)\)", "(R)", text).split())


class Readme(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="usher-readme-")))
        (self.folder / "server").symlink_to("/bin/true")

    def run_it(self, command, limit=LIMIT):
        """Runs the command in a shell in the test's folder. Returns its output on both streams."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("USHER_") and key != "LD_PRELOAD"}
        env |= {"PATH": f"{self.folder}:{USHER.resolve().parent}:{os.environ['PATH']}", "USHER_LIBRARY": os.environ["USHER_LIB"]}
        done = subprocess.run(["timeout", "--signal=KILL", str(limit), "sh", "-c", command], env=env, cwd=self.folder, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def list_of_locks(self, command, shown):
        self.assertTrue(self.run_it(command).startswith("\n".join(shown)), shown)

    def run_of_a_program(self, command, shown):
        same = [re.sub(r"pid \d+", "pid N", line) for line in (*shown, self.run_it(command).rstrip("\n"))]
        self.assertEqual(same[:-1], same[-1:])

    def prints_nothing(self, command, shown):
        self.assertEqual((self.run_it(command), shown), ("", []))

    def figures_of_the_simulator(self, command, shown):
        if "simulator" in COMPONENTS:
            output = self.run_it(command)
            for line in shown:
                self.assertIn(line, [*output.splitlines(), "..."], output)

    def table_of_the_checker(self, command, shown):
        def without_seconds(text):
            return [line.split()[:-1] for line in text]
        if "checker" in COMPONENTS:
            self.assertEqual(without_seconds(shown), without_seconds(self.run_it(command).splitlines()[:len(shown)]))

    def trial(self, command, shown):
        program, count, locking = (self.folder / name for name in ("sqlite_shared", "count", "locking"))
        locking.with_suffix(".c").write_text(test_try.LOCKING, encoding="ascii")
        subprocess.run([test_try.CC, "-O1", locking.with_suffix(".c"), "-o", locking, "-pthread"], check=True, timeout=LIMIT)
        count.write_text("0", encoding="ascii")
        program.write_text(PROGRAM.format(locking=locking, count=count), encoding="ascii")
        program.chmod(0o755)
        output = any_numbers(self.run_it(command))
        for line in filter(None, shown):
            # a further sentence may follow, which says that other programs took much of the CPU time
            for sentence in line.split("; "):
                self.assertIn(any_numbers(sentence.removesuffix(".")), output)

    def look_at_a_hang(self, command, shown):
        if "top" not in COMPONENTS:
            return
        wanted = [any_numbers(part) for part in "\n".join(shown).split("…")]
        hanging = subprocess.Popen([USHER.resolve().parent / "top_hanging", "chain"], stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + LIMIT
            output = ""
            while time.monotonic() < end and not all(part in output for part in wanted):  # its threads may not wait yet
                output = any_numbers(self.run_it(re.sub(r"\d+$", str(hanging.pid), command)))
            for part in wanted:
                self.assertIn(part, output)
        finally:
            hanging.kill()
            hanging.wait()

    def verdict(self, _, shown):
        self.assertTrue(shown[0].startswith("Verdict: "))

    COMPARISONS = ((r"usher list$", list_of_locks), (r"USHER_VERBOSE=1 usher run ", run_of_a_program), (r"USHER_LOCK=", prints_nothing),
                   (r"usher sim ", figures_of_the_simulator), (r"usher check ", table_of_the_checker), (r"usher try ", trial),
                   (r"usher stat ", verdict), (r"usher top \d+$", look_at_a_hang))

    def test_samples(self):
        found = list(samples())
        self.assertGreaterEqual(len([page for page, *_ in found if page == "README.md"]), len(self.COMPARISONS))
        for page, command, shown in found:
            with self.subTest(page, command=command):
                compare = next((function for pattern, function in self.COMPARISONS if re.match(pattern, command)), None)
                self.assertIsNotNone(compare, "no test compares this sample")
                compare(self, command, shown)


if __name__ == "__main__":
    unittest.main()
