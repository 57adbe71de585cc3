"""Measurements of many runs: the order of the candidates in a round, stored results, and where a result was measured."""

import contextlib
import json
import re
from pathlib import Path

import harness
from lab.run import packed
from lab.run.runner import Failed


def turned(candidates, number):
    """Returns the order of round `number`: another first candidate in each, reversed once all have been first."""
    candidates = list(candidates)
    if number // len(candidates) % 2:
        candidates.reverse()
    turn = number % len(candidates)
    return candidates[turn:] + candidates[:turn]


def sampled(candidates, rounds, measure, warm_up=0):
    """Returns {candidate: its measure(candidate) of each round}, from interleaved rounds; those of `warm_up` do not count."""
    samples = {candidate: [] for candidate in candidates}
    for number in range(warm_up + rounds):
        for candidate in turned(candidates, number):
            try:
                samples[candidate].append(measure(candidate))
            except Failed as error:
                raise Failed(f"{candidate}: {error}") from error
    return {candidate: values[warm_up:] for candidate, values in samples.items()}


def put(target, document):
    """Writes a result; in the tree, packed if it is long, and its stamp into the manifest. An interruption leaves a file as it was."""
    packed.write(target, json.dumps(packed.without_stamp(target, document), indent=1, ensure_ascii=False) + "\n")


def merged(file, rows, fresh, key, order):
    """Returns the rows of a stored result after `fresh` have replaced those of the same `key`, in the order of the names
    `order`."""
    stored = packed.document(file)[rows] if packed.is_there(file) else []
    by_name = {row[key]: row for row in [*stored, *fresh]}
    return [by_name[name] for name in order if name in by_name]


def machine():
    m = harness.machine()
    with contextlib.suppress(OSError):
        m["virtual"] = re.search(r"^flags\s*:.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.M) is not None
    return m


def origin(build):
    """Returns the origin of a result: machine, compiler, commit, time."""
    return {"machine": machine(), "compiler": harness.compiler(build), "commit": harness.commit(), "date": harness.today()}


def machine_text(m):
    return f"{m['cpu']}, {m['cpus']} CPUs{', virtual machine' if m.get('virtual') else ''}, {m['kernel']}, {m['libc']}"
