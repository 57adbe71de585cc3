"""Runs the arena's points. A program and its library come from the build, from a folder that `pack` has made, or from the root of
another release of Debian. Also sets CPU quotas, starts busy neighbours and servers, and converts the results of a run."""

import contextlib
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import catalog
import harness
from harness import TREE, Build, die
from lab.arena.judge import BASE, CONTROL
from lab.arena.points import POINTS, figure
from lab.run import rounds, runner
from lab.run.case import Case
from lab.run.runner import SYSTEM, Failed

PROGRAMS = ["arena", "wait_cost", "producer_consumer", "buffer_pool", "herd", "mmicro", "sqlite_shared", "leveldb_driver",
            "openssl_driver", "shared_cache"]
SCRIPTS = ["job_queue.py", "rand_array.pl"]  # of lab/programs/
CARRIED = "PACKED.json"                      # the file in a packed folder that describes its origin
CARRIED_LIBRARIES = "carried"                # subfolder of a packed folder's lib/, for libraries that programs of other packages need
NOT_CARRIED = r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl))\.so\..*"  # not packed: the C library's libraries, and its loader
TOO_LARGE = {"mariadbd"}                     # not packed: such programs also need messages and tables
ROOM = "opt/usher-arena"                     # the folder for our files in the root of another release
DUTY_PERIOD = 0.1                            # seconds: the period of busy neighbours and of CPU quotas


def folder_of(name):
    """Returns the build folder, or a folder that `python3 -m lab.arena pack` has made."""
    build = Build(name)
    build.need(build.library, build.program("arena") or build.programs / "arena")
    return build


def packed(build):
    with contextlib.suppress(OSError, ValueError):
        return json.loads((build.folder / CARRIED).read_text())
    return {}


def library_digest(build):
    return hashlib.sha256(build.library.read_bytes()).hexdigest()[:12]


def copy_programs(build, folder):
    """Copies the library, our programs and our scripts to a folder with the layout of a build folder."""
    for part in ("lib", "lab/programs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for library in (build.library, build.library.with_name("libusher-all.so")):
        shutil.copy2(library, folder / "lib")
    for file in [*filter(None, map(build.program, PROGRAMS)), *(TREE / "lab" / "programs" / name for name in SCRIPTS)]:
        shutil.copy2(file, folder / "lab" / "programs")


# ---- where ----------------------------------------------------------------------------------------------------------

class Place(runner.Place):
    """This system or the root of another release of Debian, with the same library, the same programs and a scratch folder."""

    def __init__(self, build, root=None):
        inside = Path("/", ROOM)
        root = Path(root).resolve() if root else None
        folders = [inside / "lab" / "programs"] if root else [build.folder / "bin", build.programs, build.folder]
        super().__init__(build, folders + SYSTEM, root, inside / "lib" / "libusher.so" if root else None)
        self.unmount = False
        self.prepared = {}  # scratch folders of real programs
        if root:
            self._move_in()
            self.programs = inside / "lab" / "programs"
        elif (build.library.parent / CARRIED_LIBRARIES).is_dir():
            self.carried = build.library.parent / CARRIED_LIBRARIES
        self.scratch = Path(tempfile.mkdtemp(prefix="usher-arena-", dir=root / "tmp" if root else None))
        libc = self.run(["getconf", "GNU_LIBC_VERSION"], self.environment(), self.scratch, 20)
        self.libc = libc.stdout.strip() or "unknown"

    def _move_in(self):
        if os.geteuid() != 0:
            die("--chroot needs root: run it as root, or leave it out")
        if not (self.root / "bin" / "sh").exists():
            die(f"{self.root} is no root folder of a system: make one with debootstrap (lab/pages/arena.md)")
        copy_programs(self.build, self.root / ROOM)
        if not (self.root / "proc" / "self").exists():
            done = subprocess.run(["mount", "-t", "proc", "proc", str(self.root / "proc")], capture_output=True, text=True)
            if done.returncode != 0:
                die(f"cannot mount {self.root}/proc ({done.stderr.strip()}): mount it by hand")
            self.unmount = True

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.unmount:
            subprocess.run(["umount", str(self.root / "proc")], capture_output=True)

    def environment(self, candidate=BASE, extra=None):
        return super().environment(None if candidate in (BASE, CONTROL, None) else candidate, extra)

    def missing(self, point):
        """Returns the reason why a point cannot be run here, or None."""
        if point.case:
            return self.lacks(point.case)
        return None if self.find(point.program) else f"{point.program} was not built"

    def packages(self, points):
        return self.versions(sorted({p for point in points if point.case for p in point.case.packages()}))


# ---- CPU quotas -------------------------------------------------------------------------------------------------------

class Quota:
    """Limits the CPU time of a process group: by a control group if one can be made, else by stopping and continuing the
    group."""

    def __init__(self, cpus):
        self.cpus, self.folder, self.how = cpus, None, "stopped and continued"
        period = int(DUTY_PERIOD * 1e6)
        quota = int(cpus * period)
        for folder, texts in self._candidates(quota, period):
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                for name, text in texts:
                    (folder / name).write_text(text)
                self.folder, self.how = folder, f"{texts[-1][0]} of a control group"
                return
            except OSError:
                folder.rmdir()

    @staticmethod
    def _candidates(quota, period):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
        name = f"usher-arena-{os.getpid()}"
        for _, at, kind, options, *_ in mounts:
            if kind == "cgroup" and "cpu" in options.split(","):
                texts = [("cpu.cfs_period_us", str(period)), ("cpu.cfs_quota_us", str(quota))]
                place = next((path for controllers, path in own.items() if "cpu" in controllers.split(",")), "/")
            elif kind == "cgroup2":
                texts = [("cpu.max", f"{quota} {period}")]
                place = own.get("", "/")
            else:
                continue
            for below in dict.fromkeys([place, "/"]):
                yield Path(at, below.lstrip("/"), name), texts

    def enter(self):
        (self.folder / "cgroup.procs").write_text("0")

    def steps(self):
        return (self.enter,) if self.folder else ()

    def wait(self, process, limit):
        """Waits until the process has ended, or `limit` seconds are over."""
        if self.folder:
            process.ended_within(limit)
            return
        share = min(1.0, self.cpus / (os.cpu_count() or 1))
        end = time.monotonic() + limit
        while time.monotonic() < end and not process.ended_within(DUTY_PERIOD * share):
            process.kill_group(signal.SIGSTOP)
            time.sleep(DUTY_PERIOD * (1 - share))
            process.kill_group(signal.SIGCONT)

    def close(self):
        for _ in range(50 if self.folder else 0):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)


