#!/usr/bin/env python3
"""`usher check` in a few seconds: a few executions of every lock in its plain and spinning forms, and of mutants. Every
category has at least one mutant here, with a number of executions that is known to suffice. USHER_BIN is the command.
Exit status 77: the checker was not built.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TREE / "tools"))
sys.dont_write_bytecode = True
import catalog  # noqa: E402
import mutants  # noqa: E402

USHER = os.environ["USHER_BIN"]
CHECKER = os.path.join(os.path.dirname(os.path.realpath(USHER)), "usher_check")
LIMIT = 1200
SKIPPED = 77

# For each mutant: its description, and options with which it fails.
MUTANTS = {
    # The project's specification names these mutants.
    "twa-no-second-look": ("TWA without the second look at grant", "--forms spin --threads 2"),
    "mcs-relaxed-hand-over": ("MCS with a relaxed hand-over", "--forms spin --threads 2"),
    "mcscr-drops-passive": ("MCSCR that drops a passive thread when the queue empties", "--threads 3"),
    "lifo-popped-by-waiter": ("LIFO-CR popped by another than the owner", "--forms park --scenario timed --threads 4"),
    "mcsg++-no-acknowledgement": ("MCSg++ whose regular leaves without the acknowledgement", "--threads 2"),
    "loiter-no-wake": ("LOITER without the standby's wake", "--threads 2"),
    "ttas-looks-back": ("an unlock that reads the lock after it has freed it", "--forms spin --threads 2"),
    "futex-key-too-late": ("an unlock that reads the lock to decide on the wake", "--threads 2"),
    "mcs-node-after-hand-over": ("an unlock that reads the next node after it has been granted", "--threads 2"),
    "queue-keeps-signal": ("a condition variable that loses a signal on cancellation", "--threads 3"),
    "fairlock-as-printed": ("Fairlock with Figure 5's line 5 as printed", "--threads 2"),
    # More mutants of each category: memory orders, lost wake-ups, accesses after the end of an object's life,
    # guarantees that a lock does not keep.
    "twa-array-first": ("TWA that notifies before it hands over", "--threads 3"),
    "twa-private-in-unlock": ("an unlock that notifies within the lock after the hand-over", "--threads 2"),
    "ticket32-unmarks": ("a sleepers' mark that is lost", "--threads 3"),
    "twa-id-displaces-sleeper": ("a sleeper displaced and not woken", "--threads 3"),
    "tkt-dual-as-printed": ("a second word that is written after the hand-over", "--forms spin --threads 2"),
    "qspinlock-loses-waiter": ("a tail that is overwritten", "--threads 2"),
    "clh-gives-own-node": ("a node that goes back too early", "--threads 2"),
    "mcsg-no-mark-back": ("a guest's mark that is not put back", "--threads 2"),
    "mcs-pt-keeps-tail": ("an evicted waiter that stays the tail", "--threads 2"),
    "cohort-passes-on": ("a lock that stays within a NUMA node without end", "--threads 3"),
    "mcscr-claims-fifo": ("a promise of order that is not kept", "--threads 3"),
    "fairlock-promises-too-much": ("a bound on bypass that is not kept", "--scenario plain --threads 3"),
    "loiter-never-wants-handoff": ("a waiter that starves", "--scenario progress --threads 2"),
    "inflatable-enters-closed": ("a large state entered after it has been closed", "--threads 2"),
    "condition-stops": ("a broadcast that wakes the first alone", "--threads 3"),
    "semaphore-release-leaves-it": ("a semaphore's credit that is left to nobody", "--threads 2"),
    "semaphore-renewed-keeps-notified": ("a semaphore that counts the parent's threads in the child", "--scenario forked --threads 3"),
    "phase-fair-phase-ignored": ("a reader that waits for a second writer", "--threads 2"),
    "bravo-slot-acq-rel": ("a reader and a writer that miss each other's write", "--threads 2"),
    "timed-waiters-leaver-looks-once": ("a waiter with a deadline that leaves by a stale look", "--threads 3"),
    "ticket-served-or-past": ("a ticket that counts as served at the wrap", "--threads 3"),
}

failures = []


def every_category():
    """usher_check contains the mutants above, and they include at least one of each category."""
    headings = {p.stem: mutants.Mutant(p).facts for p in (TREE / mutants.PATCHES).glob("*.patch")}
    quick = {name: facts.get("Category") for name, facts in headings.items() if "Quick" in facts}
    say(set(quick) == set(MUTANTS), f"{len(quick)} mutants are in usher_check", set(quick) ^ set(MUTANTS))
    missing = set(mutants.CATEGORIES) - set(quick.values())
    say(not missing, f"one of each of {len(mutants.CATEGORIES)} categories", missing)


def check(*arguments):
    """Returns whether the run succeeded, and its verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "verdicts.json")
        done = subprocess.run([USHER, "check", *arguments, "--json", file], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT)
        if done.returncode not in (0, 1):
            sys.exit(f"usher check {' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
        with open(file) as f:
            return done, json.load(f)


def say(ok, text, seen=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {text}", flush=True)
    if not ok:
        if seen:
            print(f"      {seen}")
        failures.append(text)


def usual_threads():
    """A lock needs four threads because of what it is, not of its name: a mutant, whose name says nothing, needs as many as its lock."""
    listed = subprocess.run([CHECKER, "--list"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
    usual = {row[0]: int(row[4]) for row in (line.split("\t") for line in listed.splitlines())}
    names = {lock.type: lock.name for lock in catalog.locks()}
    names |= {f"check::{kind}_{lock}": f"{kind}-{lock}" for kind in ("inflatable", "timed") for lock in ("tas", "ticket", "mcs", "steady")}
    names |= {"check::counted_cohort": "c-bo-mcs"}
    seen = {}
    for name in MUTANTS:
        facts = mutants.Mutant(TREE / mutants.PATCHES / f"{name}.patch").facts
        if facts["Kind"] == "lock":
            seen[name] = (usual[name], usual[names[facts["Type"]]])
    say(all(own == locks for own, locks in seen.values()), f"{len(seen)} mutants need as many threads as their locks", seen)
    say(set(usual.values()) == {3, 4}, "three or four")


def every_lock():
    began = time.monotonic()
    done, said = check("--all", "--forms", "plain,spin", "--executions", "200")
    locks = {p["family"] for p in said["parts"]}
    say(done.returncode == 0, f"{len(locks)} locks and others, {len(said['parts'])} scenario runs, "
                              f"{sum(p['executions'] for p in said['parts'])} executions: "
                              f"{'all pass' if said['good'] else 'not all pass'} ({time.monotonic() - began:.1f} s)")
    if done.returncode != 0:
        print(done.stdout)


def every_mutant():
    for name, (what, where) in MUTANTS.items():
        _, said = check("--mutants", name, *where.split(), "--executions", "2000")
        one = said["mutants"][0]
        how = f"{one['by']['scenario']}, seed {one['replay']}: {one['why']}" if one["caught"] else "NOT CAUGHT"
        say(bool(one["caught"]), f"{what} ({name}): {how}")


if __name__ == "__main__":
    if not os.path.isfile(CHECKER):
        print(f"{CHECKER} was not built: is relacy-dev installed?")
        sys.exit(SKIPPED)
    every_category()
    usual_threads()
    every_mutant()
    every_lock()
    print(f"{len(failures)} failed" if failures else "all as it should be")
    sys.exit(1 if failures else 0)
