"""A tree of Usher with a page, and files that a hostile author wrote, for the tests of `usher report`."""

import json
import os
import pathlib
import shutil
import subprocess

LIMIT = 120

# Each is a name of a function, thread, file or lock that wants to be more than text.
HOSTILE = (
    "</script><script>document.title='taken'</script>",
    "<!--<script>", "-->", "<img src=x onerror=\"document.title='taken'\">", "<svg/onload=document.title='taken'>",
    "&lt;b&gt;&#60;", "${document.title='taken'}", "javascript:document.title='taken'",
    "\u202eevitcefed\u202c \u2066x\u2069 \u200f\u061c", "line\u2028separator\u2029", "\x00\x1b[31mred\x07\x7f\u0085",
    "\u200b\u2060\ufeff\U000e0041", "z" + "\u0301" * 400, "שלום مرحبا", "A" * 10_000, "'\"`\\", "__proto__", "constructor",
)


class Tree:
    """usher and usher_stat in a folder of their own, with the template as their page; None: without a page."""

    def __init__(self, folder, template):
        self.folder = pathlib.Path(folder)
        (self.folder / "bin").mkdir()
        for program in (os.environ["USHER_BIN"], os.environ["USHER_STAT_BIN"]):
            shutil.copy(program, self.folder / "bin")
        if template is not None:
            place = self.folder / "share/usher/report.html"
            place.parent.mkdir(parents=True)
            place.write_text(template, encoding="utf-8")

    def report(self, *words):
        return subprocess.run([self.folder / "bin/usher", "report", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, check=False, cwd=self.folder)

    def write(self, name, value):
        file = self.folder / name
        file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return file


def frame(name, **more):
    return {"function": name, "file": "/src/" + name[:300], "line": 7, "module": "/bin/" + name[:300], "offset": "0x10", "address": "0x1000", "inlined": False} | more


def stack(*names, waited=1.0):
    return {"count": 3, "waited": waited, "frames": [frame(name) for name in names], "cut": False}


def durations(total, **more):
    return {"count": 3, "total": total, "median": total / 3, "p99": total / 2, "longest": total / 2,
            "histogram": [[1e-6, 2e-6, 1], [1e-3, 2e-3, 5]]} | more


def stat_row(name, waited, kind="mutex", **more):
    return {"kind": kind, "name": name, "rule": "hot", "verdict": "hot: " + name, "command": None, "module": "/bin/" + name[:300],
            "place": {"frames": [frame(name)], "cut": False}, "by_init": False, "embedded": False, "first_locked": None, "objects": 1, "gone": 0,
            "acquisitions": 100, "contended": 10, "waiting": durations(waited, hidden=False), "most_waiting": 2, "still_waiting": 0, "timeouts": 0,
            "failed_tries": 0, "tries": {"count": 0, "total": 0, "longest": 0}, "holding": durations(waited / 2, exact=True, timed=3, yielding=0),
            "held_share": 0.5, "ways": None, "threads": [{"tid": 7, "waits": 3, "waited": waited}], "more_threads": False, "order": None,
            "holders": [stack("release", name, "main", waited=waited / 2)], "waiters": [stack("lock", name, "main", waited=waited)], "each": []} | more


def stat_report(rows, **more):
    return {"version": 1, "usher": "0.3.0", "command": ["program"], "pid": 12, "lock": "pthread", "seconds": 10.0, "processes": 1, "threads": 4,
            "thread_seconds": 40.0, "waited": {"mutex": 9.0, "join": 1.0}, "rule": "hot-mutex", "verdict": "threads waited", "next": None,
            "deadlocks": [], "attached": None, "others_cpu_share": 0.1, "asleep": None, "cpu": None, "not_seen": {"calls": 0, "threads": 0},
            "counting": {"exact_up_to": 4096, "then_one_in": 16}, "remarks": [], "rows": rows} | more


def hostile_report():
    rows = [stat_row(name, 10.0 - i / 4) for i, name in enumerate(HOSTILE)]
    circle = {"seconds": 3.0, "threads": [{"tid": 7 + i, "waits_for": name, "address": "0x10", "stack": {"frames": [frame(name)], "cut": True}}
                                          for i, name in enumerate(HOSTILE)]}
    return stat_report(rows, command=list(HOSTILE), verdict=" ".join(HOSTILE), next=HOSTILE[0], remarks=list(HOSTILE), usher=HOSTILE[3],
                       lock=HOSTILE[3], deadlocks=[circle], windows={"ends": [5.0, 10.0], "thread_seconds": [1, 1]},
                       asleep={"samples": 9, "observations": 9, "recorded": {HOSTILE[0]: 3}, "unreadable": 0, "of_a_part": False,
                               "places": [{"call": name, "module": name, "certain": True, "samples": 1, "stack": {"frames": [frame(name)], "cut": False},
                                           "below": {"frames": [], "cut": False}} for name in HOSTILE]})


def top_report(name="queue_lock"):
    """As docs/schema/top.json says: a circle of two threads."""
    stacks = {"frames": [frame("lock_both"), frame("main")], "cut": False, "uncertain_from": None}
    waits = [{"what": "mutex", "library": "glibc", "kind": "recursive", "name": f"{name} {i}", "address": "0x10", "module": "/bin/x", "offset": "0x10", "known_by": "its words",
              "call": "futex", "descriptor": None, "words": "2 1 7", "free": False, "unchanged": 3.0,
              "holder": {"tid": 8 - i, "pid": None, "thread": f"worker{1 - i}", "state": "S", "running": False, "does": "waits", "confirmed": True, "waited": 3.0, "stack": stacks},
              "waiters": [{"tid": 7 + i, "thread": f"worker{i}", "side": None, "waited": 3.0, "time_limit": False, "confirmed": True, "stack": stacks}],
              "samples": 60, "waited": 3.0, "most_waiting": 1, "place": stacks} for i in range(2)]
    return {"format": "usher_top", "version": 1, "usher": "0.3.0", "command": ["program"], "process": "program", "pid": 6, "looked": "from outside", "lock": None, "libc": "libc.so.6",
            "date": "2026-01-01T00:00:00Z", "machine": "Linux, 2 CPUs", "seconds": 3.0, "period": 0.05, "passes": 60, "threads_seen": 3, "of_a_part": False,
            "cost": {"cpu_seconds": 0.01, "cpu_share": 0.003}, "stacks_left_out": 0,
            "findings": [{"what": "circle", "text": "two threads wait for each other", "seconds": 3.0, "threads": [7, 8], "waits": [0, 1]}],
            "chains": [{"circle": True, "seconds": 3.0, "links": [{"tid": 7 + i, "thread": f"worker{i}", "does": "waits", "wait": i, "address": "0x10"} for i in range(2)]}],
            "waits": waits, "threads": [{"tid": 7 + i, "name": f"worker{i}", "state": "S", "does": "waits", "wait": i, "waited": 3.0, "cpu_seconds": 0.1} for i in range(2)],
            "doing": [{"does": "waits for a mutex", "threads": 2}], "remarks": []}
