"""The facts of a release that all packages share."""

import dataclasses
import pathlib
import re
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    epoch: int  # seconds; the time stamp of every file in every package
    commit: str
    tree: pathlib.Path = TREE


def git(*arguments):
    return subprocess.run(["git", "-C", TREE, *arguments], check=True, text=True, capture_output=True).stdout.strip()


def of_this_tree():
    """The release that the checked-out commit makes. Its date is the commit's, so that each build has the same bytes."""
    header = (TREE / "include/usher/version.h").read_text(encoding="ascii")
    version = re.search(r'#define USHER_VERSION "(.*)"', header)[1]
    return Release(version, int(git("log", "-1", "--format=%ct")), git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"))
