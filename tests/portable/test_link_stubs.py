#!/usr/bin/env python3
"""Tests the stub C libraries with which a release is linked: their symbols, and that programs linked with them run on
this machine's C library.

lab/roots runs such programs on older C libraries.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
from tools.release import audit

MAKER, SOURCES = TREE / "tools/link_stubs.py", sorted((TREE / "library/portable").glob("*.c"))
options = None

PROGRAM = r"""
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <stdexcept>
#include <thread>

extern char** environ;
static int constructed = 0;
static struct early { early() { constructed = 1; } } now;

int main(int count, char** arguments) {
  using namespace std::chrono_literals;
  int caught = 0, threads = 0;
  try { throw std::runtime_error("thrown"); } catch (const std::exception&) { caught = 1; }
  std::thread([&] { threads = 1; }).join();
  std::mutex m;
  std::condition_variable c;
  std::unique_lock lock(m);
  const auto begin = std::chrono::steady_clock::now();
  const bool late = c.wait_for(lock, 20ms) == std::cv_status::timeout && std::chrono::steady_clock::now() - begin >= 20ms;
  setenv("USHER_TEST", "set", 1);
  bool in_environ = false;
  for (char** e = environ; *e != nullptr; e++) in_environ |= std::strcmp(*e, "USHER_TEST=set") == 0;
  std::random_device random;
  const bool differ = random() != random() || random() != random();
  std::cout << constructed << caught << threads << late << in_environ << differ
            << std::filesystem::is_directory("/") << (count == 2 && arguments[1][0] == 'x') << "\n";
}
"""


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True, timeout=300, **more).stdout


def machine():
    """Returns the machine for which the compiler makes programs. If it is not this one, the test runs in
    tests/aarch64/emulated.sh."""
    return run(options.cc, "-dumpmachine")


def symbols(library):
    """Returns (name, version, default, kind, size, address) of each symbol of the library."""
    for row in run("readelf", "-W", "--dyn-syms", library).splitlines():
        words = row.split()
        if len(words) >= 8 and words[6] not in ("UND", "ABS", "Ndx"):
            name, at, version = words[7].partition("@@") if "@@" in words[7] else words[7].partition("@")
            yield name, version, at == "@@", words[3], int(words[2], 0), words[1]


class Stubs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="usher-stubs-")
        cls.folder = Path(cls.temporary.name)
        run(sys.executable, MAKER, "--glibc", "2.28", "--out", cls.folder, "--compiler", options.cc, *SOURCES)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def build(self, compiler, name, text, *words):
        source = self.folder / name
        source.write_text(text, encoding="ascii")
        program = self.folder / source.stem
        run(compiler, "-O1", source, "-o", program, f"-L{self.folder}", "-static-libgcc", *words)
        return program

    def test_a_program_runs(self):
        program = self.build(options.cxx, "program.cpp", PROGRAM, "-std=c++20", "-pthread", "-static-libstdc++")
        self.assertEqual(list(audit.errors_of(program)), [])
        self.assertEqual(run(program, "x").strip(), "1" * 8)

    def test_newer_functions_are_refused(self):
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            self.build(options.cc, "newer.c", "int gettid(void); int main(void) { return gettid() == 0; }\n")
        self.assertIn("undefined reference to `gettid'", failed.exception.stderr)

    def test_a_weak_reference_has_no_version(self):
        program = self.build(options.cc, "weak.c", """
            extern __attribute__((weak)) char __libc_single_threaded;
            int main(void) { return &__libc_single_threaded == 0; }\n""")
        references = run("readelf", "-W", "--dyn-syms", program)
        self.assertRegex(references, r"WEAK +DEFAULT +UND +__libc_single_threaded\n")
        subprocess.run([program], check=True, timeout=100)  # the loader finds it all the same

    def test_names_of_one_variable(self):
        """A program that uses the variable environ gets a copy of it. The C library uses this copy only if all names of
        the variable lead to the copy."""
        def aliases(library):
            at = collections.defaultdict(set)
            for name, version, _, kind, _, address in symbols(library):
                if kind == "OBJECT" and version in stub_versions:
                    at[address].add((name, version))
            return {frozenset(names) for names in at.values() if len(names) > 1}
        stub = self.folder / "libc.so.6"
        stub_versions = {version for _, version, *_ in symbols(stub)}
        real = run(options.cc, "-print-file-name=libc.so.6").strip()
        self.assertEqual(aliases(stub), aliases(real))
        self.assertIn("environ", {name for names in aliases(stub) for name, _ in names})

    def test_sizes_of_variables(self):
        real = {(name, version): size for name, version, _, kind, size, _ in
                symbols(run(options.cc, "-print-file-name=libc.so.6").strip()) if kind == "OBJECT"}
        for name, version, _, kind, size, address in symbols(self.folder / "libc.so.6"):
            if kind == "OBJECT":
                self.assertEqual(size, real[name, version], name)

    def test_the_default_is_the_newest_permitted_version(self):
        newest = {}
        for name, version, default, *_ in symbols(self.folder / "libc.so.6"):
            if re.fullmatch(r"GLIBC_[0-9.]+", version):
                self.assertLessEqual(tuple(map(int, version[6:].split("."))), (2, 28), name)
                newest.setdefault(name, []).append((tuple(map(int, version[6:].split("."))), default))
        # On x86-64 memcpy() has two versions; on AArch64 it has one, of the first glibc for this processor.
        self.assertIn(((2, 14) if machine().startswith("x86_64") else (2, 17), True), newest["memcpy"])
        for name, versions in newest.items():
            if name != "__libc_start_main":
                self.assertEqual([default for _, default in sorted(versions)][-1], True, name)

    def test_the_same_bytes_each_time(self):
        again = self.folder / "again"
        run(sys.executable, MAKER, "--glibc", "2.28", "--out", again, "--compiler", options.cc, *SOURCES)
        for file in ("libc.so.6", "libm.so.6", "libpthread.so.0"):
            self.assertEqual((again / file).read_bytes(), (self.folder / file).read_bytes(), file)


class Library(unittest.TestCase):
    def test_strong_references_are_in_the_oldest_c_library(self):
        """The libusher.so of the ordinary build must not strongly refer to a function that only libpthread had: before
        glibc 2.34 it would then need that library."""
        strong = set(re.findall(r"GLOBAL +DEFAULT +UND +(\w+)", run("readelf", "-W", "--dyn-syms", options.library)))
        self.assertIn("pthread_self", strong)
        self.assertEqual({n for n in strong if re.match(r"(pthread|sem|mtx|cnd|thrd)_", n)},
                         {"pthread_self", "pthread_setcanceltype"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--library", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
