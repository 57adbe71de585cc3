#!/usr/bin/env python3
"""The arena on machines that are not there: how far the default lock is behind the best lock of each point.

A point is a machine, a program with its parameters, a number of threads and a budget for spinning. All locks run there whose waiters
sleep, in these steps:

  screen   every lock, one seed
  confirm  two more seeds: the default, and the best of the first step
  wait     where the default is behind: one long run of the default and of each better lock, best first, until one keeps the bound on
           the longest wait. The bound is what the default promises, a millisecond for each thread, or its own longest wait there, if
           that is longer. That lock is the best one of the point.

Each run is a line of JSON in the file of --out; what is there is not run again, so a call that was ended goes on where it was. It needs
an `usher` and nothing else of the build; --usher names it in a folder that was moved.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
OUT = TREE / "results" / "arena" / "simulated.jsonl"
DOC = TREE / "docs" / "measurements" / "arena-simulated.md"

# Machines of today decide: on those of the papers a spin on a shared word costs too little (docs/held-out.md).
DECIDING = ["xeon-8260-8", "epyc-9654-2", "graviton4-2"]
SHOWN = ["epyc-7003", "graviton3", "epyc-zen4-vm-2", "x5-2", "t7-2", "t5", "e7-4890", "niagara-2", "numa-q", "opteron-6172",
         "xeon-e7-8867l", "xeon-e5-2680v2", "xeon-e7-4830v3"]
WITH_CACHE = ["t5", "epyc-zen4-vm-2"]  # what RandArray needs
CPUS = {"xeon-8260-8": 384, "epyc-9654-2": 384, "graviton4-2": 192, "epyc-7003": 256, "graviton3": 64, "epyc-zen4-vm-2": 2, "x5-2": 72,
        "t7-2": 512, "t5": 128, "e7-4890": 240, "niagara-2": 64, "numa-q": 8, "opteron-6172": 48, "xeon-e7-8867l": 160,
        "xeon-e5-2680v2": 40, "xeon-e7-4830v3": 96}

# A step is 9 cycles: 3 ns. Programs, and why.
PROGRAMS = [
    ("mutexbench", {"cs": 1, "ncs": 0}, "nothing but the lock"),
    ("mutexbench", {"cs": 4, "ncs": 200}, "the TWA papers': 12 ns inside, 300 outside on average"),
    ("mutexbench", {"cs": 4, "ncs": 4000}, "the lock is seldom wanted by many: 6 µs outside"),
    ("mutexbench", {"cs": 40, "ncs": 0}, "120 ns, nothing outside"),
    ("mutexbench", {"cs": 40, "ncs": 400}, "120 ns, five times as much outside"),
    ("mutexbench", {"cs": 40, "ncs": 400, "shared": 1}, "the same, and data that move with the lock"),
    ("mutexbench", {"cs": 200, "ncs": 2000}, "0.6 µs, five times as much outside"),
    ("mutexbench", {"cs": 1000, "ncs": 1000}, "3 µs: below the budget for spinning"),
    ("mutexbench", {"cs": 4000, "ncs": 4000}, "12 µs: between the two budgets"),
    ("mutexbench", {"cs": 20000, "ncs": 0}, "60 µs: beyond both"),
    ("stress-latency", {}, "200 iterations inside, 5000 outside"),
    ("interlock", {"locks": 10}, "ten locks of one pool"),
    ("random-cache", {}, "data under the lock: a cache"),
    ("randarray", {}, "data that need the last-level cache"),
]
SPINS = [5000, 20000]  # ns
SEEDS = [1, 2, 3]
SETTLE = 4             # a run that has not settled is made again, so much longer
CONTENDERS = 4         # how many are confirmed, besides the default
MS_A_THREAD = 1        # what the default promises (include/usher/locks/loiter.hpp, impatience)
LIMIT_S = 300          # of one run

KEPT = ["throughput", "settled", "smallest_share", "voluntary_switches", "cpus_used", "lwss", "between_sockets", "admissions",
        "cpu_s"]


def die(message, status=2):
    print(f"arena_sim: {message}", file=sys.stderr)
    sys.exit(status)


def threads_of(machine):
    cpus = CPUS[machine]
    counts = [1, 2, 4, 8, 16, 32, 64, 128] if machine in DECIDING else [2, 4, 8, 32]
    return sorted({n for n in counts if n <= cpus} | {max(1, cpus // 2), cpus, 2 * cpus})


def cases(machines, programs, threads=None, spins=SPINS):
    """All points but for the lock: deciding machines first."""
    for machine in machines:
        for name, settings, _ in programs:
            if name == "randarray" and machine not in WITH_CACHE:
                continue
            for count in threads_of(machine):
                if threads and count not in threads:
                    continue
                for spin in spins:
                    yield {"machine": machine, "workload": name, "parameters": settings, "threads": count, "spin_ns": spin}


def has_budget(lock):
    return not lock.endswith(("-park", "-spin"))


def name_of(case):
    settings = " ".join(f"{k}={v}" for k, v in case["parameters"].items())
    return f"{case['machine']} {case['workload']} {settings}".strip() + f" × {case['threads']}, {case['spin_ns'] // 1000} µs"


def key_of(case):
    return json.dumps(case, sort_keys=True)


class Results:
    """Runs that were made, as they are in the file."""

    def __init__(self, file):
        self.file, self.runs, self.lock = file, {}, threading.Lock()
        self.builds = []
        if file.is_file():
            for number, line in enumerate(file.read_text().splitlines(), 1):
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # the last line of a call that was ended
                if "build" in entry:
                    self.builds.append(entry["build"])
                elif "point" in entry:
                    self.runs[key_of(entry["point"])] = entry
                else:
                    die(f"{file}:{number} is no run: move the file away, or name another by --out")

    def write(self, entry):
        with self.lock:
            if "point" in entry:
                self.runs[key_of(entry["point"])] = entry
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a") as out:
                out.write(json.dumps(entry, separators=(",", ":")) + "\n")

    def drop(self, locks):
        """All runs of these locks, so that they are made again."""
        kept = [e for e in self.runs.values() if e["point"]["lock"] not in locks]
        self.runs = {key_of(e["point"]): e for e in kept}
        lines = [json.dumps({"build": b}, separators=(",", ":")) for b in self.builds]
        lines += [json.dumps(e, separators=(",", ":")) for e in kept]
        if self.file.is_file():
            self.file.write_text("\n".join(lines) + "\n" if lines else "")


class Arena:
    def __init__(self, options, results):
        self.usher, self.results, self.default = options.usher, results, options.default
        self.end = time.monotonic() + options.minutes * 60 if options.minutes else math.inf
        self.jobs, self.quick = options.jobs, options.quick
        self.failures, self.out_of_time, self.made = {}, False, 0

    # ---- one run -----------------------------------------------------------------------------------------------------------

    def point(self, case, lock, seed, ms=None):
        """As usher sim --point takes it. Without ms: as long as usual."""
        asked = {k: v for k, v in case.items() if v != {}} | {"lock": lock, "seed": seed}
        if not has_budget(lock):
            del asked["spin_ns"]
        asked["run_ns"] = int((ms or self.usual_ms(case)) * 1e6)
        return asked

    @staticmethod
    def usual_ms(case):
        # Where threads share CPUs, 25 slices of 3 ms for each that a CPU has, as usher sim has it.
        return 4 if case["threads"] <= CPUS[case["machine"]] else 150

    def run(self, point):
        key = key_of(point)
        if key in self.results.runs:
            return self.results.runs[key]
        if key in self.failures or time.monotonic() > self.end:
            self.out_of_time |= key not in self.failures
            return None
        try:
            done = subprocess.run([str(self.usher), "sim", "--point", json.dumps(point)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.failures[key] = f"was ended after {LIMIT_S} s"
            return None
        if done.returncode != 0:
            self.failures[key] = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
            return None
        found = json.loads(done.stdout)
        entry = {"point": point} | {k: found[k] for k in KEPT if k in found}
        if "wait_ns" in found:
            entry |= {"wait_p99_ns": found["wait_ns"]["p99"], "wait_longest_ns": found["wait_ns"]["longest"]}
        self.made += 1
        self.results.write(entry)
        return entry

    def settled(self, case, lock, seed):
        """The run, and a longer one if it has not settled."""
        entry = self.run(self.point(case, lock, seed))
        if entry and not entry["settled"]:
            entry = self.run(self.point(case, lock, seed, SETTLE * self.usual_ms(case))) or entry
        return entry

    # ---- the steps of a point ----------------------------------------------------------------------------------------------

    def screen(self, case, lock):
        return self.settled(case, lock, SEEDS[0])

    def throughput(self, case, lock, seeds):
        entries = [self.settled(case, lock, seed) for seed in seeds]
        found = [e["throughput"] for e in entries if e]
        return statistics.median(found) if found else None

    def bound_ns(self, case):
        """A run is so long that a wait beyond the bound shows."""
        ms = max(10, case["threads"] * MS_A_THREAD)
        own = self.run(self.point(case, self.default, SEEDS[0], 1.25 * ms))
        longest = own["wait_longest_ns"] if own and "wait_longest_ns" in own else 0
        return max(longest, ms * 1e6), 1.25 * ms

    def keeps_bound(self, case, lock, bound, ms):
        entry = self.run(self.point(case, lock, SEEDS[0], ms))
        return entry is not None and entry.get("wait_longest_ns", 0) <= bound

    def judge(self, case, locks):
        first = {}
        for lock in locks:
            entry = self.screen(case, lock)
            if entry:
                first[lock] = entry["throughput"]
        if self.default not in first:
            return None
        order = sorted((l for l in first if l != self.default), key=lambda l: -first[l])
        seeds = SEEDS[:1] if self.quick else SEEDS
        own = self.throughput(case, self.default, seeds)
        if not own:
            return None
        verdict = {"case": case, "default": own, "best": self.default, "ratio": 1.0, "too_long": [], "all": first}
        better = [(self.throughput(case, lock, seeds), lock) for lock in order[:CONTENDERS] if first[lock] > own]
        better = sorted(((t, l) for t, l in better if t and t > own), reverse=True)
        if better and better[0][0] / own <= 1.03:
            verdict |= {"best": better[0][1], "ratio": better[0][0] / own}  # so near that nobody asks for the waits
        elif better:
            bound, ms = (0, 0) if self.quick or "wait_longest_ns" not in self.screen(case, self.default) else self.bound_ns(case)
            candidates = better + [(first[l], l) for l in order[CONTENDERS:] if first[l] > own]
            for throughput, lock in candidates:
                if bound and not self.keeps_bound(case, lock, bound, ms):
                    verdict["too_long"].append(lock)
                    continue
                if lock in order[CONTENDERS:]:
                    throughput = self.throughput(case, lock, seeds) or throughput
                verdict |= {"best": lock, "ratio": max(1.0, throughput / own)}
                break
        for seed in seeds:
            entry = self.settled(case, self.default, seed)
            verdict["settled"] = verdict.get("settled", True) and bool(entry and entry["settled"])
        best = self.screen(case, verdict["best"])
        verdict["settled"] &= bool(best and best["settled"])
        return verdict

    def all(self, wanted, locks):
        """Screens all first, so that a call that is ended has seen all machines; then the rest of each point."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            began = shown = time.monotonic()
            work = [pool.submit(self.screen, case, lock) for case in wanted for lock in locks]
            for number, job in enumerate(work, 1):
                job.result()
                if time.monotonic() > shown + 20:
                    shown = time.monotonic()
                    print(f"screened {number} of {len(work)}, {shown - began:.0f} s", file=sys.stderr)
            return [v for v in pool.map(lambda case: self.judge(case, locks), wanted) if v]


