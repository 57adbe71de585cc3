#!/usr/bin/env python3
"""Draws passages for a reader's test: comments and paragraphs that an engineer who has not seen the tree judges.

The reader marks each passage as understood at first reading, or not. The seed is the hash of the last commit, so that
nobody selects the passages, and the same ones can be drawn again.
"""

import argparse
import random
import re
import subprocess
import sys

CODE = (".hpp", ".h", ".cpp", ".c", ".py", ".cmake", ".txt")
LEAST_WORDS = 6


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, text=True, capture_output=True).stdout.strip()


def comments(lines, mark):
    """Yields blocks of whole-line comments: (line number, text, the code line below)."""
    block, begin = [], 0
    for number, line in enumerate([*lines, ""], 1):
        found = re.match(rf"\s*{mark}+[/!<]*\s?(.*)", line)
        if found and not line.startswith("#!"):
            begin = begin or number
            block.append(found[1])
        elif block:
            yield begin, "\n".join(block), line.strip()
            block, begin = [], 0


def paragraphs(text):
    """Yields the paragraphs and lists of a page, without headings, tables, code samples, pictures and HTML markers."""
    fenced, number = False, 1
    for part in re.split(r"\n\s*\n", text):
        odd = part.count("```") % 2 == 1
        prose = re.sub(r"(?m)^\s*(<!--.*?-->|<a id=.*?</a>|<img.*>)\s*$\n?", "", part)
        if not fenced and not odd and not prose.startswith("    ") and not prose.lstrip().startswith(("|", "#", "```")):
            yield number, prose.strip(), ""
        fenced ^= odd
        number += part.count("\n") + 2


def passages():
    for path in git("ls-files", "*.md", *("*" + end for end in CODE)).splitlines():
        if "/data/" in path or "/results/" in path:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        kind = paragraphs(text) if path.endswith(".md") else comments(
            text.splitlines(), "//" if path.endswith(CODE[:4]) else "#")
        for number, passage, below in kind:
            if len(passage.split()) >= LEAST_WORDS:
                yield path, number, passage, below


def by_room(drawable, least=100):
    """Returns {top folder: passages}. Folders with few passages together are one room."""
    rooms = {}
    for passage in drawable:
        rooms.setdefault(passage[0].split("/")[0], []).append(passage)
    small = [room for room in rooms if len(rooms[room]) < least]
    rooms["other"] = [passage for room in small for passage in rooms.pop(room)]
    return rooms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", default=git("rev-parse", "HEAD"), help="default: the hash of the last commit")
    arguments = parser.parse_args()
    rooms = by_room(passages())
    draw = random.Random(arguments.seed)
    share = -(-arguments.count // len(rooms))  # the same number from each room: small rooms are read, too
    drawn = [p for room in sorted(rooms) for p in draw.sample(rooms[room], min(share, len(rooms[room])))]
    for index, (path, number, passage, below) in enumerate(drawn[:arguments.count], 1):
        print(f"## {index}  {path}:{number}\n\n{passage}\n")
        if below:
            print(f"    {below}\n")
    print(f"seed {arguments.seed}, {min(arguments.count, len(drawn))} passages", file=sys.stderr)


if __name__ == "__main__":
    main()
