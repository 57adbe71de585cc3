"""Checks whether other tools find the same hottest mutex as `usher stat`. Writes lab/results/stat/agreement.json;
`python3 -m lab.pages stat` makes a table of it.

  strace      time spent in futex waits of mutexes, by address, with stacks
  gdb         stops the program some hundred times and records the mutexes on which its threads sleep
  valgrind    drd counts holds that are long (it runs one thread at a time, so waits cannot be measured)

None of them knows the library. Each runs the program without it, without address randomisation, under an outside limit.

  python3 -m lab.cases.stat_agrees                        all installed programs
  python3 -m lab.cases.stat_agrees --only sysbench        some; the others' results stay"""

import collections
import json
import os
import re
import shlex
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import harness
from harness import TREE, Build, die
from lab.run import packed, rounds, runner, script
from lab.run.case import chosen
from lab.run.runner import Failed

RESULT = TREE / "lab/results/stat/agreement.json"
LIMIT = 180
SAMPLES = 150
# Modules whose frames are on the stack between the program's code and the wait. The place of a wait is the first frame outside these
# modules.
BETWEEN = re.compile(r"^(libc|libstdc\+\+|libpthread|ld-linux|libusher|vgpreload|\[vdso)")
# Source files of the C++ library's inlined functions. A frame in one of these files is not the place of a wait either.
WRAPPERS = re.compile(r"(gthr-default|std_mutex|unique_lock|mutex|invoke)(\.h)?:")
# A thread that waits for a mutex of the C library calls FUTEX_WAIT on the mutex's first four bytes with the expected value 2. Condition
# variables, joins and semaphores use FUTEX_WAIT_BITSET.
CONTENDED = 2


@dataclass
class Program:
    name: str
    title: str
    command: str
    threshold: int = 10  # ms: drd reports holds that are longer
    needs: str = ""


PROGRAMS = [
    Program("one-hot", "planted: one hot lock among 1,000", "planted one-hot", 1),
    Program("held-over-sleep", "planted: a lock held over a sleep", "planted held-over-sleep", 3),
    Program("in-library", "planted: a lock in a shared library", "planted in-library", 1),
    Program("sysbench", "sysbench threads, 4 threads",
            "sysbench threads --threads=4 --thread-locks=1 --thread-yields=100 --time=3 run", 1, "sysbench"),
    Program("sqlite", "SQLite, one connection for 4 threads", "sqlite_shared --threads 4 --seconds 3", 1, "libsqlite3-dev"),
    Program("python", "Python, 4 threads and a queue", f"python3 {TREE}/lab/programs/job_queue.py 4 3", 1, "python3"),
]


@dataclass
class Found:
    """The hottest mutex that a tool has found: its address, the place where threads wait for it (or lock it), and its share of the
    total."""
    address: int = 0
    module: str = ""
    offset: int = 0
    function: str = ""
    line: str = ""
    symbol: str = ""  # symbol of a static mutex, as in the row of usher stat
    share: float = 0
    of: str = ""

    def as_json(self):
        return asdict(self) | {"address": hex(self.address), "offset": hex(self.offset), "share": round(self.share, 3)}


def short(function):
    """Returns the function's name without arguments and namespaces, which each tool writes in its own way."""
    function = re.sub(r"\(anonymous namespace\)|<lambda[^>]*>|\{lambda[^}]*\}\S*", "", function or "")
    return re.sub(r"[(\[<].*", "", function).split("::")[-1].strip()


def hottest(sums, of):
    """Returns the entry of {address: (amount, {place: amount})} with the greatest amount, and its most frequent place."""
    if not sums:
        return None
    total = sum(amount for amount, _ in sums.values())
    address, (amount, places) = max(sums.items(), key=lambda one: one[1][0])
    if total <= 0:
        return None
    place = max(places.items(), key=lambda one: one[1])[0] if places else ("", 0, "", "")
    return Found(address, *place, share=amount / total, of=of)


def place_of(build):
    return runner.Place(build, [build.folder / "tests/stat/programs", build.programs, build.folder / "bin", os.environ["PATH"]])


class Tool:
    def __init__(self, place, folder):
        self.here, self.folder = place, folder

    def run(self, words, program):
        # The program is called by its full path, because some programs search for files in their own folder.
        first = shlex.split(program.command)[0]
        words = [self.here.find(word) if word == first else word for word in words]
        outcome = self.here.run(words, self.here.environment(), self.folder, LIMIT)
        if not outcome.ok:
            raise Failed(f"{shlex.join(words[:4])} …: {outcome.trouble()}")
        return outcome


