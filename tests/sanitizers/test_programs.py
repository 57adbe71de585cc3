#!/usr/bin/env python3
"""Runs programs that are built with AddressSanitizer or ThreadSanitizer under `usher run`, as docs/preload.md
describes. If the sanitizer's run-time library is linked statically, the program runs as it is; otherwise LD_PRELOAD
names that library. The programs' results must be right, and the sanitizer must report the planted errors and no others.
Exit status 77: no compiler here has a sanitizer whose programs run.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from test_sanitizers import SKIPPED, launcher, run

COMPILERS = ["g++", "clang++-16"]
LOCKS = ["mcs", "futex"]
MISTAKE = {"address": ("overrun", "AddressSanitizer: heap-buffer-overflow"),
           "thread": ("race", "ThreadSanitizer: data race")}


def linked_runtime(program):
    """Returns the sanitizer's shared library that the program needs, or None if it is linked statically."""
    needed = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True).stdout
    found = re.search(r"NEEDED.*\[(lib(?:[at]san|clang_rt)\S*)\]", needed)
    return found.group(1) if found else None


def ways(compiler, sanitizer):
    """Returns two ways of linking the sanitizer's library: the compiler's default, and the other one."""
    if "clang" in compiler:
        return {"static": [], "shared": ["-shared-libsan"]}
    return {"shared": [], "static": ["-static-lib" + {"address": "asan", "thread": "tsan"}[sanitizer]]}


def folder_of(compiler, library):
    said = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True).stdout.strip()
    return str(Path(said).resolve().parent) if os.path.isabs(said) else None


def has_versioned_conditions(library):
    """Returns whether libusher.so exports the condition functions with a version. ThreadSanitizer asks for them by
    their version."""
    said = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True).stdout
    return re.search(r"pthread_cond_wait@+GLIBC_2\.3\.2", said) is not None


class Checker:
    def __init__(self, options, folder):
        self.usher, self.source, self.folder = options.usher, options.source, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        self.env.update(ASAN_OPTIONS="exitcode=66", TSAN_OPTIONS="exitcode=66")
        self.versioned = has_versioned_conditions(options.library)
        self.ran = self.failed = 0

    def check(self, what, command, env, want_status, want_text):
        status, out = run(command, 60, env)
        reports = re.findall(r"(?:ERROR|WARNING): (\w+Sanitizer: [\w -]+)", out)
        good = status == want_status and want_text in out and (want_status != 0 or not reports)
        self.ran += 1
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'}  {what}", flush=True)
        if not good:
            print(f"exit status {status}, expected {want_status}; reports: {reports}\n"
                  f"$ {' '.join(str(word) for word in command)}\n{out[-6000:]}")

    def program(self, compiler, sanitizer, way, flags):
        program = Path(self.folder, f"{compiler}-{sanitizer}-{way}")
        options = ["-std=c++20", "-g", "-O1", "-pthread", f"-fsanitize={sanitizer}"] + flags
        status, out = run([compiler] + options + [self.source, "-o", program], 120, self.env)
        if status != 0:
            print(f"skip  {program.name}: {out.strip().splitlines()[-1] if out.strip() else status}")
            return
        env, library = dict(self.env), linked_runtime(program)
        if library:
            # The loader finds clang's shared run-time library only if LD_LIBRARY_PATH names its folder.
            folder = folder_of(compiler, library)
            if folder and "clang" in compiler:
                env["LD_LIBRARY_PATH"] = folder
        before = launcher(compiler, f"-fsanitize={sanitizer}", env)
        if before is None or run(before + [program], 60, env) != (0, "ok\n"):
            print(f"skip  {program.name}: does not run here, without Usher")
            return
        # If libusher.so exports the condition functions without a version, ThreadSanitizer calls those of the C
        # library, which cannot use Usher's mutexes.
        arguments = ["conditions"] if sanitizer == "address" or self.versioned else []
        if library:
            env["LD_PRELOAD"] = library
        for lock in LOCKS:
            under = before + [self.usher, "run", "--lock", lock, "--", program] + arguments
            said = "" if "conditions" in arguments else ", without condition variables"
            self.check(f"{program.name} under {lock}{said}", under, env, 0, "ok\n")
            mistake, report = MISTAKE[sanitizer]
            self.check(f"{program.name} under {lock} reports its {mistake}", under + [mistake], env, 66, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--usher", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--source", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="usher-sanitizers-") as folder:
        checker = Checker(options, folder)
        for compiler in COMPILERS:
            if run(["sh", "-c", f"command -v {compiler}"], 10)[0] != 0:
                print(f"skip  {compiler} is not installed")
                continue
            for sanitizer in MISTAKE:
                for way, flags in ways(compiler, sanitizer).items():
                    checker.program(compiler, sanitizer, way, flags)
    print(f"{checker.ran - checker.failed} passed, {checker.failed} failed")
    return SKIPPED if checker.ran == 0 else 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
