"""The identity of a result's simulated machine: a digest of the values in its machine file. Sources, comments and layout do not
count."""

import hashlib
import json
import tomllib


def values(table):
    if isinstance(table, dict):
        return {key: values(value) for key, value in table.items() if key != "source"}
    return [values(item) for item in table] if isinstance(table, list) else table


def digest(file):
    return hashlib.sha256(json.dumps(values(tomllib.loads(file.read_text())), sort_keys=True).encode()).hexdigest()