class Usher(Tool):
    def words(self, program):
        return ["setarch", "-R", "usher", "stat", "--json", "stat.json", "--"] + shlex.split(program.command)

    def look(self, program):
        self.run(["setarch", "-R", str(self.here.build.usher), *self.words(program)[3:]], program)
        report = json.loads((self.folder / "stat.json").read_text())
        objects = [(one["waiting"]["total"], int(one.get("address", "0"), 16), row) for row in report["rows"]
                   if row["kind"] == "mutex" for one in row["each"] or [row]]  # a destroyed mutex has no address
        if not objects or max(one[0] for one in objects) <= 0:
            return None, None, report
        total = sum(one[0] for one in objects)
        waited, address, row = max(objects, key=lambda one: one[:2])
        found = Found(address, share=waited / total, of="time waited for mutexes")
        for stack in row["waiters"][:1]:
            for frame in stack["frames"]:
                module = os.path.basename(frame["module"] or "")
                line = f"{os.path.basename(frame['file'] or '')}:{frame['line']}" if frame["line"] else ""
                if not BETWEEN.match(module) and not WRAPPERS.match(line):
                    found.module, found.offset, found.line = module, int(frame["offset"] or "0", 16), line
                    found.function = frame["function"] or ""
                    break
        return found, row, report


class Strace(Tool):
    name, measures = "strace", "time in futex waits of mutexes"

    def words(self, program):
        return ["setarch", "-R", "strace", "-f", "-T", "-k", "-e", "trace=futex", "-o", "strace.out",
                *shlex.split(program.command)]

    def look(self, program):
        self.run(self.words(program), program)
        sums, begun, last = {}, {}, None
        call = re.compile(r"(\d+)\s+futex\((0x[0-9a-f]+), FUTEX_WAIT(?:_PRIVATE)?, (\d+), NULL(.*)")
        resumed = re.compile(r"(\d+)\s+<\.\.\. futex resumed>.*<([0-9.]+)>")
        ended = re.compile(r".*<([0-9.]+)>$")
        with open(self.folder / "strace.out", errors="replace") as lines:
            for line in lines:
                if line.startswith(" > "):
                    frame = re.match(r" > (\S+?)\((.*?)(?:\+0x[0-9a-f]+)?\) \[0x([0-9a-f]+)\]", line)
                    if last and frame and not BETWEEN.match(os.path.basename(frame.group(1))):
                        address, seconds = last
                        place = (os.path.basename(frame.group(1)), int(frame.group(3), 16), frame.group(2), "")
                        sums[address][1][place] += seconds
                        last = None
                    continue
                last = None
                if match := call.match(line):
                    tid, address, value, rest = match.groups()
                    if int(value) != CONTENDED:
                        continue
                    if "unfinished" in rest:
                        begun[tid] = int(address, 16)
                        continue
                    if time := ended.match(rest):
                        last = (int(address, 16), float(time.group(1)))
                elif match := resumed.match(line):
                    address = begun.pop(match.group(1), None)
                    last = (address, float(match.group(2))) if address is not None else None
                if last:
                    amount, places = sums.get(last[0], (0, collections.Counter()))
                    sums[last[0]] = (amount + last[1], places)
        return hottest(sums, self.measures)


