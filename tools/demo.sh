#!/bin/sh
# What `make demo` shows: `usher try` on two real programs, four locks beside the C library's, three rounds of a second.
set -eu
build=${1:-build/release}
[ -x "$build/bin/usher" ] || { echo "demo: $build/bin/usher is not there: make build" >&2; exit 1; }
[ -x "$build/apps/sqlite_shared" ] || { echo "demo: sqlite_shared was not built: install libsqlite3-dev and build again" >&2; exit 1; }
PATH=$(cd "$build/bin" && pwd):$(cd "$build/apps" && pwd):$PATH

locks=loiter,loiter-park,mcscr,twa
status=0
trial() {
    echo "$1"
    shift
    usher try --locks $locks --rounds 3 "$@" || status=$?
    [ $status -lt 128 ] || exit $status # interrupted
    echo
}
trial "sysbench threads: 8 threads, one mutex, which its holder keeps while it offers its CPU to others ten times (events)" \
    --metric 'total number of events: +([0-9]+)' -- sysbench threads --threads=8 --thread-locks=1 --thread-yields=10 --time=1 run
trial "SQLite: 8 threads on one connection (operations a second)" \
    --metric 'throughput: ([0-9.]+)' -- sqlite_shared --threads 8 --seconds 1 --check
exit $status
