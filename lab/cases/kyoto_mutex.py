"""Kyoto Cabinet with a mutex in place of its read-write lock (claim M7), written to lab/results/kyoto-mutex.json: operations a second
by lock and number of threads, in interleaved rounds, and the length of the mutex's sections with one thread.

  python3 -m lab.cases.kyoto_mutex                    measure: a quarter of an hour
  python3 -m lab.cases.kyoto_mutex --section          measure the sections only, and put them into the stored results
  python3 -m lab.cases.kyoto_mutex --show             print the stored results; measures nothing

Candidates: the read-write lock as it is; the C library's mutex; locks of Usher. The range of keys is the paper's; a run begins with a
million records. There are no transactions: a thread that wants to begin one takes the mutex again and again until the present one
ends, and if waiters spin on fewer CPUs than threads, the thread with the transaction may wait for minutes behind such threads."""

import json
import re
import statistics
import tempfile
from pathlib import Path

import harness
from harness import TREE, Build
from lab.cases.throw_steps import clock_of
from lab.run import packed, rounds, runner, script
from lab.run.runner import Failed

RESULT = TREE / "lab" / "results" / "kyoto-mutex.json"
RW_LOCK, C_LIBRARY = "read-write lock", "C library"
LOCKS = ["mcs-spin", "mcs", "mcs-park", "mcscr-spin", "mcscr", "mcscr-park", "steady", "loiter"]
THREADS = [1, 2, 5, 8, 16, 32]
PACKAGES = ["libkyotocabinet16v5", "libkyotocabinet-dev"]
OPERATIONS = 1_000_000
LIMIT = 30  # seconds, for a run; one that takes longer has no figure


def words(threads, options):
    return ["kyoto_wicked", "--threads", str(threads), "--seconds", f"{options.seconds:g}", "--records", str(options.records),
            "--transactions", "0"]


def environment(place, candidate):
    if candidate == RW_LOCK:
        return place.environment()
    shim = str(place.build.program("rwlock_as_mutex.so"))
    return place.environment(None if candidate == C_LIBRARY else candidate, {"LD_PRELOAD": shim, "RWLOCK_AS_MUTEX_REPORT": "1"})


def operations(place, candidate, threads, options, folder):
    """Returns the operations a second of one run, or None if the run failed."""
    outcome = place.run(words(threads, options), environment(place, candidate), folder, LIMIT)
    served = "" if candidate == RW_LOCK else "libc.so" if candidate == C_LIBRARY else "libusher(-all)?.so"
    if not outcome.ok:
        print(f"{candidate}, {threads} threads: {outcome.trouble()}", flush=True)
        return None
    if not re.search(rf"acquisitions of mutexes of \S*{served}" if served else "", outcome.stderr):
        raise Failed(f"{candidate}: another library has the mutex: {outcome.stderr}")
    return round(runner.figure(r"^throughput: (\d+)", outcome.stdout))


def cpu_time(place, count, options, folder):
    """Runs one thread that makes `count` operations. Returns the CPU seconds and the number of the mutex's acquisitions, both of the
    whole run."""
    command = ["kyoto_wicked", "--threads", "1", "--operations", str(count), "--records", str(options.records), "--transactions", "0"]
    outcome = place.run(command, environment(place, C_LIBRARY), folder, LIMIT)
    if not outcome.ok:
        raise Failed(f"one thread: {outcome.trouble()}")
    return outcome.cpu_seconds, runner.figure(r"rwlock_as_mutex: (\d+) ", outcome.stderr)


def section(place, options, folder):
    """Measures the program with one thread: the mean hold as `usher stat` samples it, and the CPU time from one acquisition to the next
    without a recording. Both results are the minimum over the rounds, since other programs only add time."""
    holds, periods = [], []
    for _ in range(2 * options.rounds):
        (few_seconds, few), (seconds, many) = (cpu_time(place, n, options, folder) for n in (1, OPERATIONS))
        periods.append(1e9 * (seconds - few_seconds) / (many - few))
        raw = Path(folder) / "stat.json"
        outcome = place.run(["usher", "stat", "--json", str(raw), "--", *words(1, options)], environment(place, C_LIBRARY), folder, LIMIT)
        if not outcome.ok:
            raise Failed(f"usher stat: {outcome.trouble()}")
        mutex = next(r for r in json.loads(raw.read_text())["rows"] if r["kind"] == "mutex" and r["name"].startswith("pthread_rwlock_init"))
        holds.append(1e9 * mutex["holding"]["total"] / mutex["holding"]["count"])
    mhz = clock_of(place, folder)
    hold, period = min(holds), min(periods)
    return {"hold_ns": [round(h, 1) for h in holds], "period_ns": [round(p, 1) for p in periods], "mhz": mhz,
            "inside_cycles": round(hold * mhz / 1000), "outside_cycles": round((period - hold) * mhz / 1000)}


def measure(build, options):
    build.need(build.usher, build.library, build.programs / "kyoto_wicked", build.programs / "rwlock_as_mutex.so")
    place, others = runner.Place(build), harness.OthersShare()
    points, candidates = [], [RW_LOCK, C_LIBRARY, *options.locks]
    with tempfile.TemporaryDirectory() as folder:
        sections = section(place, options, folder)
        sections |= harness.provenance(build, others)
        print(sections, flush=True)
        if options.section:
            rounds.put(RESULT, packed.document(RESULT) | {"section": sections})
            return 0
        for threads in options.threads:
            found = rounds.sampled(candidates, options.rounds, lambda c, n=threads: operations(place, c, n, options, folder))
            points += [{"candidate": c, "threads": threads, "rounds": values} for c, values in found.items()]
            print(threads, {c: round(statistics.median(v or 0 for v in values) / 1000) for c, values in found.items()}, flush=True)
    rounds.put(RESULT, {"measurement": "Kyoto Cabinet with a mutex", **harness.provenance(build, others),
                        "virtual": rounds.machine().get("virtual"), "packages": place.versions(PACKAGES),
                        "run": " ".join(words("N", options)), "section": sections, "points": points})
    return 0


def show():
    result = packed.document(RESULT)
    at = {(p["candidate"], p["threads"]): p["rounds"] for p in result["points"]}
    names, counts = (list(dict.fromkeys(p[key] for p in result["points"])) for key in ("candidate", "threads"))
    base = {n: at[(C_LIBRARY, n)] for n in counts}

    def cell(name, n):
        ratios = [a / b for a, b in zip(at[(name, n)], base[n]) if a and b]
        if not ratios:
            return "no run ended"
        return f"{statistics.median(v or 0 for v in at[(name, n)]) / 1e3:.0f} {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"

    print("thousand operations a second, the median; relative to the C library's mutex in the same round, the median and the range")
    print(harness.table([[name] + [cell(name, n) for n in counts] for name in names], ["lock"] + [f"{n} threads" for n in counts]))
    print({name: value for name, value in result["section"].items() if name != "machine"})
    print(harness.provenance_line(result))
    return 0


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print the stored results")
    parser.add_argument("--section", action="store_true", help="measure only the sections, for the stored results")
    parser.add_argument("--locks", type=lambda t: t.split(","), default=LOCKS)
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=THREADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--records", type=int, default=1000000)
    options = parser.parse_args()
    if options.show:
        return show()
    return measure(Build(options.build), options)


if __name__ == "__main__":
    script.entry(main)
