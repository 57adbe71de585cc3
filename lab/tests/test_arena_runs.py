"""Tests the arena's command line: three short points, resumed; refused options; a packed folder. Figures of such short runs are not
checked. Argument: the build folder."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
BUILD = sys.argv.pop(1)
POINTS = "^(alone-pair|200-0-2|cond-turns)$"


def arena(*words, tree=TREE):
    done = subprocess.run([sys.executable, "-m", "lab.arena", *map(str, words)], capture_output=True, text=True, timeout=300,
                          cwd=tree)
    return done.returncode, done.stdout, done.stderr


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


class Arena(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "results.jsonl"

    def run_points(self, *words, build=BUILD, tree=TREE):
        return arena("run", "--build", build, "--points", POINTS, "--seconds", "0.02", "--locks", "loiter", "--others", "1", "--out", self.out,
                     *words, tree=tree)

    def test_rounds_resumed_and_reported(self):
        for rounds in (1, 2):
            status, said, errors = self.run_points("--rounds", rounds)
            self.assertEqual(status, 0, errors + said)
            runs = [entry for entry in lines(self.out) if "point" in entry]
            self.assertFalse([r for r in runs if "failed" in r])
            self.assertEqual(len(runs), rounds * 3 * 3)
        sessions = [entry for entry in lines(self.out) if "machine" in entry]
        self.assertEqual(sessions[0]["step_ns"], sessions[1]["step_ns"])  # the work stays the same
        contended = next(r for r in runs if r["point"] == "200-0-2")
        self.assertLessEqual({"longest_wait", "smallest_share", "owner_changes", "cost", "voluntary", "others"}, set(contended))
        page = self.folder / "arena.md"
        page.write_text("<!-- arena: results -->\n<!-- /arena: results -->\n")
        status, _, errors = arena("report", self.out, "--others", "1", "--page", page, "--charts", self.folder)
        self.assertEqual(status, 0, errors)
        self.assertIn("`cond-turns`", page.read_text())
        self.assertTrue((self.folder / "heat-loiter.svg").is_file())

    def test_a_neighbour_takes_cpu_time(self):
        for point in ("neighbour-1u-2", "yield-beside-1x", "yield-beside-1x-niced"):
            self.out.unlink(missing_ok=True)
            status, said, errors = arena("run", "--build", BUILD, "--points", f"^{point}$", "--seconds", "0.3", "--rounds", "1", "--locks", "futex",
                                         "--others", "1", "--out", self.out)
            self.assertEqual(status, 0, errors + said)
            runs = [entry for entry in lines(self.out) if "point" in entry]
            self.assertEqual(len(runs), 3)
            for one in runs:
                self.assertNotIn("failed", one)
                self.assertGreater(one["neighbour_cpu"], 0.005, one)

    def test_a_packed_folder(self):
        packed = self.folder / "packed"
        status, _, errors = arena("pack", packed, "--build", BUILD)
        self.assertEqual(status, 0, errors)
        moved = self.folder / "moved"
        packed.rename(moved)
        status, said, errors = self.run_points("--rounds", 1, build=moved, tree=moved)
        self.assertEqual(status, 0, errors + said)
        self.assertNotIn("unknown", lines(self.out)[0]["compiler"])

    def test_refusals(self):
        for words, expected in [(("run", "--locks", "nonsense"), "nonsense"), (("run", "--points", "("), "not a regular expression"),
                                (("run", "--points", "nothing-like-it"), "lab.arena list"), (("run", "--chroot", self.folder), "root"),
                                (("judge", self.folder / "none.jsonl"), "is missing")]:
            build = () if words[0] == "judge" else ("--build", BUILD, "--out", self.out) if words[0] == "run" else ()
            status, _, errors = arena(*words, *build)
            self.assertNotEqual(status, 0, words)
            self.assertIn(expected, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)


if __name__ == "__main__":
    unittest.main()
