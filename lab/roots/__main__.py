"""Runs a release's files in the systems for which it is meant: Debian releases with other C libraries, made by debootstrap.

  python3 -m lab.roots [--only bullseye,sid] [--steps tests,wheel,programs]   as root; half an hour for four systems
  python3 -m lab.pages roots                                                  make the page of the results

The build is build/portable, the packages are in build/dist (make release). The steps in each system, below build/roots:

  tests      conformance of the default lock and nine others, and the traps: the programs of the build, run there
  wheel      pip install of the wheel in a new environment, then usher list, run, stat and try; seconds to the first verdict of stat
  programs   five programs of that system, under locks (tools/compat.py); a program without threads must not get libpthread

Each command has a time limit, and runs in namespaces of its own, so that no mount and no process is left."""

import collections
import concurrent.futures
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import harness  # noqa: E402
from harness import TREE  # noqa: E402
from lab.run import packed, rounds, script  # noqa: E402

SYSTEMS = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41", "sid": ""}
PACKAGES = ["python3", "python3-venv", "perl", "sysbench", "redis-server", "memcached", "libmemcached-tools",
            "binutils", "linux-libc-dev", "procps"]
LOCKS = ["steady", "futex", "fairlock", "twa", "mcsg++", "k42-tls", "c-bo-mcs", "mcscr", "lifo-cr", "loiter"]
# Left out: the test system_calls, which recognises the C library by its file name and knows only the system calls of this machine's.
TRAPS = ["reference", "symbols", "environment", "shared_objects", "handlers", "forks", "sandboxes", "lost_wakeup"]
RESULTS = TREE / "lab/results/roots"
STEPS = ["tests", "wheel", "programs"]


def sh(command, limit, **more):
    """Runs a command with a time limit; returns (status, output). The status is 124 after the limit."""
    done = subprocess.run(["timeout", "--kill-after=5", str(limit), *map(str, command)], check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    return done.returncode, done.stdout


class Root:
    """A system in a folder, made by debootstrap. The source tree is mounted there at its own path."""

    def __init__(self, name, folder):
        self.name, self.path = name, Path(folder) / name

    def make(self):
        if (self.path / "made").exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        print(f"{self.name}: debootstrap", flush=True)
        status, output = sh(["debootstrap", "--variant=minbase", self.name, self.path], 900)
        if status != 0:
            harness.die(f"debootstrap {self.name} failed: {output[-300:]}")
        (self.path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n", encoding="ascii")  # no service is started
        (self.path / "usr/sbin/policy-rc.d").chmod(0o755)
        # The index of sid expires after a week, but mirrors may be older. The signature is still checked.
        valid = "-o Acquire::Check-Valid-Until=false" if self.name == "sid" else ""
        status, output = self.run(f"apt-get -q {valid} update && "
                                  "apt-get -qy install --no-install-recommends " + " ".join(PACKAGES), 900)
        if status != 0:
            harness.die(f"{self.name}: apt-get failed: {output[-300:]}")
        (self.path / "made").touch()

    def run(self, command, limit, env=None):
        """Runs a shell command in that system, in which the tree has its own path."""
        root, words = shlex.quote(str(self.path)), " ".join(f"{k}={shlex.quote(v)}" for k, v in (env or {}).items())
        inside = (f"mkdir -p {root}{TREE} && mount --bind {TREE} {root}{TREE} && mount -t proc proc {root}/proc && "
                  f"mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/tmp && "
                  f"exec chroot {root} /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root "
                  f"DEBIAN_FRONTEND=noninteractive {words} sh -c {shlex.quote(command)}")
        return sh(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside], limit)

    def glibc(self):
        return self.run("ldd --version", 20)[1].splitlines()[0]


# ---- the steps ------------------------------------------------------------------------------------------------------------

def chosen_tests(build):
    """Returns the tests of the build that this step runs: (name, command, environment)."""
    status, output = sh(["ctest", "--test-dir", build, "--show-only=json-v1"], 60)
    if status != 0:
        harness.die(f"{build} has no tests: make release-tests")
    names = ["conformance.reference", *(f"conformance.{lock}" for lock in LOCKS), *(f"traps.{t}" for t in TRAPS + LOCKS)]
    tests = {t["name"]: t for t in json.loads(output)["tests"]}
    for name in names:
        properties = {p["name"]: p["value"] for p in tests[name].get("properties", [])}
        env = dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", []))
        command = ["python3" if re.search(r"/python3[.0-9]*$", word) else word for word in tests[name]["command"]]
        yield name, command, env


def run_tests(root, options):
    """Runs the tests: first that of the reference, then three at a time, since most of their threads sleep."""
    results = {}

    def run(name, command, env):
        status, output = root.run(shlex.join(command), 300, env)
        counts = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", output, re.M)
        failed = [line.strip() for line in output.splitlines() if line.strip().startswith("FAIL")]
        passed = [int(n or 0) for n in counts[-1]] if counts else [0, 1, 0]
        results[name] = {"status": status, "passed": passed[0], "failed": passed[1], "skipped": passed[2],
                         "failures": failed or ([] if status == 0 else output.splitlines()[-3:])}
        print(f"{root.name}: {name}: {passed[0]} passed, {passed[1]} failed, {passed[2]} skipped", *failed[:5], sep="\n  ", flush=True)

    first, *others = chosen_tests(options.build)
    run(*first)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda test: run(*test), others))
    return dict(sorted(results.items()))


