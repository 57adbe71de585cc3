#!/usr/bin/env python3
"""The arena on simulated machines: the distance of the default lock from the best lock of each point.

A point is a machine, a program with its parameters, a number of threads and a budget for spinning. All locks whose waiters sleep run
there, in these steps:

  sift     every lock at some of the points, one seed: a lock that is never among the fastest is left out
  screen   the others at all points, one seed
  confirm  two more seeds: the default, and the best of that step
  waits    where the default is behind: one long run of the default and of the faster locks, fastest first, until one keeps the bound on
           the longest wait: a millisecond for each thread, as loiter promises, or the default's own longest wait, if that is
           longer. That lock is the best one of the point.

Each run is a line of JSON (--runs); existing runs are not repeated, so an interrupted call can be resumed. A run is the same on every
computer, so the runs are not kept in the tree: lab/results/arena/simulated.json has the points. In another folder, or on another computer,
it takes this file and lab/__init__.py, `usher` and `usher_bench` side by side (--usher names the first) and lab/sim/machines/.
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

TREE = Path(__file__).resolve().parents[2]
POINTS = TREE / "lab" / "results" / "arena" / "simulated.json"

# The machines, with their numbers of CPUs. Only the results on the machines of DECIDING count for the choice of the default lock. Those on
# the others, the papers' machines among them, are only shown: there a spin on a shared word costs too little (page held-out).
DECIDING = {"xeon-8260-8": 384, "epyc-9654-2": 384, "graviton4-2": 192}
SHOWN = {"epyc-7003": 256, "graviton3": 64, "epyc-zen4-vm-2": 2, "x5-2": 72, "t7-2": 512, "t5": 128, "e7-4890": 240, "niagara-2": 64,
         "numa-q": 8, "opteron-6172": 48, "xeon-e7-8867l": 160, "xeon-e5-2680v2": 40, "xeon-e7-4830v3": 96}
CPUS = DECIDING | SHOWN
WITH_CACHE = ["t5", "epyc-zen4-vm-2"]  # machine files with cache sizes, which RandArray needs

# Each entry: program, parameters, reason, and whether the machines of SHOWN run the program, too. A step of `cs` and `ncs` takes 9 cycles,
# about 3 ns.
PROGRAMS = [
    ("mutexbench", {"cs": 1, "ncs": 0}, "nothing but the lock", True),
    ("mutexbench", {"cs": 4, "ncs": 200}, "as the TWA papers have it: 12 ns inside, 300 outside", True),
    ("mutexbench", {"cs": 4, "ncs": 4000}, "6 µs outside: few threads want the lock at once", False),
    ("mutexbench", {"cs": 40, "ncs": 0}, "120 ns inside, nothing outside", False),
    ("mutexbench", {"cs": 40, "ncs": 400}, "120 ns inside, five times as much outside", True),
    ("mutexbench", {"cs": 40, "ncs": 400, "shared": 1}, "the same, with data that move with the lock", False),
    ("mutexbench", {"cs": 200, "ncs": 2000}, "0.6 µs inside, five times as much outside", False),
    ("mutexbench", {"cs": 1000, "ncs": 1000}, "3 µs inside: below the budgets for spinning", True),
    ("mutexbench", {"cs": 4000, "ncs": 4000}, "12 µs inside: between the two budgets", False),
    ("mutexbench", {"cs": 20000, "ncs": 0}, "60 µs inside: beyond both", False),
    ("stress-latency", {}, "200 iterations of a loop inside, 5000 outside", True),
    ("interlock", {"locks": 10}, "ten locks of one pool", True),
    ("random-cache", {}, "a cache under one lock", True),
    ("randarray", {}, "arrays that need the last-level cache", True),
]
THREADS = [1, 2, 4, 8, 16, 32, 64, 128]  # and half of the CPUs, all, and twice as many
THREADS_SHOWN = [2, 8]                   # and all, and twice as many
SPINS = [5000, 20000]                    # ns; the longer budget only on the deciding machines, with 4, 32 and as many threads as CPUs
SEEDS = [1, 2, 3]
NEAR = 1.03           # if the default is behind by no more than this factor, waits are not simulated, and any faster lock counts
FASTEST = 6
SIFTED_THREADS = [4, 32]  # numbers of threads in the step "sift", besides the number of CPUs
CONTENDERS = 4        # number of locks in the step "confirm", besides the default
SETTLE = 4            # a run that has not settled is repeated with so many times its length
MS_A_THREAD = 1       # bound on the longest wait for each thread, ms (impatience of include/usher/locks/loiter.hpp)
BOUND_MS = (10, 200)  # least and greatest bound; runs that test the bound are a quarter longer than it
LIMIT_S = 300         # seconds of elapsed time that one run may take
KEPT = ["throughput", "settled", "smallest_share", "voluntary_switches", "admissions", "cpus_used", "lwss", "cpu_s"]


def die(message, status=2):
    print(f"arena_sim: {message}", file=sys.stderr)
    sys.exit(status)


ENVIRONMENT = {"USHER_MACHINES": str(TREE / "lab" / "sim" / "machines")} | dict(os.environ)

# ---- points --------------------------------------------------------------------------------------------------------------------


def threads_of(machine, spin):
    cpus = CPUS[machine]
    if machine not in DECIDING:
        counts = {n for n in THREADS_SHOWN if n <= cpus} | {cpus, 2 * cpus} if spin == SPINS[0] else set()
    elif spin == SPINS[0]:
        counts = {n for n in THREADS if n <= cpus} | {cpus // 2, cpus, 2 * cpus}
    else:
        counts = {4, 32, cpus}
    return sorted(counts)


def cases(machines, programs):
    """Yields all points, without a lock."""
    for machine in machines:
        for name, settings, _, shown in programs:
            if (machine not in DECIDING and not shown) or (name == "randarray" and machine not in WITH_CACHE):
                continue
            for spin in SPINS:
                for count in threads_of(machine, spin):
                    yield {"machine": machine, "workload": name, "parameters": settings, "threads": count, "spin_ns": spin}


def name_of(case):
    settings = " ".join(f"{k}={v}" for k, v in case["parameters"].items())
    return f"{case['machine']} {case['workload']} {settings}".strip() + f" × {case['threads']}, {case['spin_ns'] // 1000} µs"


def key_of(point):
    return json.dumps(point, sort_keys=True)


def crowded(case):
    return case["threads"] > CPUS[case["machine"]]


def usual_ms(case):
    return 150 if crowded(case) else 4  # if threads share CPUs, 25 slices of 3 ms for each thread of a CPU


# ---- runs ----------------------------------------------------------------------------------------------------------------------


class Runs:
    """The runs that the file (--runs) contains."""

    def __init__(self, file):
        self.file, self.found, self.builds, self.lock, self.torn = file, {}, [], threading.Lock(), False
        if not file.is_file():
            return
        text = file.read_text()
        self.torn = not text.endswith("\n") and text != ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of an interrupted call
            if "build" in entry:
                self.builds.append(entry["build"])
            elif "point" in entry:
                self.found[key_of(entry["point"])] = entry
            else:
                die(f"{file}:{number} is not a run: name another file by --runs")

    def write(self, entry):
        with self.lock:
            if "point" in entry:
                self.found[key_of(entry["point"])] = entry
            else:
                self.builds.append(entry["build"])
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a") as out:
                out.write("\n" * self.torn + json.dumps(entry, separators=(",", ":")) + "\n")
            self.torn = False

    def drop(self, locks):
        """Removes the stored runs of these locks, so that they run again."""
        self.found = {k: e for k, e in self.found.items() if e["point"]["lock"] not in locks}
        if self.file.is_file():
            lines = [{"build": b} for b in self.builds] + list(self.found.values())
            self.file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
            self.torn = False


class Arena:
    def __init__(self, usher, runs, jobs, minutes=None, quick=False, frozen=False):
        self.usher, self.runs, self.jobs, self.quick, self.frozen = usher, runs, jobs, quick, frozen
        self.end = time.monotonic() + minutes * 60 if minutes else math.inf
        self.seeds = SEEDS[:1] if quick else SEEDS
        self.failures, self.missing, self.made = {}, 0, 0

    @staticmethod
    def point(case, lock, seed, ms):
        """Returns a point as the JSON that `usher sim --point` takes."""
        asked = {k: v for k, v in case.items() if v != {}} | {"lock": lock, "seed": seed, "run_ns": int(ms * 1e6)}
        if lock.endswith("-park"):
            del asked["spin_ns"]  # the lock sleeps at once: every budget gives the same run
        return asked

    def run(self, case, lock, seed, ms):
        """Returns a stored or new run; None if it failed or no time is left."""
        point = self.point(case, lock, seed, ms)
        key = key_of(point)
        if key in self.runs.found:
            return self.runs.found[key]
        if key in self.failures:
            return None
        if self.frozen or time.monotonic() > self.end:
            self.missing += 1
            return None
        try:
            done = subprocess.run([str(self.usher), "sim", "--point", json.dumps(point)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, env=ENVIRONMENT)
        except subprocess.TimeoutExpired:
            self.failures[key] = f"ended after {LIMIT_S} s"
            return None
        if done.returncode != 0:
            self.failures[key] = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            return None
        found = json.loads(done.stdout)
        entry = {"point": point} | {k: found[k] for k in KEPT if k in found}
        if "wait_ns" in found:
            entry["longest_wait_ns"] = found["wait_ns"]["longest"]
        self.made += 1
        self.runs.write(entry)
        return entry

    def settled(self, case, lock, seed):
        """Returns a run or, if that has not settled, a longer run."""
        entry = self.run(case, lock, seed, usual_ms(case))
        if entry and not entry["settled"]:
            entry = self.run(case, lock, seed, SETTLE * usual_ms(case)) or entry
        return entry

    def screen(self, case, lock):
        return self.settled(case, lock, SEEDS[0])

    def throughput(self, case, lock):
        entries = [self.settled(case, lock, seed) for seed in self.seeds]
        return statistics.median(e["throughput"] for e in entries) if all(entries) else None

    # ---- results of a point ----

    def keeps_bound(self, case, default):
        """Returns a function that tells whether a lock's longest wait is within the bound; its result is None if the wait is unknown."""
        ms = min(max(BOUND_MS[0], case["threads"] * MS_A_THREAD), BOUND_MS[1])
        own = self.run(case, default, SEEDS[0], 1.25 * ms)
        if own is None:
            return lambda lock: None
        if "longest_wait_ns" not in own:  # a program with many locks: waits are not measured
            return lambda lock: True
        bound = max(own["longest_wait_ns"], ms * 1e6)

        def asked(lock):
            entry = self.run(case, lock, SEEDS[0], 1.25 * ms)
            return None if entry is None else entry["longest_wait_ns"] <= bound
        return asked

    def judge(self, case, locks, default):
        """Returns the best lock of this point, and its throughput relative to the default's; None if runs are missing."""
        first = {lock: entry["throughput"] for lock in locks if (entry := self.screen(case, lock))}
        own = self.throughput(case, default)
        if not own:
            return None
        order = sorted((l for l in first if l != default), key=lambda l: -first[l])
        faster = []
        for i, lock in enumerate(order):
            throughput = self.throughput(case, lock) if i < CONTENDERS and first[lock] > own / NEAR else first[lock]
            if throughput and throughput > own:
                faster.append((throughput, lock))
        faster.sort(reverse=True)
        best, ratio, too_long = default, 1.0, []
        if faster and (faster[0][0] / own <= NEAR or self.quick):
            best, ratio = faster[0][1], faster[0][0] / own
        elif faster:
            keeps = self.keeps_bound(case, default)
            for throughput, lock in faster:
                kept = keeps(lock)
                if kept is None:
                    return None
                if not kept:
                    too_long.append(lock)
                    continue
                best, ratio = lock, max(1.0, (self.throughput(case, lock) or throughput) / own)
                break
        settled = all((e := self.screen(case, lock)) and e["settled"] for lock in {default, best})
        return {"case": case, "default": round(own, 5), "best": best, "ratio": round(ratio, 4), "too_long": too_long, "settled": settled,
                "locks": {l: round(first[l], 5) for l in order[:8]}}

    def screen_all(self, pool, wanted, locks, step):
        began = shown = time.monotonic()
        work = collections.deque(pool.submit(self.screen, case, lock) for case in wanted for lock in locks)
        total = len(work)
        while work:
            work.popleft().result()
            if time.monotonic() > shown + 30:
                shown = time.monotonic()
                print(f"{step}: {total - len(work)} of {total} runs, {shown - began:.0f} s", file=sys.stderr)

    def sift(self, pool, wanted, locks, defaults):
        """Returns the locks that at some of the points are among the fastest, and faster than a default."""
        sample = [c for c in wanted if c["threads"] in SIFTED_THREADS + [CPUS[c["machine"]]] and c["spin_ns"] == SPINS[0]] or wanted
        self.screen_all(pool, sample, locks, "sift")
        kept = set(defaults)
        for case in sample:
            found = {lock: entry["throughput"] for lock in locks if (entry := self.screen(case, lock))}
            slowest = min((found[d] for d in defaults if d in found), default=0)
            kept |= {l for l in sorted(found, key=lambda l: -found[l])[:FASTEST] if found[l] > NEAR * slowest}
        return [lock for lock in locks if lock in kept]

    def all(self, wanted, locks, defaults):
        """Runs the step "screen" for all points before the later steps, so that an interrupted call has results for all machines."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            kept = self.sift(pool, wanted, locks, defaults)
            self.screen_all(pool, wanted, kept, "screen")
            return {d: [v for v in pool.map(lambda case, d=d: self.judge(case, kept, d), wanted) if v] for d in defaults}


# ---- results -------------------------------------------------------------------------------------------------------------------


def geometric(values):
    values = list(values)
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else None


def said(value):
    return "–" if value is None else f"{value:.2f}"


def table(rows, head):
    widths = [max(len(str(r[i])) for r in [head] + rows) for i in range(len(head))]
    lines = ["| " + " | ".join(str(c).ljust(w) for c, w in zip(r, widths)) + " |" for r in [head] + rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|"] + lines[1:])


def figures(verdicts):
    """Returns the geometric means of best / default for several ranges of the number of threads, and the worst point."""
    groups = [[v for v in verdicts if chosen(v["case"])] for chosen in (
        lambda c: c["threads"] <= 8 and not crowded(c), lambda c: c["threads"] > 8 and not crowded(c), crowded, lambda c: True)]
    worst = max(verdicts, key=lambda v: v["ratio"])
    return [len(verdicts)] + [said(geometric(v["ratio"] for v in g)) for g in groups] + \
        [f"{worst['ratio']:.2f}", name_of(worst["case"]), worst["best"]]


def summary(verdicts):
    of = collections.defaultdict(list)
    for v in verdicts:
        of[v["case"]["machine"]].append(v)
    rows = [[machine] + figures(of[machine]) for machine in CPUS if machine in of]
    for title, machines in (("**those that decide**", DECIDING), ("**all**", CPUS)):
        chosen = [v for v in verdicts if v["case"]["machine"] in machines]
        if chosen:
            rows.append([title] + figures(chosen))
    return table(rows, ["machine", "points", "≤ 8 threads", "more", "2 × the CPUs", "all", "worst", "where", "best there"])


def losses(verdicts, most):
    rows = [[f"{v['ratio']:.2f}", name_of(v["case"]), v["best"], f"{v['default']:.3g}", f"{v['default'] * v['ratio']:.3g}",
             ", ".join(v["too_long"][:3]) or "–", "yes" if v["settled"] else "no"]
            for v in sorted(verdicts, key=lambda v: -v["ratio"])[:most]]
    return table(rows, ["best / it", "point", "best", "it, M/s", "best, M/s", "faster, but waits too long", "settled"])


def kinds_of_points(verdicts):
    """Returns by how much the default is behind the best lock, by program."""
    of = collections.defaultdict(list)
    for v in verdicts:
        if v["case"]["machine"] in DECIDING:
            of[name_of(v["case"] | {"machine": "", "threads": 0}).split(" ×")[0].strip()].append(v["ratio"])
    return table([[name, said(geometric(r)), f"{max(r):.2f}"] for name, r in of.items()], ["program", "best / it", "worst"])


def report(verdicts, most):
    """Returns the report in Markdown, for each default that was judged."""
    parts = []
    for default, of in verdicts.items():
        if not of:
            continue
        unsettled = sum(not v["settled"] for v in of)
        parts += [f"### {default}", f"A figure is the throughput of the best lock divided by the throughput of `{default}`. The table has "
                                    f"geometric means, and the worst point. At {unsettled} of "
                  f"{len(of)} points a run had [not settled](../../docs/simulation.md), so it was too short for a stable figure.",
                  summary(of), "By program, machines that decide:", kinds_of_points(of), f"The table has the points at which `{default}` "
                                                                                         f"is furthest behind the best lock.",
                  losses(of, most)]
    return "\n\n".join(parts)


def store(verdicts, build, most, selection):
    from lab.run import packed  # in the tree only
    head = packed.without_stamp(POINTS, {"date": time.strftime("%Y-%m-%d"), "build": build, "selection": selection, "most": most})
    lines = [f'"{d}": [\n' + ",\n".join(json.dumps(v, separators=(",", ":")) for v in of) + "\n]" for d, of in verdicts.items()]
    text = f'{json.dumps(head)[:-1]}, "points": {{\n' + ",\n".join(lines) + "\n}}\n"
    POINTS.parent.mkdir(parents=True, exist_ok=True)
    packed.write(POINTS, text)


def page(text):
    import harness  # in the tree only
    from lab.run import packed
    stored = packed.document(POINTS)
    content = f"\nMeasured {stored['date']}: {stored['selection']}.\n\n" + report(stored["points"], stored["most"])
    return harness.between_markers(text, "arena simulated", content)


# ---- the command ---------------------------------------------------------------------------------------------------------------


def locks_of(usher):
    done = subprocess.run([str(usher), "list", "--json"], stdout=subprocess.PIPE, text=True, timeout=60)
    if done.returncode != 0:
        die(f"'{usher} list --json' fails: build it again (make build)")
    return json.loads(done.stdout)["locks"]


def options_of(arguments):
    parser = argparse.ArgumentParser(description="How far the default lock is behind the best of each point on simulated machines.")
    parser.add_argument("--build", default=str(TREE / "build" / "release"), help="build folder (default: build/release)")
    parser.add_argument("--usher", type=Path, help="the program, wherever it lies; usher_bench beside it")
    parser.add_argument("--default", help="the locks that are judged, a,b,… (default: usher's default)")
    parser.add_argument("--locks", help="the others, a,b,… (default: all whose waiters sleep)")
    parser.add_argument("--machines", default="all", help="deciding, shown, all, or a,b,… (default: all)")
    parser.add_argument("--programs", help="names, or name:number as --list has them")
    parser.add_argument("--threads", help="only points with these numbers of threads")
    parser.add_argument("--spin", help="only points with these budgets, in ns")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side (default: one for each CPU)")
    parser.add_argument("--minutes", type=float, help="after so many, no run begins")
    parser.add_argument("--quick", action="store_true", help="one seed, and waits are not asked")
    parser.add_argument("--redo", help="locks whose runs are made again, a,b,…")
    parser.add_argument("--same", action="store_true", help="another build made the runs, but these locks are the same")
    parser.add_argument("--runs", type=Path, help="lines of JSON (default: arena-simulated.jsonl in the build folder)")
    parser.add_argument("--most", type=int, default=20, help="how many points the table of losses has")
    parser.add_argument("--only-show", action="store_true", help="show the results of the existing runs")
    parser.add_argument("--store", action="store_true", help=f"into {POINTS.relative_to(TREE)}")
    parser.add_argument("--list", action="store_true", help="the programs, how many points, and how long that takes")
    return parser.parse_args(arguments)


def wanted_of(options):
    machines = {"all": list(CPUS), "deciding": list(DECIDING), "shown": list(SHOWN)}.get(options.machines, options.machines.split(","))
    for machine in machines:
        if machine not in CPUS:
            die(f"machine '{machine}' has no points: take {', '.join(CPUS)}")
    programs = PROGRAMS
    if options.programs:
        chosen = options.programs.split(",")
        programs = [p for i, p in enumerate(PROGRAMS) if p[0] in chosen or f"{p[0]}:{i}" in chosen]
    wanted = list(cases(machines, programs))
    for option, key in ((options.threads, "threads"), (options.spin, "spin_ns")):
        if option:
            wanted = [c for c in wanted if str(c[key]) in option.split(",")]
    if not wanted:
        die("these machines, programs and numbers of threads have no point in common: --list shows the programs")
    return wanted


def main(arguments=None):
    options = options_of(arguments)
    usher = (options.usher or Path(options.build) / "bin" / "usher").resolve()
    for program in (usher, usher.parent / "usher_bench"):
        if not program.is_file():
            die(f"{program} is missing: build first (make build), or name usher by --usher")
    runs_file = options.runs or (usher.parent if options.usher else Path(options.build)) / "arena-simulated.jsonl"
    wanted, catalogue = wanted_of(options), locks_of(usher)
    defaults = options.default.split(",") if options.default else [next(l["name"] for l in catalogue if l["default"])]
    locks = options.locks.split(",") if options.locks else [
        l["name"] for l in catalogue if l["excludes"] and not l["native_only"] and l["waiting"] in ("spin-then-park", "park")]
    locks = list(dict.fromkeys(defaults + locks))
    if options.list:
        for i, (name, settings, why, _) in enumerate(PROGRAMS):
            print(f"{name}:{i:<3} {' '.join(f'{k}={v}' for k, v in settings.items()):24} {why}")
        many = sum(map(crowded, wanted))
        minutes = len(locks) * ((len(wanted) - many) * 0.03 + many * 0.4) / 60  # measured on two CPUs of a virtual machine
        print(f"{len(wanted)} points, {len(locks)} locks. If none were sifted out: about {minutes:.0f} minutes of one CPU for one seed, half as "
              "much for the rest; less with sifting.")
        return 0

    runs = Runs(runs_file)
    known = {l["name"] for l in catalogue} | {e["point"]["lock"] for e in runs.found.values()}
    for lock in locks:
        if lock not in known:
            die(f"lock '{lock}': 'usher list --all' shows those that there are")
    build = hashlib.sha256((usher.parent / "usher_bench").read_bytes()).hexdigest()[:16]
    if not options.only_show:
        if options.redo:
            runs.drop(set(options.redo.split(",")))
        if build not in runs.builds:
            if runs.found and not options.same:
                die(f"{runs_file} was made by another build: name another file by --runs, or, if only some locks have changed, "
                    "name those by --redo and add --same")
            runs.write({"build": build})
    arena = Arena(usher, runs, options.jobs, options.minutes, options.quick, options.only_show)
    verdicts = arena.all(wanted, locks, defaults)
    print(report(verdicts, options.most))
    print(f"\n{', '.join(f'{d}: {len(v)} of {len(wanted)} points' for d, v in verdicts.items())}; {arena.made} runs now.")
    if options.store:
        if any(len(v) < len(wanted) for v in verdicts.values()) or options.quick:
            die("not written: points are missing; the same command without --quick and --minutes completes them", 1)
        chosen = [f"--{k} {v}" for k in ("machines", "programs", "threads", "spin") if (v := getattr(options, k)) not in (None, "all")]
        store(verdicts, build, options.most, f"the points of `{' '.join(chosen)}`" if chosen else "all points")
    if arena.failures:
        key, why = next(iter(arena.failures.items()))
        print(f"{len(arena.failures)} runs failed; the first: {key}: {why}", file=sys.stderr)
        return 1
    if arena.missing:
        print(f"{arena.missing} runs are missing" + ("" if options.only_show else ": the time is up; the same command goes on"),
              file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
