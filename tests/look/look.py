"""What the tests of `usher top` share: they look at a process and read the report.

How the command is called stands here only. USHER_TOP names another command than BUILD/bin/usher_stat top.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

TREE = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "programs"
LIMIT = 120  # seconds for one look; a busy machine is slow
MOST_LINES, MOST_COLUMNS = 60, 80


def top_command(build):
    given = os.environ.get("USHER_TOP")
    return shlex.split(given) if given else [str(Path(build).resolve() / "bin" / "usher_stat"), "top"]


def page_options(pid, report, seconds):
    """One page of text, and the same look as JSON in a file."""
    return ["--once", "--json", str(report), *(["--duration", str(seconds)] if seconds else []), str(pid)]


def live_options(pid):
    """Looks twenty times a second and writes a table each second, until it is ended."""
    return ["--batch", "1000000", "--period", "1", str(pid)]


def schema():
    """Returns the validator of docs/schema/top.json, or None without the file or jsonschema."""
    file = TREE / "docs" / "schema" / "top.json"
    return jsonschema and file.exists() and jsonschema.Draft202012Validator(json.loads(file.read_text())) or None


@dataclass
class Look:
    """One look: exit status, page, report. `report` is None if there is none, `trouble` then says why."""

    status: int
    page: str
    error: str
    report: dict
    trouble: str
    began: int  # CLOCK_MONOTONIC, ns
    ended: int


def look_at(top, pid, seconds=None, limit=LIMIT):
    """Runs the command once, with a time limit."""
    with tempfile.TemporaryDirectory(prefix="usher-look-") as folder:
        file = Path(folder) / "top.json"
        began = time.monotonic_ns()
        try:
            done = subprocess.run([*top, *page_options(pid, file, seconds)], stdin=subprocess.DEVNULL, capture_output=True, timeout=limit,
                                  check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80"})
            status, page, error = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            status, page, error = 124, late.stdout or b"", late.stderr or b""
        ended = time.monotonic_ns()
        report, trouble = None, ""
        try:
            report = json.loads(file.read_bytes().decode())
        except OSError:
            trouble = "no report"
        except ValueError as bad:  # also of text that is not UTF-8
            trouble = f"the report is no JSON: {bad}"
    if status == 124:
        trouble = f"no end after {limit} s"
    elif status < 0:
        trouble = f"ended by signal {-status}"
    page, bad = decoded(page)
    return Look(status, page, error.decode(errors="replace"), report, trouble or bad, began, ended)


def decoded(page):
    try:
        return page.decode(), ""
    except UnicodeDecodeError as bad:
        return page.decode(errors="replace"), f"the page is no UTF-8: {bad}"


ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # colours only


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def hostile_characters(text):
    """Returns the characters of a text that a terminal takes for more than a letter: control characters, and those that
    change the direction of writing or end a line."""
    return sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and
                   (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(c) in TURNS or c in "\u061c\u200e\u200f")})


def errors_of_page(page):
    """Returns sentences about a page that does not fit, or that has characters which it must escape."""
    lines, found = page.splitlines(), []
    if len(lines) > MOST_LINES:
        found.append(f"{len(lines)} lines, more than {MOST_LINES}")
    widest = max(map(width, lines), default=0)
    if widest > MOST_COLUMNS:
        found.append(f"a line of {widest} columns, more than {MOST_COLUMNS}: {max(lines, key=width)[:100]!r}")
    if bad := hostile_characters(page):
        found.append(f"characters that are not escaped: {' '.join(bad)}")
    return found


def functions(stack):
    return [frame["function"] or "" for frame in (stack or {}).get("frames") or []]


def has_function(stack, name):
    """Whether a frame is in this function. A name in the report may have a namespace, a hash and arguments."""
    return any(re.search(rf"(^|[^\w]){re.escape(name)}($|[^\w])", f) for f in functions(stack))


def own(holder_or_waiter, key="tid"):
    """The id in the process's own PID namespace, where the report has another."""
    return holder_or_waiter.get(f"own_{key}", holder_or_waiter.get(key))
