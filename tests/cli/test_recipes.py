#!/usr/bin/env python3
"""Runs the recipes of docs/simulation.md that split a sweep over several computers, with fewer points, and merges the
files that they write. USHER_BIN is the command.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

USHER = os.environ["USHER_BIN"]
LIMIT = 500
TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SWEEP = "usher sim mutexbench --threads 1..72"  # of the recipes


def blocks():
    """Returns the code blocks of the section as (language, text)."""
    with open(os.path.join(TREE, "docs", "simulation.md")) as file:
        section = file.read().split("### A sweep on several computers\n")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.S)


class Recipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="usher-recipes-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        listed = subprocess.run([USHER, "list", "--json"], capture_output=True, text=True, timeout=LIMIT, check=True)
        self.lock = re.findall(r'"name": "([^"]*-spin)"', listed.stdout)[0]
        (_, self.parallel), (_, self.slurm), (_, self.kubernetes) = blocks()

    def smaller(self, text):
        self.assertIn(SWEEP, text)
        return text.replace(SWEEP, f"usher sim mutexbench --threads 1..3 --seeds 2 --ms 0.02 --locks {self.lock}")

    def run_shell(self, text, **variables):
        path = os.path.dirname(os.path.realpath(USHER)) + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", "-c", text], cwd=self.folder, env=os.environ | {"PATH": path} | variables, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done)
        self.assertLessEqual(done.stderr.count("\n"), done.stderr.count("not settled"), done.stderr)
        return done.stdout

    def assert_merged(self):
        with open(os.path.join(self.folder, "sweep.json")) as file:
            points = json.load(file)["points"]
        self.assertEqual(sorted((p["threads"], p["seed"]) for p in points), [(t, s) for t in (1, 2, 3) for s in (1, 2)])
        os.remove(os.path.join(self.folder, "sweep.json"))

    def test_the_section_is_short(self):
        with open(os.path.join(TREE, "docs", "simulation.md")) as file:
            section = file.read().split("### A sweep on several computers\n")[1].split("\n## ")[0]
        self.assertLessEqual(section.count("\n"), 40)
        for _, text in blocks():
            self.assertLessEqual(text.count("\n"), 10)

    def test_parallel_and_xargs(self):
        points, parallel, xargs = self.parallel.splitlines()
        self.run_shell(self.smaller(points))
        self.run_shell(xargs)
        self.assert_merged()
        if shutil.which("parallel"):
            self.run_shell(parallel)
            self.assert_merged()
            self.assertTrue(os.path.exists(os.path.join(self.folder, "sweep.svg")))
        subprocess.run(["bash", "-n", "-c", parallel], check=True, timeout=LIMIT)

    def test_slurm(self):
        """Runs the script with the variables that Slurm sets."""
        subprocess.run(["bash", "-n", "-c", self.slurm], check=True, timeout=LIMIT)
        self.assertIn("--array=0-31", self.slurm)
        self.assertIn("NR % 32 ==", self.slurm)
        for task in range(2):
            self.run_shell(self.smaller(self.slurm).replace("NR % 32", "NR % 2"), SLURM_ARRAY_TASK_ID=str(task))
        merge = re.search("^# After all tasks: (.*)$", self.slurm, re.M)[1]
        self.run_shell(merge)
        self.assert_merged()

    @unittest.skipUnless(yaml, "no yaml")
    def test_kubernetes(self):
        """Runs the container's command with the variable that Kubernetes sets."""
        job = yaml.safe_load(self.kubernetes)
        self.assertEqual((job["apiVersion"], job["kind"], job["spec"]["completionMode"]), ("batch/v1", "Job", "Indexed"))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        count = job["spec"]["completions"]
        self.assertIn(f"NR % {count} ==", container["command"][2])
        self.assertEqual(container["command"][:2], ["sh", "-c"])
        text = self.smaller(container["command"][2]).replace("/dev/termination-log", "/dev/stderr").replace(f"% {count}", "% 2")
        with open(os.path.join(self.folder, "lines"), "w") as to:
            for index in range(2):
                to.write(self.run_shell(text, JOB_COMPLETION_INDEX=str(index)))
        self.run_shell("usher sim --merge lines --json sweep.json")
        self.assert_merged()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
