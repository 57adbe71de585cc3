"""The greatest cost of `usher stat -p` for the process to which it attaches: the table of docs/security.md.

  python3 -m lab.costs.attach_cost               measures, and writes lab/results/attach-cost.json: about a minute
  python3 -m lab.costs.attach_cost --write-doc   sets the result into the page; measures nothing

The program is tests/stat/programs/attached.c: two threads lock a mutex, one never waits and notes the longest time between two
readings of its clock. That time contains the CPU time of other threads and programs, so the same time without an observer is
beside it. The stop itself is measured by the observer, from the first thread's stop until the last one runs again."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import harness
from harness import TREE, Build, clean_environment, die
from lab.run import packed, rounds, script
from lab.run.runner import Resident, kib, preloaded

RESULT = TREE / "lab/results/attach-cost.json"
PAGE = TREE / "docs/security.md"
LIMIT = 60  # seconds, for each program that is started
SITUATIONS = {"4 threads": ["threads", "0"], "300 threads, most asleep": ["threads", "296"],
              "2,000 threads, most asleep": ["threads", "1996"], "a thread in `vfork`": ["vfork"]}


class Program(Resident):
    def __init__(self, build, words):
        program = build.folder / "tests/stat/programs/attached"
        build.need(program)
        super().__init__([program, *words], preloaded(build.library, "steady"))
        self.longest_gap()

    def longest_gap(self):
        """Returns the longest gap since the previous call of this function, in milliseconds."""
        return int(self.ask()) / 1000

    def state(self):
        status = self.proc("status")
        return {"address_space": kib(status, "VmSize"), "shared_pages": kib(status, "RssShmem"),
                "descriptors": len(os.listdir(f"/proc/{self.pid}/fd"))}


def attach(build, program, folder, seconds):
    """Returns the report of `usher stat -p`, and the process's state in the middle of the recording."""
    file = Path(folder) / "report.json"
    observer = subprocess.Popen([build.usher, "stat", "-p", str(program.pid), "--duration", str(seconds), "--json", file],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clean_environment())
    time.sleep(seconds / 2)
    during = program.state()
    _, error = observer.communicate(timeout=LIMIT)
    if observer.returncode != 0:
        die(error.strip(), 1)
    return json.loads(file.read_text())["attached"], during


def measure(build, words, rounds, folder):
    with Program(build, words) as program:
        before = program.state()
        found = {"without_ms": [], "with_ms": [], "stopped_ms": [], "before": before}
        for _ in range(rounds):
            program.longest_gap()
            time.sleep(0.6)
            found["without_ms"].append(program.longest_gap())
            attached, found["during"] = attach(build, program, folder, 0.6)
            found["with_ms"].append(program.longest_gap())
            found["stopped_ms"].append(1000 * attached["stopped_seconds"])
        found["after"] = program.state()
        return found


def attach_often(build, times, folder):
    with Program(build, ["threads", "0"]) as program:
        found = {"times": times, "before": program.state()}
        for i in range(times):
            attach(build, program, folder, 0.05)
            program.longest_gap()  # makes the program call the library, which then closes the descriptor
            if i == 0:
                found["once"] = program.state()
        found["after"] = program.state()
        return found


def range_of(values):
    return harness.median_range(values, "{:.1f}")


def content_of(document):
    rows = [[name, range_of(f["stopped_ms"]), range_of(f["with_ms"]), range_of(f["without_ms"])]
            for name, f in document["situations"].items()]
    first = harness.markdown(rows, ["threads", "stopped for, ms", "longest gap of a running thread, ms", "the same unobserved"])
    any_one, often = next(iter(document["situations"].values())), document["often"]
    states = {"before": often["before"], "while recorded": any_one["during"], "after one recording": often["once"],
              f"after {often['times']}": often["after"]}
    rows = [[name, f"{s['address_space']:,}", f"{s['shared_pages']:,}", str(s["descriptors"])] for name, s in states.items()]
    second = harness.markdown(rows, ["4 threads", "address space, KiB", "pages of the record, KiB", "descriptors"])
    return f"{first}\n\n{second}\n\n{harness.provenance_line(document)}"


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="attaches for each situation (7)")
    parser.add_argument("--times", type=int, default=100, metavar="N", help="attaches to one process (100)")
    parser.add_argument("--write-doc", action="store_true", help="set the result into the page; measures nothing")
    options = parser.parse_args()
    if options.write_doc:
        if not packed.is_there(RESULT):
            die(f"{RESULT} is missing: measure first")
        PAGE.write_text(harness.between_markers(PAGE.read_text(), "cost of attaching", content_of(packed.document(RESULT))))
        return 0
    build = Build(options.build)
    build.need(build.usher, build.library)
    others = harness.OthersShare()
    with tempfile.TemporaryDirectory(prefix="usher-attach-") as folder:
        document = {"measurement": "cost of attaching", "rounds": options.rounds,
                    "situations": {name: measure(build, words, options.rounds, folder) for name, words in SITUATIONS.items()},
                    "often": attach_often(build, options.times, folder)}
    document |= harness.provenance(build, others)
    rounds.put(RESULT, document)
    print(content_of(document))
    return 0


if __name__ == "__main__":
    script.entry(main)
