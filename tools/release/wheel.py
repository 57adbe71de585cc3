"""A Python wheel: the installed tree below usher_locks/_tree, and the module of packaging/python.

A wheel has no links: pip would install a copy for each. So each library is there once, under the name by which programs
find it. Projects in C and C++ take the archive or the Debian packages: the wheel has neither the static library, with
which it would exceed 6 MB, nor the files for CMake and pkg-config, which refer to that library and to the links.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tools.release import archive

PLATFORM = "manylinux_2_28_{}"  # audit.OLDEST
PYTHON = "/usr/bin/python3"  # Debian's, for which python3-wheel is installed
LIBRARIES = {"lib/libusher.so", "lib/libusher-all.so", "lib/libusher-stat.so"}
C_INTERFACE = "lib/libusher-locks.so.0"
MODULE = ("__init__.py", "__main__.py", "_locks.py", "py.typed")
PROGRAMS = {"bin/usher", "libexec/usher/usher_stat", "libexec/usher/usher_bench"}
# Files that the wheel lacks. (The checker has a package of its own.)
LEFT_OUT = re.compile(
    r"lib/(cmake/|pkgconfig/|libusher_locks\.a$|libusher-locks\.so)|libexec/usher/(usher_check|mutants/)")
# Folders whose files are also installed into the virtual environment, where man and the shells look for them.
FOR_THE_ENVIRONMENT = ("share/man/", "share/bash-completion/", "share/zsh/")


def fail(why):
    sys.exit(f"usher: release: wheel: {why}")


def tree_of(stage):
    """Returns the files of the installed tree that the wheel contains."""
    files = {C_INTERFACE: (stage / C_INTERFACE).resolve()}
    for name, content in archive.tree_of(stage).items():
        if name in LIBRARIES | PROGRAMS or name.startswith(("include/", "share/")):
            files[name] = content
        elif not LEFT_OUT.match(name):
            fail(f"{name} is neither taken into the wheel nor left out: add it to tools/release/wheel.py")
    if missing := [name for name in sorted(LIBRARIES | PROGRAMS | {C_INTERFACE}) if not (stage / name).is_file()]:
        fail(f"{stage} has no {', '.join(missing)}")
    if links := [name for name, content in files.items() if isinstance(content, archive.Link)]:
        fail(f"pip would install links as copies: {', '.join(links)}")
    return files


def platform_of(release):
    return PLATFORM.format(release.architecture.name)


def with_facts(path, release):
    text = path.read_text(encoding="utf-8")
    return text.replace("@VERSION@", release.version).replace("@PROCESSOR@", release.architecture.processor).encode()


def contents(stage, release):
    """Returns all files of the wheel except RECORD, by name."""
    python = release.tree / "packaging/python"
    top, tree = f"usher_locks-{release.version}", tree_of(stage)
    files = {f"usher_locks/_tree/{name}": content for name, content in tree.items()}
    files |= {f"{top}.data/data/{name}": content for name, content in tree.items()
              if name.startswith(FOR_THE_ENVIRONMENT)}
    files |= {f"usher_locks/{name}": python / "usher_locks" / name for name in MODULE}
    files["usher_locks/__init__.py"] = with_facts(python / "usher_locks/__init__.py", release)
    info = f"{top}.dist-info"
    files[f"{info}/METADATA"] = with_facts(python / "METADATA", release) + with_facts(python / "README.md", release)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: usher {release.version}\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{platform_of(release)}\n").encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nusher = usher_locks.__main__:main\n"
    files[f"{info}/licenses/LICENSE"] = release.tree / "LICENSE"
    files[f"{info}/licenses/NOTICE"] = release.tree / "packaging/NOTICE"
    return files


def write(files, folder):
    """Writes the files with their modes, which are part of the wheel: pip keeps the modes of programs."""
    for name, content in files.items():
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        to.chmod(0o755 if name.removeprefix("usher_locks/_tree/") in PROGRAMS else 0o644)


def make(stage: pathlib.Path, out: pathlib.Path, release) -> list[pathlib.Path]:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?", release.version):
        fail(f"{release.version} is no version of a Python package (PEP 440)")
    path = out / f"usher_locks-{release.version}-py3-none-{platform_of(release)}.whl"
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="usher-wheel-") as folder:
        write(contents(stage, release), pathlib.Path(folder))
        environment = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": str(release.epoch)}
        done = subprocess.run([PYTHON, "-m", "wheel", "pack", "--dest-dir", out, folder], check=False, text=True,
                              capture_output=True, env=environment)
    if "No module named" in done.stderr:
        fail("there is no Python package wheel: apt-get install python3-wheel")
    if done.returncode != 0 or not path.is_file():
        fail(f"wheel pack made no {path.name}:\n{done.stdout}{done.stderr}")
    return [path]
