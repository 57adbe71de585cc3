"""Checks `usher predict` on programs with known answers: each runs on a simulated machine, is recorded there with few threads, and is
simulated with more threads and other locks, as itself and as a replay of the recording. Writes lab/results/replayed.json and the table of
docs/predict.md.

  python3 -m lab.cases.replayed                      all programs; half an hour on two CPUs
  python3 -m lab.cases.replayed --only mutex-short   some; the others' results stay
  python3 -m lab.cases.replayed --write-doc          set the results into docs/predict.md; runs nothing

The list, the parameters, the metrics and the bars below were committed before the first run of any program of the list.

The recording is of 10 ms under `futex`, with the list's number of threads. A point is a lock and a number of threads. Its value is the
number of lock operations a second, the median of three seeds; the prediction is the median over three seeds and both limits of the moved
lines. The runs of the program and of its replay are equally long.

Bars: the prediction of each point is within 5 % of the program's value, and of two locks of one program and number of threads whose values
differ by 10 % or more, the faster is predicted to be the faster."""

import concurrent.futures
import itertools
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import TREE, between_markers, die
from lab.run import script

RESULT = TREE / "lab/results/replayed.json"
PAGE = TREE / "docs/predict.md"
LIMIT = 1200
BAR, ORDER_FROM = 0.05, 0.10
LOCKS = "futex,steady,loiter-park,mcs,twa,mcscr"
THREADS = {"x5-2": "2,8,32,72", "epyc-zen4-vm-2": "2,8,32"}


@dataclass
class Program:
    name: str
    title: str
    program: str
    set: dict = field(default_factory=dict)
    recorded: int = 2  # threads
    machine: str = "x5-2"
    threads: str = ""


PROGRAMS = [
    Program("mutex-short", "MutexBench: 4 steps inside, up to 200 outside", "mutexbench"),
    Program("mutex-long", "MutexBench: 200 inside, up to 2000 outside", "mutexbench", {"cs": 200, "ncs": 2000}),
    Program("mutex-only", "MutexBench: 20 inside, nothing outside", "mutexbench", {"cs": 20, "ncs": 0}),
    Program("mutex-seldom", "MutexBench: 20 inside, up to 20000 outside", "mutexbench", {"cs": 20, "ncs": 20000}),
    Program("mutex-shared", "MutexBench with a shared generator: sections move lines", "mutexbench", {"shared": 1, "cs": 20, "ncs": 400}),
    Program("interlock", "one of 64 locks, drawn anew each time", "interlock", {"locks": 64}),
    Program("throwing", "a list that each section reorders", "throwing"),
    Program("keymap", "lookups in a map larger than the caches", "keymap"),
    Program("stripes", "8 locks, half of all sections under one of them", "mixed", {"locks": 8, "hot": 500}),
    Program("two-lengths", "one section in twenty is twenty times as long", "mixed", {"long": 50}),
    Program("nested", "two of 8 locks at once, in their order", "mixed", {"locks": 8, "nested": 300}),
    Program("sleeping", "sleeps of about 36 µs between sections", "mixed", {"sleeps": 100000}),
    Program("neighbours", "16 locks, each used by two threads of eight", "mixed", {"locks": 16, "own": 1}, recorded=8),
    Program("queue", "bounded queue, one consumer for a producer", "bounded_queue", recorded=4),
    Program("queue-outside", "the same, signals after the unlock", "bounded_queue", {"outside": 1}, recorded=4),
    Program("queue-starved", "three consumers for a slow producer", "bounded_queue", {"kinds": 4, "produces": 6000}, recorded=4),
    Program("jobs", "8 jobs in a queue; each worker puts its job back", "job_queue", recorded=4),
    Program("rounds", "a leader opens rounds for all workers, by a broadcast", "rounds", recorded=4),
    Program("connections", "a semaphore of three, and a counted lock", "connections", recorded=4),
    Program("readers", "a read-write lock, one write in twenty, and a lock", "readers"),
    Program("vm-short", "MutexBench as above, on two CPUs", "mutexbench", machine="epyc-zen4-vm-2"),
    Program("vm-long", "MutexBench: 200 inside, up to 2000 outside, on two CPUs", "mutexbench", {"cs": 200, "ncs": 2000},
            machine="epyc-zen4-vm-2"),
    Program("vm-sleeping", "sleeps of about 50 µs, on two CPUs", "mixed", {"sleeps": 180000}, machine="epyc-zen4-vm-2"),
    Program("vm-queue", "bounded queue, on two CPUs", "bounded_queue", recorded=4, machine="epyc-zen4-vm-2", threads="4,8,32"),
]
