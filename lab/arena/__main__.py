"""The arena compares locks with the C library's mutex, in paired rounds, at some eighty chosen points. A default lock is
judged by it.

  python3 -m lab.arena list                                   the points, the reason for each, and missing programs
  python3 -m lab.arena run --locks steady --minutes 30        runs; results that exist already count, so a run can be resumed
  python3 -m lab.arena run --points '^50-|queue' --rounds 12  some points, at most so many rounds of each
  python3 -m lab.arena run --chroot DIR                       the points that also face the C library of another release of Debian
  python3 -m lab.arena judge                                  verdicts from the results, as text
  python3 -m lab.arena report                                 the page lab/pages/arena.md, and a heat map a lock
  python3 -m lab.arena pack DIR                               a folder for another machine; the command prints how to use
                                                              it

A round of a point runs the C library (libc), each lock, and the C library again (libc-again, the control), each in a process
of its own under a time limit. All points get as many rounds as an interval needs (12 for 60 points); after that,
those that are undecided get more, the widest interval first, until --minutes or --rounds are used up. Results are
lines of JSON, one a run, appended as they come."""

import argparse
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

from lab.arena import judge
from lab.arena import runs
import catalog
import harness
from lab.arena.judge import BASE, CONTROL
from lab.arena.points import BY_NAME, GROUPS, POINTS, READ_WRITE
from harness import TREE, die
from lab.run import packed

RESULTS = TREE / "lab" / "results" / "arena"
PAGE = TREE / "lab" / "pages" / "arena.md"
OTHERS = 0.15  # if other programs take more of all CPU time than this share, a round does not count


# ---- results ----------------------------------------------------------------------------------------------------------

class Results:
    """The stored results: files of JSON lines, with sessions (their machine and libraries) and the runs of each session."""

    def __init__(self, files):
        self.sessions, self.runs = {}, []
        for file in files:
            for number, line in enumerate(packed.text_of(Path(file)).splitlines(), 1):
                try:
                    entry = json.loads(line)
                except ValueError:
                    # An interrupted run leaves an incomplete last line. If another line is incomplete, the report shows that its run is
                    # missing.
                    print(f"arena: {file}:{number} is not whole and left out", file=sys.stderr)
                    continue
                if "machine" in entry:
                    self.sessions[entry["session"]] = entry
                else:
                    self.runs.append(entry)

    def places(self):
        """Returns (processor, CPUs, C library) of each session, in the order of the files."""
        return list(dict.fromkeys(place_of(s) for s in self.sessions.values()))

    def of(self, place, most_others=OTHERS):
        sessions = {name: s for name, s in self.sessions.items() if place_of(s) == place}
        return Arena(place, sessions, self.runs, most_others)


def place_of(session):
    return session["machine"]["cpu"], session["machine"]["cpus"], session["libc"]


class Arena:
    """The results of one machine and C library. Of each lock only the runs with the library that was used last count."""

    def __init__(self, place, sessions, all_runs, most_others=OTHERS):
        self.place, self.sessions, self.most_others = place, sessions, most_others
        mine = [r for r in all_runs if r["session"] in sessions]
        self.digest = {}
        for r in mine:
            if r["candidate"] not in (BASE, CONTROL):
                self.digest[r["candidate"]] = sessions[r["session"]]["library"]
        self.locks = list(self.digest)
        self.rounds = {}  # {point: {round: {candidate: run}}}
        for r in mine:
            lock = r["candidate"]
            if lock in self.digest and sessions[r["session"]]["library"] != self.digest[lock]:
                continue
            self.rounds.setdefault(r["point"], {}).setdefault((r["session"], r["round"]), {})[lock] = r

    def rounds_of(self, point):
        return list(self.rounds.get(point, {}).values())

    def points(self):
        """Returns the points that have results, in the order of the list."""
        return [p for p in POINTS if p.name in self.rounds]

    def last_round(self, point):
        return max((number for _, number in self.rounds.get(point, {})), default=-1)

    def compare(self, point, lock, error=None):
        error = error or judge.FAMILY_ERROR / max(1, len(self.points()))
        return judge.compare(point, lock, self.rounds_of(point), error, self.most_others)

    def ratios(self, point, lock, key):
        return judge.ratios(self.rounds_of(point), lock, key, self.most_others)


