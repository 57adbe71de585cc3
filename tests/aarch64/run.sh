#!/bin/sh
# Runs tests of build/aarch64 under emulation, about a minute: unit tests and traps, the conformance programs on the C library and
# under the default lock, and the count of instructions.
#
#   tests/aarch64/run.sh TESTS JOBS PROGRAM...    TESTS: a regular expression for CTest
set -eu
cd "$(dirname "$0")/../.."
tests=$1 jobs=$2
shift 2
here=tests/aarch64 build=$PWD/build/aarch64
$here/emulated.sh ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error -R "$tests"
$here/emulated.sh python3 tests/conformance/run.py --write-reference "$build/reference.json" --programs "$@"
USHER_LIB=$build/lib/libusher.so $here/emulated.sh python3 tests/conformance/run.py --reference "$build/reference.json" --lock steady --programs "$@"
python3 $here/fast_paths.py
