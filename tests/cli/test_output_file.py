#!/usr/bin/env python3
"""Tests how the command writes output files: in a folder that an attacker may write, on full disks, and under names of
files that are not regular. One command, `usher stat -o FILE`, represents all, because all use
support/text/output_file.cpp. The program that `usher stat` starts plays the attacker, who acts while the command runs.

USHER_BIN is the command, USHER_LIB the library. If root runs the test, the attacker and the unprivileged user have the
id 65534.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

from refusals import Refusals

USHER = os.environ["USHER_BIN"]
LIBRARY = os.environ["USHER_LIB"]
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
LIMIT = 150
OTHER = 65534
RESULT = "other locks have nothing to change"
PRECIOUS = "precious\n"
AS_ROOT = os.geteuid() == 0

# A preloaded library that simulates file systems which this computer may not have. NO_TMPFILE: files without a name are
# not supported. NO_LINK: such a file cannot be given a name. FULL=FOLDER: there is no space for files of this folder.
# KILL: the process is killed before it writes to such a file.
FILE_SYSTEM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int openat(int folder, const char *name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, int) : 0;
  va_end(more);
  if ((flags & O_TMPFILE) == O_TMPFILE && getenv("NO_TMPFILE")) return errno = EOPNOTSUPP, -1;
  return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat"))(folder, name, flags, mode);
}

int linkat(int from, const char *old, int to, const char *name, int flags) {
  if ((flags & AT_SYMLINK_FOLLOW) && getenv("NO_LINK")) return errno = ENOENT, -1;
  return ((int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat"))(from, old, to, name, flags);
}

ssize_t write(int fd, const void *data, size_t size) {
  const char *full = getenv("FULL");
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (full && readlink(link, path, sizeof path - 1) > 0 && !strncmp(path, full, strlen(full))) {
    if (getenv("KILL")) raise(SIGKILL);
    return errno = ENOSPC, -1;
  }
  return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, data, size);
}
"""


def content(path):
    with open(path) as file:
        return file.read()