# ---- running ----------------------------------------------------------------------------------------------------------

def session_of(place, build, points, name):
    carried = runs.packed(build)
    command = re.sub(r"(?<![\w.])/[\w./-]+", "DIR", " ".join(sys.argv[1:]))  # replaces paths, which have no meaning on another machine
    return {"session": name, "date": harness.today(), "machine": harness.machine(), "libc": place.libc,
            "commit": carried.get("commit") or harness.commit(), "compiler": carried.get("compiler") or harness.compiler(build),
            "library": runs.library_digest(build), "command": f"{harness.call()} {command}",
            "packages": carried.get("packages") or place.packages(points)}


def chosen_points(place, options):
    if options.points:
        try:
            pattern = re.compile(options.points)
        except re.error as error:
            die(f"--points {options.points}: not a regular expression ({error})")
        points = [p for p in POINTS if pattern.search(p.name) or pattern.fullmatch(p.group)]
        if not points:
            die(f"--points {options.points}: no point is called so (python3 -m lab.arena list)")
    else:
        points = [p for p in POINTS if p.two_libraries or not options.chroot]
    read_write = [lock in catalog.read_write_names() for lock in options.locks]
    if any(read_write) and not all(read_write):
        die("--locks: read-write locks and mutexes have different points: run them one after the other")
    points = [p for p in points if (p.group in READ_WRITE) == read_write[0]]
    if not points:
        die("no point is left: points of read-write locks are for --locks phase-fair,bravo (python3 -m lab.arena list)")
    there = []
    for point in points:
        why_not = place.missing(point)
        if why_not:
            print(f"skipped: {point.name}: {why_not}", flush=True)
        else:
            there.append(point)
    if not there:
        die("none of the points can be run here", 1)
    return there


def has_locks(place, locks):
    for lock in locks:
        outcome = place.run(["arena", "--what", "calibrate"], place.environment(lock), place.scratch, 60)
        if not outcome.ok or outcome.stderr.strip():
            die(f"lock '{lock}': {outcome.stderr.strip() or outcome.trouble()}")


def text_of(estimate):
    if estimate is None:
        return "–"
    if estimate.low == 0:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def run(options):
    build = runs.folder_of(options.build)
    place = runs.Place(build, options.chroot)
    try:
        return run_in(place, build, options)
    finally:
        place.close()


def state_of(arena, point, options, error):
    """Returns the name of a point, its number of rounds so far (all of them if a lock has failed three times) and its comparisons."""
    compared = [arena.compare(point.name, lock, error) for lock in options.locks]
    failed = any(len(c.failures) >= 3 for c in compared)
    tried = min(c.rounds + len(c.failures) + c.left_out for c in compared)
    return point.name, options.rounds if failed else tried, [c.throughput for c in compared]


def in_words(fresh):
    """Returns the results of a round: of each lock the ratio to the C library's mutex."""
    base = next(r for r in fresh if r["candidate"] == BASE)
    told = [f"{r['candidate']} " + (f"failed: {r['failed']}" if "failed" in r else
                                   f"{r['rate'] / base['rate']:.2f}" if base.get("rate") else "?")
            for r in fresh if r is not base]
    return f"{'C library failed: ' + base['failed'] + '; ' if 'failed' in base else ''}{', '.join(told)}"