# ---- one run ----------------------------------------------------------------------------------------------------------

def words_of(point, seconds, step_ns):
    if point.case:
        return point.case.at(point.threads, seconds).words()
    words = [point.program] + [a.format(seconds=seconds) for a in point.arguments]
    for option, ns in (("--section", point.section), ("--outside", point.outside)):
        if ns:
            words += [option, str(max(1, round(ns / step_ns)))]
    return words


def duration(point, seconds):
    if point.case:
        return max(1, round(max(point.seconds, seconds)))  # real programs count whole seconds
    return max(point.seconds, seconds)


def prepared(place, case):
    """Returns a scratch folder with the program's data. The folder is made only once."""
    folder = place.scratch / case.name
    if case.name not in place.prepared:
        place.prepared[case.name] = False
        folder.mkdir()
        runner.prepare(place, case, folder)
        place.prepared[case.name] = True
    if not place.prepared[case.name]:
        raise Failed("it could not be prepared")
    return folder


def start_neighbour(place, point):
    threads = max(1, round(point.neighbours * (os.cpu_count() or 1)))
    return place.start(["arena", "--what", "busy", "--threads", str(threads)], place.environment(BASE), place.scratch,
                       (lambda: os.nice(point.niced),) if point.niced else (), not point.same_group)


def run_once(place, point, candidate, seconds, step_ns, quota=None):
    """Runs a point once. Returns its figures, or the reason of the failure."""
    length = duration(point, seconds)
    began, others = time.monotonic(), harness.OthersShare()
    neighbour, beside = None, {}
    try:
        if point.case:
            case, folder = point.case.at(point.threads, length), prepared(place, point.case)
        else:
            case, folder = Case(point.name, "", "", shlex.join(words_of(point, length, step_ns)), "", ""), place.scratch
        if point.neighbours:
            neighbour = start_neighbour(place, point)
        text, outcome = runner.run_case(place, case, folder, 20 + 10 * length, env=place.environment(candidate, case.environment),
                                        wait=quota.wait if quota else None, preexec=quota.steps() if quota else (),
                                        own_session=not point.same_group)
        if neighbour:
            ended, neighbour = neighbour.finish(0, backtrace=False), None
            if not ended.timed_out:  # finish() kills it here, at the limit of 0 s
                raise Failed(f"the busy neighbour did not stay: {ended.trouble()}")
            beside["neighbour_cpu"] = ended.cpu_seconds
        value, document = figure(point, text)
        if value < 0 or (point.lower and value == 0):
            raise Failed("no figure in its output")
    except Failed as error:
        return {"failed": str(error)}
    finally:
        if neighbour:
            neighbour.finish(0, backtrace=False)
    return told(point, value, document, outcome, length) | beside | {"wall": round(time.monotonic() - began, 3),
                                                            "others": round(others.share(), 4)}