class OutputFile(Refusals, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="usher-output-")
        os.chmod(cls.folder, 0o755)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        """Makes two folders: one that every user may write, like /tmp, and one with a file that only this user may
        write."""
        self.shared = tempfile.mkdtemp(dir=self.folder, prefix="shared-")
        os.chmod(self.shared, 0o1777)
        self.private = tempfile.mkdtemp(dir=self.folder, prefix="private-")
        os.chmod(self.private, 0o755)
        self.report = os.path.join(self.shared, "report")
        self.victim = os.path.join(self.private, "victim")
        self.write(self.victim, PRECIOUS)

    def write(self, path, text):
        with open(path, "w") as file:
            file.write(text)

    def file_system(self):
        """Builds the library that simulates the file systems."""
        if not CC:
            self.skipTest("no C compiler")
        library = os.path.join(self.folder, "file_system.so")
        if not os.path.exists(library):
            self.write(library + ".c", textwrap.dedent(FILE_SYSTEM))
            subprocess.run([CC, "-shared", "-fPIC", library + ".c", "-o", library, "-ldl"], check=True, timeout=LIMIT)
        return library

    def stat(self, path, *program, env=None, **more):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        variables |= {"USHER_LIBRARY": LIBRARY} | (env or {})
        return subprocess.run([USHER, "stat", "-o", path, "--", *(program or ("true",))], env=variables, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, **more)

    def assert_written(self, done, path):
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(RESULT, content(path))
        self.assertFalse(os.path.islink(path))
        self.assertEqual(os.stat(path).st_nlink, 1)

    def assert_victim_is_unharmed(self):
        self.assertEqual(content(self.victim), PRECIOUS)
        self.assertEqual(sorted(os.listdir(self.private)), ["victim"])

    def attackers(self, path):
        """Makes another user the owner of a planted file, if this process may."""
        if AS_ROOT:
            os.lchown(path, OTHER, OTHER)

    # The following tests plant files in a folder that every user may write.

    def test_a_link_that_is_there_before(self):
        os.symlink(self.victim, self.report)
        self.attackers(self.report)
        self.assert_written(self.stat(self.report), self.report)
        self.assert_victim_is_unharmed()

    def test_a_link_to_what_is_not_there(self):
        os.symlink(os.path.join(self.private, "new"), self.report)
        self.attackers(self.report)
        self.assert_written(self.stat(self.report), self.report)
        self.assert_victim_is_unharmed()

    def test_a_link_that_is_made_meanwhile(self):
        self.assert_written(self.stat(self.report, "ln", "-s", self.victim, self.report), self.report)
        self.assert_victim_is_unharmed()
        self.write(self.report, "old\n")
        self.assert_written(self.stat(self.report, "ln", "-sf", self.victim, self.report), self.report)
        self.assert_victim_is_unharmed()

    def test_a_hard_link(self):
        os.link(self.victim, self.report)
        self.assert_written(self.stat(self.report), self.report)
        self.assert_victim_is_unharmed()

    @unittest.skipUnless(AS_ROOT, "only root can plant in the name of another user")
    def test_a_fifo_of_another_user_is_refused_at_once(self):
        os.mkfifo(self.report)
        self.attackers(self.report)
        ran = os.path.join(self.private, "ran")
        self.assert_refused(self.stat(self.report, "touch", ran), 125, "no regular file, and another user's")
        self.assertFalse(os.path.exists(ran))

    @unittest.skipUnless(AS_ROOT, "only root can plant in the name of another user")
    def test_a_link_among_the_folders(self):
        folder = os.path.join(self.shared, "folder")
        os.symlink(self.private, folder)
        self.attackers(folder)
        self.assert_refused(self.stat(os.path.join(folder, "victim")), 125, "the symbolic link folder in its path", "another user")
        self.assert_victim_is_unharmed()
        os.lchown(folder, 0, 0)
        self.assert_written(self.stat(os.path.join(folder, "report")), os.path.join(self.private, "report"))

    def test_a_folder_under_the_name_does_not_lose_the_result(self):
        done = self.stat(self.report, "mkdir", self.report)
        self.assertIn(f"{self.report} has changed meanwhile", done.stderr)
        self.assert_written(done, self.report + ".2")
        self.assertEqual(sorted(os.listdir(self.shared)), ["report", "report.2"])

    # Names without an attacker

    def test_a_link_in_a_folder_of_ours_is_followed(self):
        os.symlink("victim", os.path.join(self.private, "latest"))
        done = self.stat(os.path.join(self.private, "latest"))
        self.assert_written(done, self.victim)
        self.assertEqual(os.readlink(os.path.join(self.private, "latest")), "victim")

    def test_a_ring_of_links(self):
        path = os.path.join(self.private, "ring")
        os.symlink("ring", path)
        self.assert_refused(self.stat(path), 125, "Too many levels of symbolic links")

    def test_a_fifo_of_ours(self):
        os.mkfifo(self.report)
        read = []
        reader = threading.Thread(target=lambda: read.append(content(self.report)))
        reader.start()
        done = self.stat(self.report)
        reader.join(LIMIT)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(RESULT, read[0])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.report).st_mode))

    def test_devices(self):
        self.assertIn(RESULT, self.stat("/dev/stdout").stdout)
        self.assertEqual(self.stat("/dev/stderr").stderr.count(RESULT), 2)
        self.assertEqual(self.stat("/dev/null").returncode, 0)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        read_end, write_end = os.pipe()
        self.assertEqual(self.stat(f"/dev/fd/{write_end}", pass_fds=[write_end]).returncode, 0)
        os.close(write_end)
        with open(read_end) as pipe:
            self.assertIn(RESULT, pipe.read())

    def test_standard_output_that_is_a_file_keeps_its_content(self):
        with open(self.report, "w") as log:
            subprocess.run([USHER, "--version"], stdout=log, check=True, timeout=LIMIT)
            done = subprocess.run([USHER, "stat", "-o", "/dev/stdout", "--", "echo", "between"], stdout=log, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, env=os.environ | {"USHER_LIBRARY": LIBRARY}, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done)
        lines = content(self.report).splitlines()
        self.assertTrue(lines[0].startswith("usher "), lines)
        self.assertEqual(lines[1], "between")
        self.assertIn(RESULT, lines[2])

    def test_what_is_no_file(self):
        for path in (self.private, self.private + "/", "."):
            self.assert_refused(self.stat(path, cwd=self.private), 125, "Is a directory")
        self.assert_refused(self.stat(self.victim + "/file"), 125, "Not a directory")

    # The old file

    def test_its_permissions_are_kept(self):
        for mode in (0o600, 0o640, 0o606):
            self.write(self.report, PRECIOUS)
            os.chmod(self.report, mode)
            self.assert_written(self.stat(self.report), self.report)
            self.assertEqual(os.stat(self.report).st_mode & 0o7777, mode)

    def test_a_new_file_has_the_usual_permissions(self):
        self.assert_written(self.stat(self.report, umask=0o027), self.report)
        self.assertEqual(os.stat(self.report).st_mode & 0o7777, 0o640)

    @unittest.skipUnless(AS_ROOT, "only root can make a file of another user")
    def test_one_of_another_user_becomes_ours(self):
        self.write(self.report, PRECIOUS)
        os.chmod(self.report, 0o666)
        self.attackers(self.report)
        self.assert_written(self.stat(self.report, umask=0o022), self.report)
        found = os.stat(self.report)
        self.assertEqual((found.st_uid, found.st_mode & 0o7777), (os.geteuid(), 0o644))

    def test_a_full_disk_leaves_it(self):
        self.write(self.report, PRECIOUS)
        for more in ({}, {"NO_TMPFILE": "1"}):
            done = self.stat(self.report, env={"LD_PRELOAD": self.file_system(), "FULL": self.shared} | more)
            self.assertEqual(done.returncode, 125, done)
            self.assertIn(f"cannot write to {self.report}: No space left on device\n", done.stderr)
            self.assertEqual(content(self.report), PRECIOUS)
            self.assertEqual(os.listdir(self.shared), ["report"])

    def test_a_killed_command_leaves_it_and_nothing_else(self):
        self.write(self.report, PRECIOUS)
        done = self.stat(self.report, env={"LD_PRELOAD": self.file_system(), "FULL": self.shared, "KILL": "1"})
        self.assertEqual(done.returncode, -signal.SIGKILL, done)
        self.assertEqual(content(self.report), PRECIOUS)
        self.assertEqual(os.listdir(self.shared), ["report"])

    def test_file_systems_without_files_without_names(self):
        for more in ({"NO_TMPFILE": "1"}, {"NO_LINK": "1"}):
            done = self.stat(self.report, "ln", "-s", self.victim, self.report, env={"LD_PRELOAD": self.file_system()} | more)
            self.assert_written(done, self.report)
            self.assert_victim_is_unharmed()
            self.assertEqual(os.listdir(self.shared), ["report"])
            os.unlink(self.report)

    def test_two_commands_keep_both_results(self):
        for before in (False, True):
            with self.subTest(before=before):
                if before:
                    self.write(self.report, PRECIOUS)
                done = self.stat(self.report, "sh", "-c", f"echo other > {self.report}.new; mv {self.report}.new {self.report}")
                self.assertIn(f"usher: warning: {self.report} has changed meanwhile and is left: these results are in "
                              f"{self.report}.2\n", done.stderr)
                self.assertEqual(content(self.report), "other\n")
                self.assert_written(done, self.report + ".2")
                self.assertEqual(sorted(os.listdir(self.shared)), ["report", "report.2"])
                os.unlink(self.report), os.unlink(self.report + ".2")

    # The following tests use a folder that the user may not write.

    def as_other(self):
        return {"user": OTHER, "group": OTHER, "extra_groups": []} if AS_ROOT else {}

    def closed(self):
        """Returns a file that the user may write, in a folder that the user may not write, and the arguments that run
        the command as this user."""
        user = self.as_other()
        if user and not os.access(USHER, os.X_OK, effective_ids=False):
            self.skipTest("other users may not enter the build's folder")
        folder = tempfile.mkdtemp(dir=self.folder, prefix="closed-")
        path = os.path.join(folder, "report")
        self.write(path, PRECIOUS)
        os.chmod(path, 0o666)
        os.chmod(folder, 0o555)
        self.addCleanup(os.chmod, folder, 0o755)
        return path, user

    def test_a_file_in_a_closed_folder_is_written_in_place(self):
        path, user = self.closed()
        before = os.stat(path)
        self.assert_written(self.stat(path, **user), path)
        self.assertEqual(os.stat(path).st_ino, before.st_ino)
        self.assertNotIn("precious", content(path))

    def test_a_hard_link_in_a_closed_folder_is_refused(self):
        path, user = self.closed()
        os.link(path, os.path.join(self.shared, "other name"))
        self.assert_refused(self.stat(path, **user), 125, "hard links")
        self.assertEqual(content(path), PRECIOUS)

    def test_a_file_that_may_not_be_written(self):
        user = self.as_other()
        self.write(self.report, PRECIOUS)
        self.attackers(self.report)
        os.chmod(self.report, 0o444)
        self.assert_refused(self.stat(self.report, **user), 125, "Permission denied")
        self.assertEqual(content(self.report), PRECIOUS)

    @unittest.skipUnless(AS_ROOT, "only root can make a file of another user")
    def test_a_file_of_another_user_that_may_not_be_replaced(self):
        self.write(self.report, PRECIOUS)
        os.chmod(self.report, 0o666)
        ran = os.path.join(self.shared, "ran")
        self.assert_refused(self.stat(self.report, "touch", ran, **self.as_other()), 125, "it belongs to another user")
        self.assertEqual(content(self.report), PRECIOUS)
        self.assertFalse(os.path.exists(ran))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