def run_in(place, build, options):
    start = time.monotonic()
    points = chosen_points(place, options)
    has_locks(place, options.locks)
    out = options.out or RESULTS / ("native.jsonl" if not options.chroot else f"native-{place.libc.replace(' ', '-')}.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    packed.unpack(out)
    out = packed.plain(out)
    name = f"{harness.today()}-{os.getpid()}"
    header = session_of(place, build, points, name)
    step_ns = calibration(out, header) or runs.calibrate(place)
    header["step_ns"] = step_ns

    with open(out, "a") as file:
        def write(entry):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            file.flush()

        write(header)
        session_runs = []
        so_far = Results([out])
        earlier, sessions = so_far.runs, so_far.of(place_of(header)).sessions
        least = options.least or judge.rounds_needed(len(points))
        error = judge.FAMILY_ERROR / len(points)
        took = {p.name: (len(options.locks) + 2) * (1.2 * runs.duration(p, options.seconds) + 0.2) for p in points}  # seconds of a round
        while True:
            arena = Arena(place_of(header), sessions, earlier + session_runs, options.others)
            state = [state_of(arena, point, options, error) for point in points]
            order = judge.next_points(state, min(least, options.rounds), options.rounds)
            if not order:
                print("nothing is left to run: every point is decided or has its rounds", flush=True)
                break
            ran = 0
            for point_name in order if min(s[1] for s in state) < least else order[:max(1, len(order) // 4)]:
                spent = time.monotonic() - start
                if spent + took[point_name] > options.minutes * 60:
                    continue
                began = time.monotonic()
                number = arena.last_round(point_name) + 1
                fresh = [r | {"session": name} for r in
                         runs.run_round(place, BY_NAME[point_name], options.locks, number, options.seconds, step_ns)]
                for r in fresh:
                    write(r)
                session_runs += fresh
                took[point_name] = time.monotonic() - began
                ran += 1
                print(f"{time.monotonic() - start:5.0f} s  {point_name}, round {number + 1}: {in_words(fresh)}", flush=True)
            if ran == 0:
                print(f"the {options.minutes:g} minutes are used up", flush=True)
                break
    packed.write(out, packed.text_of(out))
    print()
    return judge_text([out], options.others)


def calibration(out, header):
    """Returns the time of a step of work that an earlier session measured on this machine, so that the lengths of sections stay the
    same."""
    if not packed.is_there(out):
        return None
    for session in reversed(Results([out]).sessions.values()):
        if place_of(session) == place_of(header):
            return session["step_ns"]
    return None


# ---- judging ----------------------------------------------------------------------------------------------------------

def files_of(options):
    found = options.results or packed.files(RESULTS, "native*.jsonl")
    if not found:
        die("there are no results yet: python3 -m lab.arena run", 1)
    for file in found:
        if not packed.is_there(Path(file)):
            die(f"{file} is missing: name a file that `python3 -m lab.arena run` has written", 1)
    return found


def judge_text(files, most_others):
    results = Results(files)
    status = 0
    for place in results.places():
        arena = results.of(place, most_others)
        print(f"{place[0]}, {place[1]} CPUs, {place[2]}; {len(arena.points())} points; intervals: signed ranks, error "
              f"{judge.FAMILY_ERROR} / {len(arena.points())} each (Bonferroni)")
        for lock in arena.locks + [CONTROL]:
            rows, left_out = [], 0
            for point in arena.points():
                c = arena.compare(point.name, lock)
                longest = f"{1e3 * c.longest[0]:.1f} → {1e3 * c.longest[1]:.1f}" if c.longest else ""
                share = f"{c.share[0]:.3f} → {c.share[1]:.3f}" if c.share else ""
                left_out += c.left_out
                rows.append([point.name, str(c.rounds), text_of(c.throughput), c.verdict, text_of(c.cpu), longest, share])
                if c.failures:
                    rows.append(["", "", c.failures[-1], "", "", "", ""])
                    status = 1
            means = [f"{GROUPS[g]} {m.value:.3f} ({m.low:.3f}–{m.high:.3f})" for g in GROUPS
                     if (m := group_mean(arena, lock, g, "rate"))]
            costs = group_mean(arena, lock, None, "cost")
            print(f"\n{lock}: geometric means: {'; '.join(means)}" + (f"; CPU of all {costs.value:.3f}" if costs else ""))
            print(harness.table(rows, ["point", "rounds", "throughput", "verdict", "CPU", "longest wait, ms", "smallest share"], right={1}))
            if left_out:
                print(f"{left_out} rounds do not count: others took more than {100 * most_others:.0f} % of the CPU time (--others)")
        print()
    return status


def group_mean(arena, lock, group, key):
    return judge.mean_with_interval([arena.ratios(p.name, lock, key) for p in arena.points() if group in (None, p.group)])


def list_points(options):
    build = runs.folder_of(options.build)
    place = runs.Place(build)
    try:
        rows = [[p.name, p.group, p.reason + (" (two C libraries)" if p.two_libraries else ""), place.missing(p) or ""] for p in POINTS]
    finally:
        place.close()
    print(harness.table(rows, ["point", "group", "why", "missing"]))
    return 0


def report(options):
    from lab.arena import page
    return page.write(Results(files_of(options)), options)


def parsed():
    parser = argparse.ArgumentParser(prog="python3 -m lab.arena", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_it = commands.add_parser("run", help="run rounds")
    run_it.add_argument("--locks", default="steady", metavar="A,B", help="against the C library (steady)")
    run_it.add_argument("--points", metavar="REGEX", help="points whose name it matches, or a group (all)")
    run_it.add_argument("--rounds", type=int, default=60, metavar="N", help="of a point at most (60)")
    run_it.add_argument("--least", type=int, default=0, metavar="N", help="of all points, before any gets more (as many as an interval needs)")
    run_it.add_argument("--minutes", type=float, default=30, metavar="N", help="in all; no round is begun that would end later (30)")
    run_it.add_argument("--seconds", type=float, default=0.5, metavar="S", help="measured time of a run; real programs take 1 s (0.5)")
    run_it.add_argument("--chroot", metavar="DIR", help="run inside this root of another release of Debian (as root)")
    run_it.add_argument("--out", type=Path, metavar="FILE", help="appended to (lab/results/arena/native.jsonl)")
    judge_it = commands.add_parser("judge", help="verdicts as text")
    report_it = commands.add_parser("report", help="the page and the heat maps")
    for command in (judge_it, report_it):
        command.add_argument("results", nargs="*", type=Path, help="files of results (lab/results/arena/native*.jsonl)")
    report_it.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="the page (lab/pages/arena.md)")
    report_it.add_argument("--charts", type=Path, default=RESULTS, metavar="DIR", help="where heat maps go (lab/results/arena)")
    list_it = commands.add_parser("list", help="the points")
    pack_it = commands.add_parser("pack", help="a folder for another machine")
    pack_it.add_argument("target", metavar="DIR")
    pack_it.add_argument("--programs", action="store_true", help="with the real programs that are one file, and their libraries")
    for command in (run_it, judge_it, report_it):
        command.add_argument("--others", type=float, default=OTHERS, metavar="X",
                             help=f"a round in which other programs took more of the CPU time does not count ({OTHERS})")
    for command in (run_it, list_it, pack_it):
        command.add_argument("--build", "--bin", default="build/release", metavar="DIR", help="build folder, or a packed one (build/release)")
    options = parser.parse_args()
    if options.command == "run":
        options.locks = [lock for lock in options.locks.split(",") if lock]
        if not options.locks or {BASE, CONTROL} & set(options.locks):
            parser.error(f"--locks wants names of Usher's locks; {BASE} and {CONTROL} are always there")
        if options.rounds < 1 or options.least < 0 or options.minutes <= 0 or not 0.01 <= options.seconds <= 60:
            parser.error("--rounds starts at 1, --least at 0, --minutes is above 0, --seconds from 0.01 to 60")
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parsed()
    if options.command == "run":
        return run(options)
    if options.command == "judge":
        return judge_text(files_of(options), options.others)
    if options.command == "report":
        return report(options)
    if options.command == "list":
        return list_points(options)
    runs.pack(runs.folder_of(options.build), options.target, options.programs)
    print(f"cd {options.target} && python3 -m lab.arena run --build .")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