WHEEL = """set -e
cp {dist}/usher_locks-*.whl /tmp
begin=$(date +%s.%N)
python3 -m venv /tmp/e
/tmp/e/bin/pip install --quiet --no-index --disable-pip-version-check /tmp/usher_locks-*.whl
/tmp/e/bin/usher stat -- python3 {tree}/lab/programs/job_queue.py 8 2 > /tmp/stat.txt 2>&1
end=$(date +%s.%N)
grep -q '^Verdict: ' /tmp/stat.txt
echo "seconds: $(awk "BEGIN {{ print $end - $begin }}")"
sed -n '/^Verdict: /,$p' /tmp/stat.txt
"""


def run_wheel(root, options):
    status, output = root.run(WHEEL.format(dist=options.dist, tree=TREE), 200)
    seconds = re.search(r"^seconds: ([0-9.]+)$", output, re.M)
    result = {"status": status, "seconds": seconds and round(float(seconds[1]), 1),
              "verdict": " ".join(output.partition("Verdict: ")[2].split())[:400] or output[-400:]}
    checks = {
        "usher list": "usher list | grep -q steady",
        "usher run": "usher run --lock twa -- sh -c 'case $LD_PRELOAD in */libusher.so) ;; *) exit 1 ;; esac'",
        "usher try": "usher try --budget 20s --locks steady --metric 'events: +([0-9.]+)' -- "
                     "sysbench threads --threads=8 --thread-locks=1 --time=1 run",
        "python -m usher_locks": "/tmp/e/bin/python -m usher_locks --version",
        "ctypes": "/tmp/e/bin/python -c 'import usher_locks\nwith usher_locks.Mutex(\"mcscr\"): pass'",
        ".deb": f"dpkg -i {options.dist}/usher_*.deb {options.dist}/usher-check_*.deb {options.dist}/libusher-locks0_*.deb && "
                "/usr/bin/usher stat -- python3 -c 'import queue; queue.Queue().put(1)' && /usr/bin/usher check ticket-spin "
                "--executions 1000 && dpkg -r usher usher-check libusher-locks0",
        "tarball": f"cd /tmp && tar xf {options.dist}/usher-[0-9]*-linux-x86_64.tar.gz && usher-*/install.sh /tmp/p && "
                   "/tmp/p/bin/usher run --lock twa -- true && /tmp/p/share/usher/uninstall.sh && ! ls /tmp/p",
    }
    setup = f"python3 -m venv /tmp/e && /tmp/e/bin/pip install --quiet --no-index {options.dist}/usher_locks-*.whl && PATH=/tmp/e/bin:$PATH && "
    for name, command in checks.items():
        status, output = root.run(setup + command, 120)
        result[name] = {"status": status, "output": output[-600:]}
    print(f"{root.name}: wheel: {result['seconds']} s; {result['verdict']}",
          *(f"{n}: {result[n]['status']}" for n in checks), sep="\n  ", flush=True)
    return result


