#!/usr/bin/env python3
"""Tests what README.md's first commands print if something is missing, and which packages they install. Nothing is
compiled or installed: PATH begins with a folder of the test, whose programs replace the real ones.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE), str(Path(__file__).resolve().parent)]
import front_door  # noqa: E402
from tools.release import __main__ as release_main  # noqa: E402
from tools.release import audit, release  # noqa: E402

CAUSE = "Usher: fmt is missing. On Debian: apt-get install libfmt-dev."


class FrontDoor(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="usher-front-door-")))
        self.programs = self.folder / "programs"
        self.programs.mkdir()

    def program(self, name, text):
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        file.chmod(0o755)

    def run_it(self, *command, only=False, cwd=TREE):
        path = str(self.programs) if only else f"{self.programs}:{os.environ['PATH']}"
        return subprocess.run([str(word) for word in command], check=False, text=True, capture_output=True, timeout=150, cwd=cwd,
                              env=os.environ | {"PATH": path})

    def release(self, *arguments, **more):
        return self.run_it(sys.executable, "-m", "tools.release", "--build", self.folder / "build", "--out", self.folder / "dist",
                           "--only", "tarball", *arguments, **more)

    def programs_of_a_release(self):
        for name in release_main.PROGRAMS:
            self.program(name, "exit 0")
        self.program("git", "echo 1")
        self.program("cmake", f'echo "$*" >> "{self.folder}/cmake"; echo "{CAUSE}"; exit 1')

    def test_the_cause_of_a_failed_configuration_is_printed(self):
        self.programs_of_a_release()
        done = self.release()
        self.assertEqual(done.returncode, 1)
        self.assertIn(CAUSE, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_tests_are_configured_only_if_asked_for(self):
        self.programs_of_a_release()
        self.release()
        self.release("--tests")
        without, with_tests = (self.folder / "cmake").read_text(encoding="utf-8").splitlines()
        self.assertIn("-DUSHER_BUILD_TESTS=OFF", without)
        self.assertIn("-DUSHER_BUILD_CHECKER=ON", without)
        self.assertIn("-DUSHER_BUILD_TESTS=ON", with_tests)

    def test_a_missing_program_is_named_first(self):
        self.programs_of_a_release()
        for name, package in (("git", "git"), ("cmake", "cmake"), ("ninja", "ninja-build")):
            with self.subTest(name):
                hidden = (self.programs / name).rename(self.folder / name)
                done = self.release(only=True)
                hidden.rename(self.programs / name)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, f"usher: release: missing: {name}: apt-get install {package}\n")
        self.assertFalse((self.folder / "cmake").exists())

    def test_a_failing_git_is_no_traceback(self):
        self.programs_of_a_release()
        self.program("git", "echo fatal: no >&2; exit 128")
        done = self.release()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Ausher: release: git .*fatal: no.*\n\Z")

    def test_a_tree_without_git_says_so_before_packages_are_installed(self):
        tree = self.folder / "tree"
        (tree / "tools").mkdir(parents=True)
        shutil.copy(TREE / "Makefile", tree)
        (tree / "tools/deps.sh").write_text("#!/bin/sh\necho installing\n", encoding="ascii")
        (tree / "tools/deps.sh").chmod(0o755)
        for target in ("wheel", "deb", "release"):
            with self.subTest(target):
                done = self.run_it("make", target, cwd=tree)
                self.assertIn("is no git clone", done.stderr)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("installing", done.stdout)

    def test_packages_of_the_commands(self):
        self.program("dpkg-query", "exit 1")  # none is installed
        self.program("apt-get", f'echo "$*" >> "{self.folder}/apt"')
        self.program("id", "echo 0")
        for sections in (("build", "wheel"), ("build", "deb"), ("build", "package", "release")):
            with self.subTest(sections):
                done = self.run_it(TREE / "tools/deps.sh", *sections)
                self.assertEqual(done.returncode, 0, done.stderr)
                words = (self.folder / "apt").read_text(encoding="ascii").splitlines()[-1].split()
                self.assertLessEqual({"build-essential", "cmake", "ninja-build", "git", "python3"}, set(words))
                self.assertNotIn("libgtest-dev", words)

    def test_without_apt_there_is_one_line(self):
        for name in ("sh", "dirname", "awk", "sort", "grep"):
            (self.programs / name).symlink_to(shutil.which(name))
        done = self.run_it(TREE / "tools/deps.sh", "build", only=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines()[-1:], [done.stderr.strip()])
        self.assertIn("there is no apt-get", done.stderr)

    def test_a_clone_may_be_in_the_folder_that_installed_names_end_with(self):
        for content, folder, named in ((b"\0share/src/x\0", "/src", False), (b"\0/src/x.cpp\0", "/src", True), (b"\0/src\0", "/src", True),
                                       (b"\0/src2/x\0", "/src", False), (b"\0/usher/src/check/x.cpp\0libexec/usher/\0", "/usher", False)):
            with self.subTest(content):
                self.assertEqual(audit.names_folder(content, folder), named)

    def test_each_command_of_the_sections_is_found(self):
        text = "## Get it\n```sh\nmake wheel  # all\n```\n## Use it\n```text\n$ usher list\nFor use\n\n  more\n$ usher run\n```\n## Why\n```sh\nno\n```\n"
        self.assertEqual(front_door.commands(text), [("make wheel  # all", None), ("usher list", "For"), ("usher run", None)])
        found = [command for command, _ in front_door.commands((release.TREE / "README.md").read_text(encoding="utf-8"))]
        self.assertIn("make wheel", found)
        self.assertTrue(any(command.startswith("usher stat") for command in found))


if __name__ == "__main__":
    unittest.main()
