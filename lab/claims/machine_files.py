"""Identifies the simulated machine of a result by the digest that `usher sim` writes as machine_hash: the SHA-256 of the values in the
machine's file. Sources, comments and layout of the file do not count. lab/tests/commands/test_sim.py compares this digest with that of `usher
sim` for all machines."""

import hashlib
import json
import tomllib


def values(table):
    if isinstance(table, dict):
        return {key: values(value) for key, value in table.items() if key != "source"}
    return [values(item) for item in table] if isinstance(table, list) else table


def digest(file):
    return hashlib.sha256(json.dumps(values(tomllib.loads(file.read_text())), sort_keys=True).encode()).hexdigest()