GDB = r"""
import gdb, json, os, re, signal, threading, time
for line in ("pagination off", "confirm off", "debuginfod enabled off", "print thread-events off", "startup-with-shell off"):
    gdb.execute("set " + line, to_string=True)
gdb.execute("handle SIGINT stop print nopass", to_string=True)
gdb.execute("handle SIG32 SIG33 SIG34 nostop noprint pass", to_string=True)
BETWEEN, WRAPPERS = re.compile(BETWEEN), re.compile(WRAPPERS)
sums, symbols = {}, {}
def place_of():
    frame = gdb.newest_frame()
    for _ in range(20):
        if frame is None:
            break
        pc = frame.pc()
        for low, high, offset, path in maps:
            if low <= pc < high and not BETWEEN.match(os.path.basename(path)):
                sal = frame.find_sal()
                line = f"{os.path.basename(sal.symtab.filename)}:{sal.line}" if sal.symtab else ""
                if WRAPPERS.match(line):
                    break
                return os.path.basename(path), pc - low + offset, frame.name() or "", line
        frame = frame.older()
    return "", 0, "", ""
gdb.execute("starti", to_string=True)
samples = threads = 0
inferior = gdb.selected_inferior()
pid = inferior.pid
def interrupt():
    time.sleep(0.005)
    try:
        os.kill(pid, signal.SIGINT)
    except OSError:
        pass
while samples < SAMPLES:
    timer = threading.Thread(target=interrupt)
    timer.start()
    gdb.execute("continue", to_string=True)
    timer.join()
    if inferior.pid == 0:
        break
    samples += 1
    maps = []
    for line in open(f"/proc/{pid}/maps"):
        words = line.split()
        if "x" in words[1] and len(words) > 5:
            low, high = (int(word, 16) for word in words[0].split("-"))
            maps.append((low, high, int(words[2], 16), words[5]))
    for thread in inferior.threads():
        thread.switch()
        value = lambda name: int(gdb.parse_and_eval("$" + name)) & 0xffffffffffffffff
        gdb.newest_frame().select()
        # Skips threads that are not in futex(word, FUTEX_WAIT, 2). The number of the system call is in orig_rax. rax may already have the
        # code that restarts the call.
        if value("orig_rax") != 202 or value("rsi") & 0x7f != 0 or value("rdx") & 0xffffffff != CONTENDED:
            continue
        threads += 1
        amount, places = sums.setdefault(value("rdi"), [0, []])
        sums[value("rdi")][0] += 1
        places.append(place_of())
        if value("rdi") not in symbols:
            text = re.match(r"(\w[^ ]*)(?: \+ (\d+))? in section", gdb.execute(f"info symbol {value('rdi')}", to_string=True))
            symbols[value("rdi")] = text.group(1) + (f"+{int(text.group(2)):#x}" if text.group(2) else "") if text else ""
if inferior.pid != 0:
    gdb.execute("kill", to_string=True)
json.dump({"samples": samples, "threads": threads, "symbols": [[k, n] for k, n in symbols.items()],
           "sums": [[k, n, p] for k, (n, p) in sums.items()]}, open("gdb.json", "w"))
"""


class Gdb(Tool):
    name, measures = "gdb", "threads that sleep on a mutex, of so many stops"

    def words(self, program):
        return ["gdb", "-batch", "-nx", "-x", "sample.py", "--args", *shlex.split(program.command)]

    def look(self, program):
        (self.folder / "sample.py").write_text(
            f"SAMPLES, CONTENDED = {SAMPLES}, {CONTENDED}\n"
            f"BETWEEN, WRAPPERS = {BETWEEN.pattern!r}, {WRAPPERS.pattern!r}\n{GDB}")
        outcome = self.run(self.words(program), program)
        file = self.folder / "gdb.json"
        if not file.exists():
            raise Failed(f"gdb: {(outcome.stderr or outcome.stdout).strip().splitlines()[-1:]}")
        data = json.loads(file.read_text())
        sums = {address: (n, collections.Counter(tuple(place) for place in places)) for address, n, places in data["sums"]}
        found = hottest(sums, f"{data['threads']} sleeping threads in {data['samples']} stops")
        if found:
            found.symbol = dict(data["symbols"])[found.address]
        return found


class Drd(Tool):
    name, measures = "valgrind", "number of long holds"
    BASE = 0x108000  # of a position-independent program

    def words(self, program):
        return ["valgrind", "--tool=drd", "--check-stack-var=no", "--show-confl-seg=no", "--error-limit=no", "-s",
                "--num-callers=20", f"--exclusive-threshold={program.threshold}", "--log-file=drd.out",
                *shlex.split(program.command)]

    def look(self, program):
        self.run(self.words(program), program)
        # drd prints errors with the same stack only once. The end of its output has the number of errors for each stack.
        main = os.path.basename(shlex.split(program.command)[0])
        sums, count, acquired, frames = {}, 0, [], []
        for line in (self.folder / "drd.out").read_text(errors="replace").splitlines():
            line = re.sub(r"^==\d+== ?", "", line)
            if frame := re.match(r"\s+(?:at|by) 0x([0-9A-F]+): (.*)", line):
                frames.append((int(frame.group(1), 16), frame.group(2)))
                continue
            if context := re.match(r"(\d+) errors in context", line):
                count, acquired = int(context.group(1)), []
            if line.startswith("Acquired at"):
                frames = acquired = []
                continue
            held = re.match(r"Lock on mutex 0x([0-9a-f]+) was held during", line)
            if held and count:
                address = int(held.group(1), 16)
                amount, places = sums.get(address, (0, collections.Counter()))
                places[self.place(acquired, main)] += count
                sums[address] = (amount + count, places)
            frames = []
        return hottest(sums, f"number of holds of more than {program.threshold} ms")

    @classmethod
    def place(cls, frames, main):
        for address, text in frames:
            inside = re.search(r"\(in (\S+)\)$", text)
            module = os.path.basename(inside.group(1)) if inside else ""
            if BETWEEN.match(module):
                continue
            at = re.search(r"\(([^()\s]+:\d+)\)$", text)
            if at and WRAPPERS.match(at.group(1)):
                continue
            offset = address - cls.BASE if module == main else 0
            return module, offset, re.sub(r" \((in )?[^()]*\)$", "", text), at.group(1) if at else ""
        return "", 0, "", ""


