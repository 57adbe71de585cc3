"""How the arena runs a point: where programs and libraries are (the build, a carried folder, a root of another release of
Debian), CPU quotas, busy neighbours, servers, and what a run says of itself."""

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

import harness
from lab.arena.judge import BASE, CONTROL
from lab.arena.points import POINTS, figure
from harness import TREE, Build, Process, clean_environment, die

PROGRAMS = ["arena", "wait_cost", "producer_consumer", "buffer_pool", "herd", "mmicro", "sqlite_shared", "leveldb_driver"]
SCRIPTS = ["job_queue.py", "rand_array.pl"]  # of lab/programs/
CARRIED = "PACKED.json"                      # in a carried folder: its origin
CARRIED_LIBRARIES = "carried"                # of its lib/: libraries that programs of other packages need
NOT_CARRIED = r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl))\.so\..*"  # the C library's own, and its loader
TOO_LARGE = {"mariadbd"}                     # not one file: it needs its messages and tables, too
ROOM = "opt/usher-arena"                     # in a root of another release
DUTY_PERIOD = 0.1                            # seconds; the period of a CPU quota, too
READY_WITHIN = 20
END_WITHIN = 20


class Failed(Exception):
    pass


def folder_of(name):
    """The build folder, or a folder that `python3 -m lab.arena pack` has made."""
    build = Build(name)
    build.need(build.library, build.program("arena") or build.programs / "arena")
    return build


def packed(build):
    with contextlib.suppress(OSError, ValueError):
        return json.loads((build.folder / CARRIED).read_text())
    return {}


def library_digest(build):
    return hashlib.sha256(build.library.read_bytes()).hexdigest()[:12]


def finish(process, limit, wait=None):
    """Its outcome. An interruption of this script ends it, too."""
    try:
        if wait:
            wait(process, limit)
            limit = 0.1
        return process.finish(limit, backtrace=False)
    except BaseException:
        process.kill_group()
        raise


# ---- where ----------------------------------------------------------------------------------------------------------

