"""Identifies the code that computed a row, by a digest of the sources from which the row's simulation is compiled: the simulator, the
row's programs, the headers of its locks, and all files that these include. Comments, layout, and the folders of files do not count."""

import functools
import hashlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: F401 (adds tools to the path)
import catalog

TREE = Path(__file__).resolve().parents[2]
SIMULATOR, PROGRAMS = Path("lab", "sim"), Path("lab", "bench", "programs")
# Files that include all locks of the simulator, and files that have no effect on the result of a point.
OF_ALL_LOCKS = {"variants.cpp", "artifact_locks.hpp"}
DECIDES_NOTHING = {"speed.cpp", "trace.cpp", "trace.hpp", "sha256.cpp", "sha256.hpp", "suggestion.hpp", "version.h"}
FOLDERS = (Path("."), Path("include"), SIMULATOR, PROGRAMS)
# The sources that convert options to points and results to JSON, and the template of a lock's translation unit.
AROUND = [Path("lab", "commands", "sim.cpp"), SIMULATOR / "lock.cpp.in"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.S)
SUMMARY = re.compile(r'\.summary\s*=\s*(?:"(?:\\.|[^"\\\n])*"\s*)+')  # the summary of a lock, which `usher list` shows


def code(text):
    """Returns the text without comments, locks' summaries and includes of the tree, and with one space in place of each white space."""
    return " ".join(INCLUDE.sub("", SUMMARY.sub("", COMMENT.sub(lambda m: m.group(1) or " ", text))).split())


@functools.cache
def code_of(file):
    return code((TREE / file).read_text())


@functools.cache
def included(file):
    """Returns the files of the tree that this file includes."""
    found = set()
    for name in INCLUDE.findall((TREE / file).read_text()):
        for folder in (file.parent, *FOLDERS):
            if (TREE / folder / name).is_file():
                found.add(Path(folder, name))
                break
    return found


def with_included(files, leave_out=lambda file: False):
    found, new = set(), set(files)
    while new:
        found |= new
        new = {f for file in new for f in included(file) if not leave_out(f)} - found
    return found


@functools.cache
def programs():
    """Returns the header of each program."""
    found = {}
    for file in (TREE / PROGRAMS).glob("*.hpp"):
        if name := re.search(r'\{\.name = "([\w-]+)"', file.read_text()):
            found[name.group(1)] = file.relative_to(TREE)
    return found


@functools.cache
def headers():
    return {lock.name: Path("include", "usher", "locks", lock.header) for lock in catalog.locks()}


def is_program_or_lock(file):
    return file in programs().values() or file.name in ("all.hpp", *OF_ALL_LOCKS, *DECIDES_NOTHING) or file in headers().values()


def simulator():
    own = {f.relative_to(TREE) for f in (TREE / SIMULATOR).glob("*.cpp") if f.name not in OF_ALL_LOCKS | DECIDES_NOTHING}
    own |= {f.relative_to(TREE) for f in (TREE / "lab" / "sweep").glob("point*")}
    return with_included(own, is_program_or_lock) | set(AROUND)


def files_of(workloads, locks):
    """Returns the files from which points of these programs and locks are computed."""
    files = {programs()[w] for w in workloads}
    for lock in locks:
        # A lock that is not in the catalogue is defined by the simulator itself.
        files.add(headers().get(catalog.family(lock), SIMULATOR / "variants.cpp"))
    found = simulator() | {f for f in with_included(files) if f.name not in DECIDES_NOTHING}
    others = {f.with_suffix(".cpp") for f in found - {SIMULATOR / "artifact_locks.hpp"} if f.suffix == ".hpp"}
    return found | {f for f in others if (TREE / f).is_file()}


def digest(workloads, locks):
    whole = hashlib.sha256()
    for file in sorted(files_of(workloads, locks), key=lambda file: (file.name, code_of(file))):
        whole.update(f"{file.name}\0{code_of(file)}\0".encode())
    types = {lock.name: lock.type for lock in catalog.locks()}
    for lock in sorted({catalog.family(lock) for lock in locks}):
        whole.update(f"{lock}\0{types.get(lock)}\0".encode())
    return whole.hexdigest()
