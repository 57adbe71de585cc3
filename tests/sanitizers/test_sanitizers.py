#!/usr/bin/env python3
"""Builds the unit tests with a sanitizer and runs them. Exit status 77: this compiler or this machine cannot do this.
"""

import argparse
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}
TESTS = ["order_test", "every_lock_test", "c_api_test"]
# left out if only few locks are built: this test is for errors of order, not of memory
LONG_TO_COMPILE = {"asan": ["order_test"]}
SKIPPED = 77


def run(command, limit, env=None):
    """Returns the exit status and the output; the status is −1 if the limit was reached and the command was killed with
    its children."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", env=env, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=limit)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        return -1, f"{out}\nkilled after {limit} s"


def must(command, limit, env):
    status, out = run(command, limit, env)
    if status != 0:
        sys.exit(f"{out}\nsanitizers: exit status {status}: {' '.join(str(word) for word in command)}")


def parts_of(test):
    """Returns the (test, arguments, environment) that run side by side. The longest test is split into two parts."""
    if test == "c_api_test":
        return [(test, [], {})]
    shards = 2 if test == "every_lock_test" else 1
    return [(test, ["--gtest_brief=1"], {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)} if shards > 1 else {})
            for i in range(shards)]


def launcher(compiler, flags, env):
    """Returns the words to put before a sanitized program: none, or `setarch -R` if ThreadSanitizer does not support
    the kernel's address randomisation. Returns None if such programs cannot be built or do not run here."""
    with tempfile.TemporaryDirectory(prefix="usher-sanitizers-") as folder:
        source, program = Path(folder, "nothing.cpp"), Path(folder, "nothing")
        source.write_text("int main() {}\n")
        if run([compiler, flags, source, "-o", program], 60, env)[0] != 0:
            return None
        for before in ([], ["setarch", "-R"]):
            if (not before or shutil.which(before[0])) and run(before + [program], 20, env)[0] == 0:
                return before
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizer", choices=SANITIZERS)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--locks", help="comma-separated: no others are built")
    options = parser.parse_args()
    kinds = SANITIZERS[options.sanitizer]
    tests = [t for t in TESTS if not options.locks or t not in LONG_TO_COMPILE.get(options.sanitizer, [])]
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = "halt_on_error=1:exitcode=66"
    env["UBSAN_OPTIONS"] += ":print_stacktrace=1"

    before = launcher(options.cxx, f"-fsanitize={kinds}", env)
    if before is None:
        print(f"skipped: {options.cxx} -fsanitize={kinds} gives no program that runs here")
        return SKIPPED

    start = time.monotonic()
    must([options.cmake, "-S", options.tree, "-B", options.build, "-G", options.generator, "-DCMAKE_BUILD_TYPE=Debug",
          f"-DUSHER_SANITIZE={kinds}", f"-DUSHER_LOCKS={(options.locks or '').replace(',', ';')}", f"-DCMAKE_C_COMPILER={options.cc}", f"-DCMAKE_CXX_COMPILER={options.cxx}"], 60, env)
    must([options.cmake, "--build", options.build, "-j", "2", "--target"] + tests, 300 if options.locks else 800, env)
    print(f"built after {time.monotonic() - start:.0f} s", flush=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = [part for test in tests for part in parts_of(test)]
        ended = pool.map(lambda part: run(before + [Path(options.build, "bin", part[0])] + part[1], 150, env | part[2]), parts)
        for (test, _, which), (status, out) in zip(parts, ended):
            name = test + (f", part {which['GTEST_SHARD_INDEX']}" if which else "")
            print(f"{'ok  ' if status == 0 else 'FAIL'}  {name}, after {time.monotonic() - start:.0f} s", flush=True)
            if status != 0:
                failed = True
                print(f"exit status {status}\n{out[-8000:]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