def agrees(found, usher, row):
    """Returns the properties in which two findings agree: the mutex's address or name, and the place at which threads wait for it."""
    by = []
    if usher.address and found.address == usher.address:
        by.append("address")
    if found.symbol and row["each"] and found.symbol == row["each"][0]["name"]:
        by.append("name")
    frames = [frame for stack in row["waiters"] for frame in stack["frames"]]
    for frame in frames:
        module = os.path.basename(frame["module"] or "")
        near = abs(int(frame["offset"] or "0", 16) - found.offset) <= 1  # the call or its return address
        if found.offset and found.module == module and near:
            by.append("call")
            break
    lines = {f"{os.path.basename(frame['file'] or '')}:{frame['line']}" for frame in frames if frame["line"]}
    functions = {short(frame["function"]) for frame in frames
                 if not BETWEEN.match(os.path.basename(frame["module"] or ""))} - {""}
    if found.line and found.line in lines:
        by.append("line")
    elif short(found.function) in functions:
        by.append("function")
    return by


def measure(program, place):
    with tempfile.TemporaryDirectory(prefix="usher-agrees-") as scratch:
        folder = Path(scratch)
        tool = Usher(place, folder)
        usher, row, report = tool.look(program)
        result = {"name": program.name, "title": program.title,
                  "command": shlex.join(tool.words(program)).replace(str(TREE) + "/", "")}
        if usher is None:
            raise Failed("no mutex of it was waited for")
        result["usher"] = usher.as_json() | {"row": row["name"], "verdict": row["verdict"], "waited": row["waiting"]["total"],
                                             "seconds": report["seconds"]}
        result["tools"] = {}
        for kind in (Strace, Gdb, Drd):
            other = kind(place, folder)
            one = {"command": shlex.join(other.words(program)).replace(str(TREE) + "/", "")}
            try:
                found = other.look(program)
                if found is None:
                    one["trouble"] = "saw none"
                else:
                    one |= found.as_json() | {"agrees": agrees(found, usher, row)}
            except Failed as error:
                one["trouble"] = str(error)
            result["tools"][kind.name] = one
            print(f"{program.name}: {kind.name}: {one.get('agrees', one.get('trouble'))}", flush=True)
        return result


def cell(one):
    if "trouble" in one:
        return "–" if one["trouble"] == "saw none" else "failed"
    share = f"{100 * one['share']:.0f} %"
    if one["agrees"]:
        return f"yes, by {' and '.join(one['agrees'])}: {share}"
    return f"**no**: {share} at `{short(one['function']) or one['offset']}`"


def table(document):
    rows = [[one["title"], f"`{one['usher']['row']}`: {100 * one['usher']['share']:.0f} %",
             *[cell(one["tools"][kind.name]) for kind in (Strace, Gdb, Drd)]] for one in document["programs"]]
    heading = ["program", "`usher stat`: hottest mutex", "strace", "gdb", "valgrind (drd)"]
    where = document["machine"]
    return "\n".join(["", harness.markdown(rows, heading), "", f"Measured on {where['cpu']}, {where['cpus']} CPUs, {where['kernel']}; "
                      f"{document['date']}; {', '.join(document['versions'].values())}. A JSON file has the "
                      f"[results and commands](../results/stat/{packed.stored(RESULT).name})."])


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--only", help="names of programs, with commas")
    options = parser.parse_args()
    build = Build(options.build)
    build.need(build.usher, build.library)
    place, report, fresh = place_of(build), script.Report(), []
    for tool in ("strace", "gdb", "valgrind", "setarch"):
        if not place.find(tool):
            die(f"there is no {tool}: install its package")
    for program in chosen(PROGRAMS, options.only):
        if not place.find(shlex.split(program.command)[0]):
            how = f"install {program.needs}, then make build" if program.needs else "make build"
            print(f"{program.name}: not there: {how}", file=sys.stderr)
            continue
        with report.failures(program.name):
            fresh.append(measure(program, place))
    rounds.put(RESULT, {"machine": harness.machine(), "date": harness.today(), "commit": harness.commit(),
                        "versions": {tool: harness.first_line([tool, "--version"]) for tool in ("strace", "gdb", "valgrind")},
                        "programs": rounds.merged(RESULT, "programs", fresh, "name", [program.name for program in PROGRAMS])})


if __name__ == "__main__":
    script.entry(main)
