#!/usr/bin/env python3
"""Runs the commands of README.md's sections "Get it" and "Use it", as printed there, in a clean clone of the last
commit, in a Debian 12 that debootstrap has just made. A command fails if its status is not 0, or if its output lacks
the first word of output that README shows. Must run as root; all files are below --folder. Mounts and processes are in
namespaces of their own, so that none is left.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
SECTIONS = ("Get it", "Use it")
CLONE = "root/usher"
# Preparations that README's text assumes: each is made before the first command that matches its pattern. They are the
# demo's program, a server, the package usher-check.
PRESUMED = ((r"\bsqlite_shared\b", "make demo-build && PATH=$PWD/build/demo/lab/programs:$PATH"),
            (r"\./server\b", "ln -s /bin/true server"),
            (r"^usher check\b", "make deb && apt-get install -y $PWD/build/dist/*.deb && PATH=/usr/bin:$PATH"))


def fail(why):
    sys.exit(f"front-door: {why}")


def commands(readme):
    """Returns (command, first word of the output that README shows, or None) for each command in the blocks of the
    sections."""
    found = []
    for section in SECTIONS:
        text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", readme, re.M | re.S)
        if text is None:
            fail(f"README.md has no section {section}")
        for language, block in re.findall(r"^```(sh|text)\n(.*?)^```", text[1], re.M | re.S):
            for line in block.splitlines():
                if language == "sh":
                    found.append((line, None))
                elif line.startswith("$ "):
                    found.append((line[2:], None))
                elif found[-1][1] is None and line.split():
                    found[-1] = (found[-1][0], line.split()[0])
    return found


def with_presumed(found):
    """Adds each of PRESUMED once."""
    done = set()
    for command, word in found:
        for pattern, preparation in PRESUMED:
            if preparation not in done and re.search(pattern, command):
                done.add(preparation)
                yield preparation, None
        yield command, word


def make_base(base, mirror):
    """Makes the system by debootstrap, once; each run uses a copy of it."""
    if (base / "made").exists():
        return
    shutil.rmtree(base, ignore_errors=True)
    base.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", base, mirror], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        fail(f"debootstrap failed:\n{done.stdout[-1000:]}")
    (base / "made").touch()


def make_root(folder, mirror):
    make_base(folder / "base", mirror)
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", folder / "base", root], check=True)
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    subprocess.run(["git", "-c", f"safe.directory={TREE}", "clone", "--quiet", "--no-hardlinks", TREE, root / CLONE], check=True)
    return root


def script(steps):
    """Yields a shell script that runs all commands in one shell, because they set PATH. It writes each command's
    output, status and seconds to files."""
    yield f"cd /{CLONE}; mkdir /results"
    for number, (command, _) in enumerate(steps):
        yield f"begin=$(date +%s); {{ eval {shlex.quote(command)}; }} < /dev/null > /results/{number} 2>&1"
        yield f"echo $? $(($(date +%s) - begin)) > /results/{number}.status"


def run_inside(root, steps, limit):
    """Runs the commands in the system. After the time limit all their processes are killed."""
    (root / "steps.sh").write_text("\n".join(script(steps)) + "\n", encoding="utf-8")
    there = shlex.quote(str(root))
    inside = (f"mount -t proc proc {there}/proc && mount --rbind /dev {there}/dev && mount --rbind /sys {there}/sys && "
              f"exec chroot {there} /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh /steps.sh")
    try:
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside], check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"front-door: the limit of {limit} s is over", flush=True)


def report(root, steps):
    """Prints the result of each command, and returns the number of commands that failed."""
    failed = 0
    for number, (command, word) in enumerate(steps):
        output, status = root / f"results/{number}", root / f"results/{number}.status"
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        code, seconds = map(int, status.read_text(encoding="ascii").split()) if status.exists() else (None, None)
        why = ("it did not end" if code is None else f"status {code}" if code else
               f"its output has no '{word}'" if word and word not in text.split() else "")
        print(f"{'FAIL' if why else 'ok  '} {'' if seconds is None else seconds:>5} s  {command}{': ' + why if why else ''}")
        if why:
            failed += 1
            print(*text.splitlines()[-20:], sep="\n")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=TREE / "build/front-door")
    parser.add_argument("--mirror", default=os.environ.get("MIRROR", "http://deb.debian.org/debian"))
    parser.add_argument("--limit", type=int, default=3300, help="seconds for all commands (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    parser.add_argument("--keep", action="store_true", help="keep the root, to look into it")
    options = parser.parse_args()
    if options.list:
        print(*(command for command, _ in with_presumed(commands((TREE / "README.md").read_text(encoding="utf-8")))), sep="\n")
        return 0
    if os.geteuid() != 0:
        fail("chroot needs root")
    begin = time.monotonic()
    root = make_root(options.folder.resolve(), options.mirror)
    steps = list(with_presumed(commands((root / CLONE / "README.md").read_text(encoding="utf-8"))))
    run_inside(root, steps, options.limit)
    failed = report(root, steps)
    if not options.keep:
        shutil.rmtree(root)
    print(f"{time.monotonic() - begin:.0f} s in all")
    print(f"{len(steps) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
