#!/bin/sh
# Runs the long tests of build/aarch64 under emulation: unit tests, results that do not depend on the machine, and all conformance
# programs under several locks and read-write locks. Status 1 if one of them fails; the others still run.
#
#   tests/aarch64/run_long.sh HERE TESTS LOCKS    HERE: a build for this machine; TESTS: a regular expression for CTest
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$1 tests=$2 locks=$3
own=tests/aarch64 build=$PWD/build/aarch64 status=0
programs=$(find "$build/tests/conformance" -maxdepth 1 -type f -perm -u=x ! -name '*.so' | tr '\n' ' ')
read_write="$build/tests/conformance/read_write $build/tests/conformance/standard_library"
# Under emulation the kernel does not unlock robust mutexes of threads that have ended (docs/aarch64.md), so these cases
# are left out.
without='--without owner_dies --without owner_dies_with_queue --without owning_process_dies --without robust_among_others --without wait_meets_a_dead_owner --without every_wait_meets_a_dead_owner'

$own/emulated.sh ctest --test-dir "$build" --output-on-failure --no-tests=error -R "$tests" || status=1
$own/same_results.py --here "$here" || status=1
# Runs in a Debian system for AArch64, because some cases start other programs, which must load the library, too.
conformance() {
  $own/in_root.sh bookworm "USHER_LIB=$build/lib/libusher.so python3 tests/conformance/run.py $without $*" || status=1
}
conformance --write-reference "$build/long_reference.json" --programs $programs
for lock in $locks; do
  # The choice of a mutex changes no case of read-write locks, and the choice of a read-write lock changes only these
  # cases.
  case $lock in
    rwlock:*) conformance --reference "$build/long_reference.json" --lock "$lock" --programs $read_write ;;
    *) conformance --reference "$build/long_reference.json" --lock "$lock" --programs $programs ;;
  esac
done
exit $status