def told(point, value, document, outcome, length):
    """Converts a run's figures to those that the arena compares: `rate`, for which more is better; `cost`, the CPU seconds for the same
    work; `work`, the amount of work during which the context switches happened."""
    said = {"rate": 1 / value if point.lower else value, "cpu": outcome.cpu_seconds, "voluntary": outcome.voluntary,
            "involuntary": outcome.involuntary}
    if "operations" in document:  # the program arena: of the measured time alone
        work = document["operations"]
        for key in ("cpu", "voluntary", "involuntary", "longest_wait", "longest_wait_to_write", "p999_to_read", "p999_to_write",
                    "smallest_share", "owner_changes", "median_ns"):
            if key in document:
                said[key] = document[key]
    elif point.case and point.case.count or not point.work:
        work = 1
    else:
        work = value * length
    said["cost"] = said["cpu"] / work if work else None
    said["work"] = work
    if point.facts:
        said |= point.facts(outcome.stderr)
    return {key: float(f"{v:.7g}") if isinstance(v, float) else v for key, v in said.items()}


def run_round(place, point, locks, number, seconds, step_ns):
    """Runs the C library, the locks, and the C library again, in an order that changes from round to round."""
    quota = Quota(point.quota * (os.cpu_count() or 1)) if point.quota else None
    found = []
    try:
        for candidate in rounds.turned([BASE, *locks, CONTROL], number):
            run = {"point": point.name, "round": number, "candidate": candidate}
            run |= run_once(place, point, candidate, seconds, step_ns, quota)
            if quota:
                run["quota_by"] = quota.how
            found.append(run)
    finally:
        if quota:
            quota.close()
    return found


def calibrate(place):
    outcome = place.run(["arena", "--what", "calibrate"], place.environment(BASE), place.scratch, 60)
    if not outcome.ok:
        raise Failed(f"calibrating: {outcome.trouble()}")
    return json.loads(outcome.stdout)["step_ns"]


def libraries_of(file):
    """Returns the paths of the shared libraries that a program or library needs, without those of the C library."""
    listing = subprocess.run(["ldd", file], capture_output=True, text=True, timeout=20).stdout
    found = [line.split("=> ")[1].split(" ")[0] for line in listing.splitlines() if "=> /" in line]
    return [path for path in found if not re.fullmatch(NOT_CARRIED, os.path.basename(path))]


def pack_programs(place, target):
    """Packs those real programs that consist of one file, and their libraries. Interpreters are not packed: those of the target machine
    are used."""
    folder = target / "lib" / CARRIED_LIBRARIES
    folder.mkdir(exist_ok=True)
    for case in {p.case.name: p.case for p in POINTS if p.case}.values():
        files = [place.find(program) for program, _ in case.needs if program not in TOO_LARGE | {"python3", "perl"}]
        files = [file for file in files if file]
        for file in files:
            shutil.copy2(file, target / "bin")
        linked = files + ([place.find(case.built[0])] if case.built and place.find(case.built[0]) else [])
        for library, _ in case.libraries:
            linked += [path for path in glob.glob(f"/usr/lib/*/{library}")[:1] if shutil.copy2(path, folder)]
        for file in linked:
            for library in libraries_of(file):
                shutil.copy2(library, folder)


def pack(build, target, programs):
    """Makes a folder with library, programs and scripts that can be moved to another machine, and used there as the build folder
    (--build)."""
    target = Path(target)
    copy_programs(build, target)
    for part in ("bin", "tools", "lab/arena", "lab/run"):
        (target / part).mkdir(parents=True, exist_ok=True)
    for script in ("lab/__init__", "lab/arena/__main__", "lab/arena/runs", "lab/arena/points", "lab/arena/judge", "lab/arena/page",
                   "lab/arena/picture", "lab/run/case", "lab/run/packed", "lab/run/manifest", "lab/run/runner",
                   "lab/run/rounds", "tools/harness", "tools/catalog"):
        shutil.copy2(TREE / f"{script}.py", target / f"{script}.py")
    for names in (catalog.LIST, catalog.READ_WRITE, catalog.WAYS):
        (target / names).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TREE / names, target / names)
    place = Place(build)
    if programs:
        pack_programs(place, target)
    (target / CARRIED).write_text(json.dumps({"commit": harness.commit(), "compiler": harness.compiler(build),
                                              "library": library_digest(build),
                                              "packages": place.packages(POINTS) if programs else {}}) + "\n")
    place.close()
