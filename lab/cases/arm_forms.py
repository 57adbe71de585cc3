"""Locks on the simulated Graviton 4 (2 × 96 cores) in several forms, one for each assumption about its atomic operations and waiters.
Writes lab/results/arm-forms.json; `python3 -m lab.pages arm-forms` makes the page.

  python3 -m lab.cases.arm_forms                  all points; some minutes on two CPUs

A figure is the median of three seeds. A run is deterministic."""

import concurrent.futures
import os
import statistics
import sys

import harness
from harness import TREE, Build, between_markers
from lab.run import packed, rounds, script, simulated

RESULT = TREE / "lab" / "results" / "arm-forms.json"
MACHINE, SEEDS = "graviton4-2", 3

# The forms: the settings in which each differs from the machine's file.
NEAR, FAR, ISB, FAR_ISB = "near", "far", "near, isb", "far, isb"
FORMS = {NEAR: {}, FAR: {"coherence.atomics": "far"}, ISB: {"coherence.poll_period": "54"},
         FAR_ISB: {"coherence.atomics": "far", "coherence.poll_period": "54"}}
PROGRAMS = {"14 ns": {"cs": 4, "ncs": 200}, "0.6 µs": {"cs": 200, "ncs": 2000}, "6 µs": {"cs": 2000, "ncs": 2000}}
LOCKS = ["futex", "steady", "loiter-park", "ttas-spin", "ticket-spin", "twa-spin", "mcs-spin"]
THREADS = [4, 16, 192]
# Waiters that monitor a cache line: the ns that a core takes to wake up after a write to the line; 0: the waiter polls instead.
WAKES, WAITING_LOCKS, WAITING_THREADS = [0, 20, 50, 150], ["mcs-mwait", "ticket-mwait", "steady"], [2, 4, 8]
MHZ = 2800


def simulate(build, locks, threads, settings, changes):
    points = simulated.points(build, "mutexbench", MACHINE, locks, threads, SEEDS, settings, changes, ["--ms", "5"])
    found = []
    for lock in locks:
        for n in threads:
            these = [p for p in points if p["lock"] == lock and p["threads"] == n]
            found.append({"lock": lock, "threads": n, "throughput": statistics.median(p["throughput"] for p in these),
                          "cpus": statistics.median(p["cpus_used"] for p in these), "settled": all(p["settled"] for p in these)})
    return found


def number(value):
    return f"{value:.3g}"


def tables(result):
    """Returns the page's two tables."""
    lines = ["| section | threads | form | " + " | ".join(LOCKS) + " |", "|---|---|---|" + "---|" * len(LOCKS)]
    for program in PROGRAMS:
        for n in THREADS:
            for form in FORMS:
                of = {p["lock"]: p for p in result["forms"][form][program] if p["threads"] == n}
                lines.append(f"| {program} | {n} | {form} | "
                             + " | ".join(number(of[lock]["throughput"]) + ("" if of[lock]["settled"] else "\\*") for lock in LOCKS) + " |")
    lines += ["", "| threads | a core wakes up in | " + " | ".join(WAITING_LOCKS) + " |", "|---|---|" + "---|" * len(WAITING_LOCKS)]
    for n in WAITING_THREADS:
        for wake in WAKES:
            of = {p["lock"]: p for p in result["waiting"][str(wake)] if p["threads"] == n}
            lines.append(f"| {n} | {f'{wake} ns' if wake else '(polls)'} | "
                         + " | ".join(number(of[lock]["throughput"]) + ("" if of[lock]["settled"] else "\\*") for lock in WAITING_LOCKS) + " |")
    return "\n".join(lines)


def page(text):
    return between_markers(text, "arm forms", tables(packed.document(RESULT)))


def main():
    parser = script.parser(__doc__)
    options = parser.parse_args()
    build = Build(options.build)
    build.need(build.usher)
    others = harness.OthersShare()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        forms = {form: {program: pool.submit(simulate, build, LOCKS, THREADS, settings, machine) for program, settings in PROGRAMS.items()}
                 for form, machine in FORMS.items()}
        waiting = {str(wake): pool.submit(simulate, build, WAITING_LOCKS, WAITING_THREADS, PROGRAMS["0.6 µs"],
                                          {"coherence.monitor_wake": wake * MHZ // 1000} if wake else {}) for wake in WAKES}
        result = {"forms": {form: {program: run.result() for program, run in of.items()} for form, of in forms.items()},
                  "waiting": {wake: run.result() for wake, run in waiting.items()}}
    rounds.put(RESULT, {"measurement": "locks on forms of a simulated Graviton 4", **harness.provenance(build, others), "seeds": SEEDS, **result})
    print(tables(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
