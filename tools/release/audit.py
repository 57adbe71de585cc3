"""Checks that the installed programs and libraries run with the oldest C library that a release names."""

import pathlib
import re
import subprocess

from tools.release.release import ARCHITECTURES, TREE

OLDEST = (2, 28)
MAPPED = "/usher"  # -ffile-prefix-map in check/engine/CMakeLists.txt
# The libraries that each glibc from OLDEST on contains. Since 2.34, libpthread.so.0 and libdl.so.2 are empty.
C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"} | {
    a.loader for a in ARCHITECTURES.values()}
# These are loaded into programs without threads, which must not get libpthread.so.0: see library/preload/thread_functions.h.
PRELOADED = {"libusher.so", "libusher-all.so", "libusher-stat.so"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, text=True, capture_output=True).stdout


def elf_machine(path):
    """Returns the processor's number in an ELF file, or None if the file is no ELF file."""
    with open(path, "rb") as file:
        head = file.read(20)
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else None


def names_folder(content, folder):
    """Returns whether the content has a path that begins with the folder. The checker's sources are in MAPPED, in
    whichever folder they were compiled."""
    return folder != MAPPED and re.search(rb"(?<![\w./-])" + re.escape(folder.encode()) + rb"[/\0]", content) is not None


def errors_of(path):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic := readelf("-d", path)))
    if strangers := needed - C_LIBRARY:
        yield f"needs {', '.join(sorted(strangers))}"
    if path.name in PRELOADED and "libpthread.so.0" in needed:
        yield "needs libpthread.so.0, which a program without threads does not have"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "has a search path for libraries"
    if names_folder(path.read_bytes(), str(TREE)):
        yield "names a folder of the build"
    needs = readelf("-V", path).partition("Version needs")[2]
    for version in sorted(set(re.findall(r"Name: (\S+)", needs))):
        number = re.fullmatch(r"GLIBC_([0-9.]+)", version)
        if number is None or tuple(int(n) for n in number[1].split(".")) > OLDEST:
            yield f"needs {version}"
    for name in re.findall(r"GLOBAL +DEFAULT +UND +([^@\s]+)$", readelf("--dyn-syms", path), re.MULTILINE):
        yield f"needs {name}, which the oldest C library may lack"


def errors(stage, architecture):
    """A line for each error."""
    machines = {f: elf_machine(f) for f in sorted(pathlib.Path(stage).rglob("*")) if f.is_file() and not f.is_symlink()}
    files = {f: machine for f, machine in machines.items() if machine is not None}
    if not files:
        return [f"{stage} has no programs"]
    others = [f"{f.relative_to(stage)} is not for {architecture.name}" for f, machine in files.items() if machine != architecture.elf_machine]
    return others + [f"{f.relative_to(stage)} {error}" for f in files for error in errors_of(f)]
