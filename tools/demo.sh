#!/bin/sh
# The demonstration of `make demo`: runs `usher try` on three real programs, with two locks and the C library's, half a
# minute each. A line after each trial says whether the result is the expected one.
set -eu
build=${1:-build/release}
[ -x "$build/bin/usher" ] || { echo "demo: $build/bin/usher is not there: make demo" >&2; exit 1; }
[ -x "$build/lab/programs/sqlite_shared" ] || { echo "demo: sqlite_shared was not built: install libsqlite3-dev and run make demo again" >&2; exit 1; }
tools=$(dirname "$0")
programs=$tools/../lab/programs
[ "$programs" != tools/../lab/programs ] || programs=lab/programs
PATH=/usr/bin:$PATH # Debian's programs come before others of the same names
said=$(mktemp) results=$(mktemp)
trap 'rm -f "$said" "$results"' EXIT
colours=never
[ ! -t 1 ] || [ -n "${NO_COLOR:-}" ] || [ "${TERM:-dumb}" = dumb ] || colours=always

# The commands that usher try recommends begin with "usher". Here "usher" is replaced by the path, so that a user can paste them.
status=0
trial() {
    echo "$1"
    expected=$2
    shift 2
    ended=0
    : > "$results"
    "$build/bin/usher" try --budget 29s --colour $colours --json "$results" "$@" > "$said" || ended=$?
    sed "s|^  usher |  $build/bin/usher |" "$said"
    [ $ended = 0 ] || status=$ended
    [ $ended -lt 128 ] || exit $ended # interrupted
    [ ! -s "$results" ] || python3 "$tools/demo_verdict.py" "$expected" "$results"
    echo
}

trial "1. Python: eight threads share a queue (jobs a second). Expected: a gain." gain \
    --locks steady,futex --metric 'throughput: ([0-9]+)' -- python3 "$programs/job_queue.py" 8 1
numbers=$build/numbers
seq 1 6000000 > "$numbers"
trial "2. xz compresses a file with two threads (seconds). Expected: hardly any waiting for mutexes, and no gain that shows." little-waiting \
    --locks steady,futex -- xz -T2 -1 --block-size=1MiB --stdout "$numbers"
trial "3. SQLite: eight threads on one connection (operations a second). Expected: twa, which serves in order of arrival, is slower." twa-loses \
    --locks steady,twa --metric 'throughput: ([0-9.]+)' -- "$build/lab/programs/sqlite_shared" --threads 8 --seconds 1 --check
echo "Next: your own program: $build/bin/usher try -- CMD"
exit $status
