"""Points of `usher sim` for a script."""

import json
import subprocess
import tempfile
from pathlib import Path

from lab.run.runner import Failed

LIMIT = 1200


def points(build, program, machine, locks, threads, seeds, settings, changes=None, options=()):
    """Returns the points of a sweep as `usher sim --json` writes them. `settings` are the program's, `changes` the machine's."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "points.json"
        command = [str(build.usher), "sim", program, "--machine", machine, "--locks", ",".join(locks), "--threads", ",".join(map(str, threads)),
                   "--seeds", str(seeds), "--quiet", "--json", str(file), *options]
        for option, values in ("--set", settings), ("--set-machine", changes or {}):
            for key, value in values.items():
                command += [option, f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(file.read_text())["points"]