def run_programs(root, options):
    library = options.build / "lib/libusher.so"
    status, output = root.run("cat /proc/self/maps", 20, {"LD_PRELOAD": str(library), "USHER_LOCK": "steady"})
    result = {"one thread": {"status": status, "usher": "libusher.so" in output, "libpthread": "libpthread" in output}}
    command = ["python3", TREE / "tools/compat.py", "--quick", "--locks", "steady,twa,mcscr", "--build", options.build,
               "--programs", "sysbench,perl,python3,redis,memcached"]
    status, output = root.run(shlex.join(map(str, command)), 590)
    result["compat"] = {"status": status, "output": output.splitlines()[-40:]}
    print(f"{root.name}: one thread: {result['one thread']}; compat: {status}", *result["compat"]["output"][-12:], sep="\n  ", flush=True)
    return result


def run_root(root, options):
    root.make()
    file = RESULTS / f"{root.name}.json"
    result = packed.document(file) if packed.is_there(file) else {}
    result |= {"glibc": root.glibc(), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
               "usher": sh([options.build / "bin/usher", "--version"], 20)[1].strip()}
    for step in options.steps:
        result[step] = {"tests": run_tests, "wheel": run_wheel, "programs": run_programs}[step](root, options)
    RESULTS.mkdir(parents=True, exist_ok=True)
    rounds.put(file, json.loads(json.dumps(result).replace(str(TREE) + "/", "")))


# ---- the page ---------------------------------------------------------------------------------------------------------------

def new_failures(tests, name):
    """Returns the failures of a test that do not also occur with the C library alone in that system."""
    own = {f.split(":")[0] for test, r in tests.items() if test.endswith(".reference") for f in r["failures"]}
    return [f for f in tests[name]["failures"] if f.split(":")[0] not in own]


def cell(tests, name):
    r, new = tests[name], new_failures(tests, name)
    if name.endswith(".reference"):
        return f"{r['passed']}, {r['failed']} fail"
    return f"{r['passed']}" + (f", {r['failed'] - len(new)} fail as there" if r["failed"] > len(new) else "") + \
        (f", **{len(new)} fail**" if new else "") + (f", {r['skipped']} skipped" if r["skipped"] else "")


def table(results):
    columns = [name for name in SYSTEMS if name in results]
    yield "| | " + " | ".join(f"{name}, {results[name]['glibc'].rpartition(') ')[2]}" for name in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    rows = collections.OrderedDict()
    for name in columns:
        for test in results[name].get("tests", {}):
            rows.setdefault(test, {})[name] = cell(results[name]["tests"], test)
    for test, cells in rows.items():
        yield f"| {test} | " + " | ".join(cells.get(name, "") for name in columns) + " |"
    wheel = {name: results[name].get("wheel", {}) for name in columns}
    yield "| wheel: seconds to the verdict of stat | " + " | ".join(str(wheel[n].get("seconds", "")) for n in columns) + " |"
    for check in ("usher list", "usher run", "usher try", "python -m usher_locks", "ctypes", ".deb", "tarball"):
        yield f"| {check if check in ('.deb', 'tarball') else 'wheel: ' + check} | " + " | ".join(
            "" if check not in wheel[n] else "ok" if wheel[n][check]["status"] == 0 else f"status {wheel[n][check]['status']}" for n in columns) + " |"
    programs = {name: results[name].get("programs", {}) for name in columns}
    yield "| without threads: libpthread | " + " | ".join(
        "" if "one thread" not in programs[n] else "mapped" if programs[n]["one thread"]["libpthread"] else "not mapped" for n in columns) + " |"
    yield "| programs of that system | " + " | ".join(
        "" if "compat" not in programs[n] else programs[n]["compat"]["output"][-1] if programs[n]["compat"]["output"] else "" for n in columns) + " |"


def stored():
    return {name: packed.document(RESULTS / f"{name}.json") for name in SYSTEMS if packed.is_there(RESULTS / f"{name}.json")}


def page(text):
    return harness.between_markers(text, "roots", "\n".join(table(stored())))


def main():
    parser = script.parser(__doc__)
    parser.set_defaults(build=TREE / "build/portable")
    parser.add_argument("--dist", type=Path, default=TREE / "build/dist")
    parser.add_argument("--roots", type=Path, default=TREE / "build/roots")
    parser.add_argument("--only", default=",".join(SYSTEMS))
    parser.add_argument("--steps", type=lambda words: words.split(","), default=STEPS)
    options = parser.parse_args()
    options.build, options.dist, options.roots = (Path(p).resolve() for p in (options.build, options.dist, options.roots))
    for name in options.only.split(","):
        run_root(Root(name, options.roots), options)
    print("\n".join(table(stored())))


if __name__ == "__main__":
    main()