# ---- what came of it -----------------------------------------------------------------------------------------------------------


def geometric(values):
    values = list(values)
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else float("nan")


def table(rows, head):
    widths = [max(len(str(r[i])) for r in [head] + rows) for i in range(len(head))]
    lines = ["| " + " | ".join(str(c).ljust(w) for c, w in zip(r, widths)) + " |" for r in [head] + rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|"] + lines[1:])


def summary(verdicts, default, machines):
    """best/default: by machine, then the points where most is lost."""
    parts, groups = [], collections.defaultdict(list)
    for v in verdicts:
        groups[v["case"]["machine"]].append(v)
    rows = []
    for machine in machines:
        of = groups.get(machine, [])
        if not of:
            continue
        crowd = [v for v in of if v["case"]["threads"] > CPUS[machine]]
        many = [v for v in of if 8 < v["case"]["threads"] <= CPUS[machine]]
        few = [v for v in of if v["case"]["threads"] <= 8 and v["case"]["threads"] <= CPUS[machine]]
        worst = max(of, key=lambda v: v["ratio"])
        rows.append([machine, len(of)] + [f"{geometric(v['ratio'] for v in g):.2f}" if g else "–" for g in (few, many, crowd, of)]
                    + [f"{worst['ratio']:.2f}", name_of(worst["case"]).removeprefix(machine + " "), worst["best"]])
    deciding = [v for v in verdicts if v["case"]["machine"] in DECIDING]
    for title, of in (("those that decide", deciding), ("all", verdicts)):
        if of:
            worst = max(of, key=lambda v: v["ratio"])
            rows.append([title, len(of), "", "", "", f"{geometric(v['ratio'] for v in of):.2f}", f"{worst['ratio']:.2f}",
                         name_of(worst["case"]), worst["best"]])
    parts.append(f"Best / {default}: geometric means, and the worst point.\n")
    parts.append(table(rows, ["machine", "points", "≤ 8 threads", "more", "2 × the CPUs", "all", "worst", "where", "which lock"]))
    return "\n".join(parts)


def losses(verdicts, most):
    rows = [[f"{v['ratio']:.2f}", name_of(v["case"]), v["best"], f"{v['default']:.3g}", f"{v['default'] * v['ratio']:.3g}",
             ", ".join(v["too_long"][:3]) or "–", "" if v["settled"] else "no"]
            for v in sorted(verdicts, key=lambda v: -v["ratio"])[:most]]
    return table(rows, ["best / default", "point", "best", "default, M/s", "best, M/s", "faster, waits too long", "settled"])


def ranking(verdicts, most=12):
    """Each lock as if it were the default, against the best of each point; screening only, bounds as found for the default."""
    ratios = collections.defaultdict(list)
    for v in verdicts:
        # A lock that waits too long at a point stays in its own row: here only speed is asked.
        best = max(v["default"] * v["ratio"], 1e-9)
        for lock, throughput in v["all"].items():
            ratios[lock].append(best / max(throughput, 1e-6))
    full = {l: r for l, r in ratios.items() if len(r) >= 0.95 * len(verdicts)}
    rows = sorted(([geometric(r), max(r), l] for l, r in full.items()))[:most]
    return table([[l, f"{g:.2f}", f"{w:.2f}"] for g, w, l in rows], ["lock", "best / it", "worst"])


def build_of(usher):
    return hashlib.sha256(usher.read_bytes()).hexdigest()[:16]


def locks_of(usher):
    done = subprocess.run([str(usher), "list", "--json"], stdout=subprocess.PIPE, text=True, timeout=60)
    if done.returncode != 0:
        die(f"'{usher} list --json' fails: build it first (make build)")
    return json.loads(done.stdout)["locks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(TREE / "build" / "release"), help="build folder (default: build/release)")
    parser.add_argument("--usher", type=Path, help="the program itself, wherever it lies")
    parser.add_argument("--default", help="the lock that is judged (default: usher's)")
    parser.add_argument("--locks", help="which others, as a,b,…; default: all whose waiters sleep")
    parser.add_argument("--machines", help="deciding, shown, all, or names (default: all)", default="all")
    parser.add_argument("--programs", help="names, or name:number of the list (--list)", default=None)
    parser.add_argument("--threads", help="only these counts")
    parser.add_argument("--spin", help="budgets in ns (default: 5000,20000)", default=",".join(map(str, SPINS)))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side (default: one for each CPU)")
    parser.add_argument("--minutes", type=float, help="no run begins later than that")
    parser.add_argument("--quick", action="store_true", help="one seed, and no bound on waiting")
    parser.add_argument("--redo", help="locks whose runs are made again")
    parser.add_argument("--same", action="store_true", help="another build than the file's, but locks that are not named by --redo are the same")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON")
    parser.add_argument("--most", type=int, default=25, help="so many points in the table of losses")
    parser.add_argument("--only-show", action="store_true", help="run nothing; tables of what is there")
    parser.add_argument("--list", action="store_true", help="programs and points, and about how long they take")
    options = parser.parse_args()

    options.usher = (options.usher or Path(options.build) / "bin" / "usher").resolve()
    if not options.usher.is_file():
        die(f"{options.usher} is missing: build first (make build), or name it by --usher")
    machines = {"all": DECIDING + SHOWN, "deciding": DECIDING, "shown": SHOWN}.get(options.machines, options.machines.split(","))
    for machine in machines:
        if machine not in CPUS:
            die(f"machine '{machine}': the arena has {', '.join(CPUS)}")
    programs = PROGRAMS
    if options.programs:
        chosen = options.programs.split(",")
        programs = [p for i, p in enumerate(PROGRAMS) if p[0] in chosen or f"{p[0]}:{i}" in chosen]
        if not programs:
            die(f"--programs {options.programs}: names none of the list that --list shows")
    wanted = list(cases(machines, programs, options.threads and [int(t) for t in options.threads.split(",")],
                        [int(s) for s in options.spin.split(",")]))
    catalogue = locks_of(options.usher)
    options.default = options.default or next(l["name"] for l in catalogue if l["default"])
    admitted = [l["name"] for l in catalogue if l["excludes"] and not l["native_only"] and l["waiting"] in ("spin-then-park", "park")]
    locks = options.locks.split(",") if options.locks else admitted
    for lock in locks + [options.default]:
        if lock not in {l["name"] for l in catalogue}:
            die(f"lock '{lock}': 'usher list --all' shows those that there are")
    locks = list(dict.fromkeys([options.default] + locks))
    if options.list:
        for i, (name, settings, why) in enumerate(PROGRAMS):
            print(f"{name}:{i:<3} {' '.join(f'{k}={v}' for k, v in settings.items()):28} {why}")
        crowded = sum(c["threads"] > CPUS[c["machine"]] for c in wanted)
        print(f"{len(wanted)} points of {len(locks)} locks. About {len(locks) * ((len(wanted) - crowded) * 0.04 + crowded * 0.4) / 60:.0f} "
              "minutes of one CPU for the first step, as much again for the others.")
        return

    results = Results(options.out)
    if options.redo and not options.only_show:
        results.drop(set(options.redo.split(",")))
    build = build_of(options.usher)
    if not options.only_show and build not in results.builds:
        if results.builds and not options.same:
            die(f"{options.out.name} is of another build: --redo LOCK --same, if only that lock has changed, or another --out")
        results.write({"build": build, "date": time.strftime("%Y-%m-%d")})
        results.builds.append(build)
    if options.only_show:
        options.minutes = 1e-9
    arena = Arena(options, results)
    verdicts = arena.all(wanted, locks)
    print(summary(verdicts, options.default, machines), "\n")
    print(losses(verdicts, options.most), "\n")
    print("Each lock as if it were the default (one seed, speed alone):\n")
    print(ranking([v for v in verdicts if v["case"]["machine"] in DECIDING] or verdicts))
    unsettled = sum(not v["settled"] for v in verdicts)
    print(f"\n{len(verdicts)} of {len(wanted)} points, {arena.made} runs now; {unsettled} points have not settled.")
    if arena.failures:
        print(f"{len(arena.failures)} runs failed, the first: {next(iter(arena.failures.items()))}", file=sys.stderr)
    if arena.out_of_time and not options.only_show:
        print("The time is up: the same command goes on from here.")


if __name__ == "__main__":
    main()