class Place:
    """Here, or in the root of another release, with the same library and the same programs."""

    def __init__(self, build, root=None):
        self.build, self.root = build, Path(root).resolve() if root else None
        self.unmount = False
        self.prepared = {}  # scratch folders of real programs
        if self.root:
            self._move_in()
            inside = Path("/", ROOM)
            self.library, self.programs = inside / "lib" / "libusher.so", inside / "lab" / "programs"
            folders = [self.programs, "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        else:
            self.library, self.programs = build.library, None
            folders = [build.folder / "bin", build.programs, build.folder, "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        self.path = ":".join(str(f) for f in folders)
        carried = build.library.parent / CARRIED_LIBRARIES
        self.carried = carried if not root and carried.is_dir() else None
        base = self.root / "tmp" if self.root else None
        self.scratch = Path(tempfile.mkdtemp(prefix="usher-arena-", dir=base))
        self.libc = self._libc()

    def _move_in(self):
        if os.geteuid() != 0:
            die("--chroot needs root: run it as root, or leave it out")
        if not (self.root / "bin" / "sh").exists():
            die(f"{self.root} is no root folder of a system: make one with debootstrap (lab/pages/arena.md)")
        room = self.root / ROOM
        for part in ("lib", "lab/programs"):
            (room / part).mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.build.library, room / "lib" / "libusher.so")
        for name in PROGRAMS:
            if self.build.program(name):
                shutil.copy2(self.build.program(name), room / "lab" / "programs" / name)
        for name in SCRIPTS:
            shutil.copy2(TREE / "lab" / "programs" / name, room / "lab" / "programs" / name)
        if not (self.root / "proc" / "self").exists():
            done = subprocess.run(["mount", "-t", "proc", "proc", str(self.root / "proc")], capture_output=True, text=True)
            if done.returncode != 0:
                die(f"cannot mount {self.root}/proc ({done.stderr.strip()}): mount it by hand")
            self.unmount = True

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.unmount:
            subprocess.run(["umount", str(self.root / "proc")], capture_output=True)

    def enter(self):
        """In the child, between fork and exec; it stands in a folder of the root already."""
        if self.root:
            here = os.getcwd()
            os.chroot(self.root)
            os.chdir(os.path.join("/", os.path.relpath(here, self.root)))

    def find(self, program):
        """As it is called inside; None if it is not there."""
        if "/" in program:
            return program
        for folder in self.path.split(":"):
            outside = os.path.join(self.root, folder.lstrip("/")) if self.root else folder
            if os.access(os.path.join(outside, program), os.X_OK) and os.path.isfile(os.path.join(outside, program)):
                return os.path.join(folder, program)
        return None

    def environment(self, candidate, extra=None):
        env = clean_environment({"PATH": self.path} | (extra or {}))
        if self.carried:
            env["LD_LIBRARY_PATH"] = str(self.carried)
        if candidate in (BASE, CONTROL):
            return env
        env["LD_PRELOAD"] = ":".join(filter(None, [str(self.library), env.get("LD_PRELOAD")]))
        env["USHER_LOCK"] = candidate
        return env

    def start(self, words, env, cwd, preexec=(), own_session=True):
        program = self.find(words[0])
        if not program:
            raise Failed(f"there is no {words[0]}")

        def before_exec():
            for step in preexec:
                step()
            self.enter()

        needed = self.root or preexec
        return Process([program] + words[1:], env, str(cwd), before_exec if needed else None, own_session)

    def run(self, words, env, cwd, limit):
        return finish(self.start(words, env, cwd), limit)

    def _libc(self):
        outcome = self.run(["getconf", "GNU_LIBC_VERSION"], clean_environment({"PATH": self.path}), self.scratch, 20)
        return outcome.stdout.strip() or "unknown"

    def missing(self, point):
        """What keeps a point from being run here, or None."""
        if not point.case:
            return None if self.find(point.program) else f"{point.program} was not built"
        for program, package in point.case.needs:
            if not self.find(program):
                return f"there is no {program} (package {package})"
        if point.case.built and not self.find(point.case.built[0]):
            return f"{point.case.built[0]} was not built" + (f" (needs {point.case.built[1]})" if point.case.built[1] else "")
        for library, package in point.case.libraries:
            if self.carried and (self.carried / library).exists():
                continue
            if not glob.glob(f"{self.root or ''}/usr/lib/*/{library}") + glob.glob(f"{self.root or ''}/usr/lib/{library}"):
                return f"there is no {library} (package {package})"
        return None

    def packages(self, points):
        names = sorted({p for point in points if point.case for p in point.case.packages()})
        found = {}
        for name in names:
            words = ["dpkg-query"] + ([f"--admindir={self.root}/var/lib/dpkg"] if self.root else [])
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run(words + ["-W", "-f=${Version}", name], capture_output=True, text=True, timeout=20)
                if done.returncode == 0 and done.stdout:
                    found[name] = done.stdout.splitlines()[0]
        return found


# ---- CPU quotas -------------------------------------------------------------------------------------------------------

class Quota:
    """CPU time for a process group: by a control group if one can be made, else by stopping and continuing it."""

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
        """Until the process has ended, or so many seconds are over."""
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
        return shlex.split(point.case.command.format(**point.case.values(point.threads, seconds)))
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
    """A scratch folder in which the program's data are, made once."""
    if case.name not in place.prepared:
        folder = place.scratch / case.name
        folder.mkdir()
        (folder / "lab").mkdir()
        (folder / "lab" / "programs").symlink_to(place.programs or TREE / "lab" / "programs")
        place.prepared[case.name] = folder
        for text in case.prepare:
            outcome = place.run(["sh", "-c", text.format(**case.values(1, 1))], place.environment(BASE), folder, 120)
            if not outcome.ok:
                place.prepared[case.name] = None
                raise Failed(f"preparing it by `{text}`: {outcome.trouble()}")
    if place.prepared[case.name] is None:
        raise Failed("it could not be prepared")
    return place.prepared[case.name]


def wait_until_ready(place, case, values, folder, process):
    end = time.monotonic() + READY_WITHIN
    while place.run(["sh", "-c", case.ready.format(**values)], place.environment(BASE), folder, 10).status != 0:
        if process.ended_within(0.02) or time.monotonic() > end:
            raise Failed("the server did not start")


def served(place, case, values, folder, process, limit):
    """For a server that runs already: its load's output, and the server's own usage."""
    load = None
    try:
        wait_until_ready(place, case, values, folder, process)
        load = place.run(["sh", "-c", case.until.format(**values)], place.environment(BASE), folder, limit)
    finally:
        process.kill_group(signal.SIGTERM)
        outcome = finish(process, END_WITHIN)
    if not load.ok:
        raise Failed(f"its load: {load.trouble()}")
    return load.stdout, outcome


def start_neighbour(place, point):
    threads = max(1, round(point.neighbours * (os.cpu_count() or 1)))
    return place.start(["arena", "--what", "busy", "--threads", str(threads)], place.environment(BASE), place.scratch,
                       (lambda: os.nice(point.niced),) if point.niced else (), not point.same_group)


def run_once(place, point, candidate, seconds, step_ns, quota=None):
    """One run of one point: its figures, or why it failed."""
    length = duration(point, seconds)
    limit = 20 + 10 * length
    words = words_of(point, length, step_ns)
    neighbour, folder, extra = None, place.scratch, None
    began = time.monotonic()
    others = harness.OthersShare()
    try:
        if point.case:
            folder, extra = prepared(place, point.case), point.case.environment
            values = point.case.values(point.threads, length)
            if point.case.before:
                done = place.run(["sh", "-c", point.case.before.format(**values)], place.environment(BASE), folder, 60)
                if not done.ok:
                    raise Failed(f"`{point.case.before}`: {done.trouble()}")
        if point.neighbours:
            neighbour = start_neighbour(place, point)
        process = place.start(words, place.environment(candidate, extra), folder, quota.steps() if quota else (),
                              not point.same_group)
        if point.case and point.case.until:
            text, outcome = served(place, point.case, values, folder, process, limit)
        else:
            outcome = finish(process, limit, quota.wait if quota else None)
            text = outcome.stdout
            if not outcome.ok:
                raise Failed(outcome.trouble())
        beside = {}
        if neighbour:
            ended, neighbour = neighbour.finish(0, backtrace=False), None
            if not ended.timed_out:  # it is killed here, at the limit of 0 s
                raise Failed(f"the busy neighbour did not stay: {ended.trouble()}")
            beside["neighbour_cpu"] = ended.cpu_seconds
    except Failed as error:
        return {"failed": str(error)}
    finally:
        if neighbour:
            neighbour.finish(0, backtrace=False)
    value, document = figure(point, text)
    if value is None or value < 0 or (point.lower and value == 0):
        return {"failed": "its output says no figure"}
    return told(point, value, document, outcome, length) | beside | {"wall": round(time.monotonic() - began, 3),
                                                            "others": round(others.share(), 4)}


def told(point, value, document, outcome, length):
    """A run in the arena's words: `rate` is better the higher it is, `cost` is CPU seconds for the same work, `work` what
    the switches are of."""
    said = {"rate": 1 / value if point.lower else value, "cpu": outcome.cpu_seconds, "voluntary": outcome.voluntary,
            "involuntary": outcome.involuntary}
    if "operations" in document:  # the program arena: of the measured time alone
        work = document["operations"]
        for key in ("cpu", "voluntary", "involuntary", "longest_wait", "smallest_share", "owner_changes", "median_ns"):
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
    """The C library, the locks, and the C library again, in an order that changes from round to round."""
    candidates = [BASE] + locks + [CONTROL]
    if number // len(candidates) % 2:
        candidates.reverse()
    turn = number % len(candidates)
    quota = Quota(point.quota * (os.cpu_count() or 1)) if point.quota else None
    runs = []
    try:
        for candidate in candidates[turn:] + candidates[:turn]:
            run = {"point": point.name, "round": number, "candidate": candidate}
            run |= run_once(place, point, candidate, seconds, step_ns, quota)
            if quota:
                run["quota_by"] = quota.how
            runs.append(run)
    finally:
        if quota:
            quota.close()
    return runs


def calibrate(place):
    outcome = place.run(["arena", "--what", "calibrate"], place.environment(BASE), place.scratch, 60)
    if not outcome.ok:
        raise Failed(f"calibrating: {outcome.trouble()}")
    return json.loads(outcome.stdout)["step_ns"]


def libraries_of(file):
    """Paths of the shared libraries that a program or library is linked with, without the C library's."""
    listing = subprocess.run(["ldd", file], capture_output=True, text=True, timeout=20).stdout
    found = [line.split("=> ")[1].split(" ")[0] for line in listing.splitlines() if "=> /" in line]
    return [path for path in found if not re.fullmatch(NOT_CARRIED, os.path.basename(path))]


def pack_programs(place, target):
    """The real programs that are one file and their libraries; interpreters are taken from the machine that it is carried to."""
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
    """A folder that can be moved to another machine: library, programs, scripts. It is a build folder for --build."""
    target = Path(target)
    for part in ("lib", "bin", "tools", "lab/programs", "lab/arena", "lab/cases"):
        (target / part).mkdir(parents=True, exist_ok=True)
    shutil.copy2(build.library, target / "lib")
    for name in PROGRAMS:
        if build.program(name):
            shutil.copy2(build.program(name), target / "lab" / "programs")
    for name in SCRIPTS:
        shutil.copy2(TREE / "lab" / "programs" / name, target / "lab" / "programs")
    for script in ("lab/__init__", "lab/arena/__main__", "lab/arena/runs", "lab/arena/points", "lab/arena/judge", "lab/arena/page",
                   "lab/arena/picture", "lab/cases/try_cases", "lab/cases/stat_cases", "tools/harness", "tools/catalog"):
        shutil.copy2(TREE / f"{script}.py", target / f"{script}.py")
    place = Place(build)
    if programs:
        pack_programs(place, target)
    (target / CARRIED).write_text(json.dumps({"commit": harness.commit(), "compiler": harness.compiler(build),
                                              "library": library_digest(build),
                                              "packages": place.packages(POINTS) if programs else {}}) + "\n")
    place.close()
