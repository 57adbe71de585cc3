"""The facts of a release that all kinds of packages need: its version, date, commit and architecture."""

import dataclasses
import pathlib
import platform
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # the kernel's name, as in file names
    debian: str
    loader: str
    elf_machine: int
    processor: str  # in texts
    toolchain: pathlib.Path | None = None  # CMake's toolchain file, used on another machine


ARCHITECTURES = {a.name: a for a in (
    Architecture("x86_64", "amd64", "ld-linux-x86-64.so.2", 62, "x86-64"),
    Architecture("aarch64", "arm64", "ld-linux-aarch64.so.1", 183, "AArch64 (experimental: run under emulation only)",
                 TREE / "cmake/aarch64.cmake"))}


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    epoch: int  # seconds; the time stamp of every file in every package
    commit: str
    architecture: Architecture
    tree: pathlib.Path = TREE


def git(*arguments):
    """Runs git, also in a clone that belongs to another user, as with sudo or in a container. This permits nothing new:
    `make` runs the clone's Makefile in any case."""
    done = subprocess.run(["git", "-c", f"safe.directory={TREE}", "-C", TREE, *arguments], check=False, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"usher: release: git does not say which commit this is: {done.stderr.strip()}: run make in a git clone")
    return done.stdout.strip()


def of_this_tree(architecture=platform.machine()):
    """Returns the release that the checked-out commit makes, for an architecture. Its date is that of the commit, so
    that each build has the same bytes."""
    header = (TREE / "include/usher/version.h").read_text(encoding="ascii")
    version = re.search(r'#define USHER_VERSION "(.*)"', header)[1]
    return Release(version, int(git("log", "-1", "--format=%ct")), git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"),
                   ARCHITECTURES[architecture])
