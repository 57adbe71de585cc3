"""Reads the files of `usher record`, whose format docs/predict.md describes. The tests compare the content with figures
that they know.
"""

import struct
from collections import namedtuple
from pathlib import Path

ACTIONS = ("lock try_lock_failed unlock wait wait_timed_out signal broadcast semaphore_wait semaphore_post read_lock write_lock "
           "read_write_unlock barrier_wait join start end").split()
KINDS = "mutex recursive_mutex condition semaphore read_write_lock barrier thread".split()

Event = namedtuple("Event", "what object other work away wait aside")
Stream = namedtuple("Stream", "thread begins events begins_in_call unfinished")
Window = namedtuple("Window", "begins length lost streams")
Object = namedtuple("Object", "kind site name thread")
Recording = namedtuple("Recording", "cpus processor c_library lock call_ns between_ns transfer_ns wake_ns objects roles windows")


class Reader:
    def __init__(self, content):
        self.content, self.at = content, 0

    def bytes(self, n):
        self.at += n
        return self.content[self.at - n:self.at]

    def byte(self):
        return self.bytes(1)[0]

    def number(self):
        n = shift = 0
        while True:
            b = self.byte()
            n |= (b & 0x7f) << shift
            if b < 0x80:
                return n
            shift += 7

    def text(self):
        return self.bytes(self.number()).decode()

    def real(self):
        return struct.unpack("<d", self.bytes(8))[0]


def read(path):
    r = Reader(Path(path).read_bytes())
    assert r.bytes(8) == b"usherrec" and r.number() == 2
    machine = [r.number(), r.text(), r.text(), r.text(), r.real(), r.real(), r.real(), r.real()]
    objects = []
    for _ in range(r.number()):
        kind, site, name = KINDS[r.byte()], r.number(), r.text()
        objects.append(Object(kind, site, name, r.number() - 1 if kind == "thread" else None))
    roles = {}
    for _ in range(r.number()):
        thread = r.number()
        roles[thread] = r.text()
    last = None

    def event():
        nonlocal last
        first = r.byte()
        what = ACTIONS[first & 15]
        if what != "end" and not first & 0x40:
            last = r.number()
        other = r.number() if what.startswith("wait") else None
        return Event(what, None if what == "end" else last, other, r.number(), r.number() if first & 0x10 else 0,
                     r.number() if first & 0x20 else 0, r.number() if first & 0x80 else 0)

    windows = []
    for _ in range(r.number()):
        begins, length, lost, streams = r.number(), r.number(), r.number(), []
        for _ in range(r.number()):
            flags, thread, begin, last = r.byte(), r.number(), r.number(), None
            events = [event() for _ in range(r.number())]
            streams.append(Stream(thread, begin, events, bool(flags & 1), event() if flags & 2 else None))
        windows.append(Window(begins, length, lost, streams))
    assert r.at == len(r.content)
    return Recording(*machine, objects, roles, windows)


def main():
    import sys
    from collections import Counter
    from statistics import median
    for path in sys.argv[1:]:
        r = read(path)
        print(path, r[:8], r.objects[:20], r.roles)
        for w in r.windows[:3] + r.windows[-1:]:
            print(f" window {w.begins / 1e6:.1f} ms, {w.length / 1e6:.2f} ms, lost {w.lost}")
            for s in w.streams:
                counts = Counter(e.what for e in s.events)
                print("   thread", s.thread, "begins", s.begins, dict(counts), "in call" if s.begins_in_call else "", s.unfinished or "")
                total = sum(e.work + e.away + e.wait + e.aside for e in s.events) + (sum(s.unfinished[3:]) if s.unfinished else 0)
                print("      sum", total + s.begins, "work", sum(e.work for e in s.events), "away", sum(e.away for e in s.events),
                      "wait", sum(e.wait for e in s.events))
                for what in counts:
                    works = [e.work for e in s.events if e.what == what]
                    print("     ", what, "work median", median(works), "max", max(works), "wait median",
                          median(e.wait for e in s.events if e.what == what))


if __name__ == "__main__":
    main()
