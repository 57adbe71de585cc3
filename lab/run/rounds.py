"""Measurements with many runs: the order of the candidates in a round, stored results, and the provenance of a result."""

import contextlib
import json
import re
from pathlib import Path

import harness
from lab.run import packed
from lab.run.runner import Failed


def turned(candidates, number):
    """Returns the order of the candidates in round `number`: each round begins with another candidate, and the order is reversed once
    all have been first."""
    candidates = list(candidates)
    if number // len(candidates) % 2:
        candidates.reverse()
    turn = number % len(candidates)
    return candidates[turn:] + candidates[:turn]


def sampled(candidates, rounds, measure, warm_up=0):
    """Measures the candidates in interleaved rounds. Returns {candidate: the results of measure(candidate) by round}. The first
    `warm_up` rounds do not count."""
    samples = {candidate: [] for candidate in candidates}
    for number in range(warm_up + rounds):
        for candidate in turned(candidates, number):
            try:
                samples[candidate].append(measure(candidate))
            except Failed as error:
                raise Failed(f"{candidate}: {error}") from error
    return {candidate: values[warm_up:] for candidate, values in samples.items()}


def put(target, document):
    """Writes a result. In the tree it is packed if it is long, and its stamp goes into the manifest. An interruption leaves the old
    file."""
    packed.write(target, json.dumps(packed.without_stamp(target, document), indent=1, ensure_ascii=False) + "\n")


def merged(file, rows, fresh, key, order):
    """Returns the rows of a stored result, in which the rows `fresh` replace those with the same `key`, sorted by `order`, a list of
    names."""
    stored = packed.document(file)[rows] if packed.is_there(file) else []
    by_name = {row[key]: row for row in [*stored, *fresh]}
    return [by_name[name] for name in order if name in by_name]


def machine():
    m = harness.machine()
    with contextlib.suppress(OSError):
        m["virtual"] = re.search(r"^flags\s*:.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.M) is not None
    return m


def origin(build):
    """Returns the provenance of a result: machine, compiler, commit, time."""
    return {"machine": machine(), "compiler": harness.compiler(build), "commit": harness.commit(), "date": harness.today()}


def machine_text(m):
    return f"{m['cpu']}, {m['cpus']} CPUs{', virtual machine' if m.get('virtual') else ''}, {m['kernel']}, {m['libc']}"
