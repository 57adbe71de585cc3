"""Builds Usher once, for glibc 2.28 and later, and makes all packages of a release from that build.

The packages and SHA256SUMS are written to --out. Two runs on one build write the same bytes. With --key, gpg signs
SHA256SUMS.

If --architecture is not this machine's, Debian's cross compiler builds (`make release-arm`).
"""

import argparse
import hashlib
import importlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from tools.release import audit, release, wheel

KINDS = {"tarball": ".tar.gz", "wheel": ".whl", "deb": ".deb", "rpm": ".rpm", "oci": "-oci.tar"}  # endings of the files

# What a run needs besides libraries, for which CMake searches: each program and its Debian package.
PROGRAMS = {"git": "git", "cmake": "cmake", "ninja": "ninja-build", "g++": "build-essential", "readelf": "binutils", "make": "make"}
PROGRAMS_OF = {"deb": {"dpkg-buildpackage": "build-essential", "dh": "debhelper"}, "rpm": {"rpmbuild": "rpm"},
               "oci": {"umoci": "umoci", "/bin/busybox": "busybox-static"}}


def fail(why):
    sys.exit(f"usher: release: {why}")


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], check=False, **more)
    if done.returncode != 0:
        fail(f"exit status {done.returncode} of: {' '.join(map(str, command))}")


def missing(kinds):
    """Returns {program: its package} of the programs that are missing. Without them a run would fail after minutes of
    compiling."""
    programs = PROGRAMS | {name: package for kind in kinds for name, package in PROGRAMS_OF.get(kind, {}).items()}
    lacking = {name: package for name, package in programs.items() if shutil.which(name) is None}
    if "wheel" in kinds and subprocess.run([wheel.PYTHON, "-c", "import wheel"], check=False, capture_output=True).returncode != 0:
        lacking["Python's wheel"] = "python3-wheel"
    return lacking


def make_page():
    """Bundles the page of `usher report`, which the build then installs. Without Node.js the packages have no page, and `usher report`
    says how to make it: whoever only wants a wheel of a clone does not need npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        print("usher: release: without the page of usher report: no node or no npm (apt-get install nodejs npm)", file=sys.stderr)
        return
    run("make", "--silent", "--directory", release.TREE, "page", f"BUILD={release.TREE / 'build/portable'}")


def build(folder, jobs, architecture, tests):
    """Compiles what is installed, with ninja's display of progress. The tests need GoogleTest, so they are configured
    only on request."""
    cross = [] if architecture.name == platform.machine() else [f"-DCMAKE_TOOLCHAIN_FILE={architecture.toolchain}"]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "configure.log", "w", encoding="utf-8") as log:
        done = subprocess.run(["cmake", "-S", release.TREE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                               "-DUSHER_PORTABLE=ON", "-DCMAKE_INSTALL_LIBDIR=lib", "-DUSHER_BUILD_CHECKER=ON",
                               f"-DUSHER_BUILD_TESTS={'ON' if tests else 'OFF'}", *cross], check=False, stdout=log, stderr=log)
    if done.returncode != 0:
        said = (folder / "configure.log").read_text(encoding="utf-8", errors="replace")
        print(*said.splitlines()[-20:], sep="\n", file=sys.stderr)
        fail(f"the configuration failed; the end of {folder / 'configure.log'} is above")
    run("cmake", "--build", folder, "--target", "usher_product", "-j", jobs)


def install(folder, stage, architecture):
    shutil.rmtree(stage, ignore_errors=True)
    run("cmake", "--install", folder, "--prefix", stage, "--strip", stdout=subprocess.DEVNULL)
    if errors := audit.errors(stage, architecture):
        fail("a file does not run where it should:\n  " + "\n  ".join(errors))


def remove_old(out, kinds):
    """Removes the packages of an earlier run and their signature, which could be mistaken for those of this release."""
    for file in list(out.iterdir()):
        if file.name.endswith((*(KINDS[kind] for kind in kinds), ".asc")):
            file.unlink()


def write_sums(out, key):
    packages = sorted(p for p in out.iterdir() if p.name.endswith(tuple(KINDS.values())))
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in packages]
    sums = out / "SHA256SUMS"
    sums.write_text("".join(lines), encoding="ascii")
    if key:
        run("gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", "-o", f"{sums}.asc", sums)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tools.release", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=release.TREE / "build/portable", help="folder of the build")
    parser.add_argument("--out", type=pathlib.Path, default=release.TREE / "build/dist", help="folder of the packages")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--architecture", default=platform.machine(), choices=sorted(release.ARCHITECTURES))
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of packages (default: %(default)s)")
    parser.add_argument("--tests", action="store_true", help="configure the tests, too")
    parser.add_argument("--key", help="gpg signs SHA256SUMS with this key")
    arguments = parser.parse_args()
    kinds = arguments.only.split(",")
    if unknown := set(kinds) - KINDS.keys():
        parser.error(f"no such kind of package: {', '.join(sorted(unknown))} (there are {', '.join(KINDS)})")
    if lacking := missing(kinds):
        fail(f"missing: {', '.join(lacking)}: apt-get install {' '.join(sorted(set(lacking.values())))}")

    this = release.of_this_tree(arguments.architecture)
    if this.commit.endswith("-dirty"):
        print("usher: release: the tree has uncommitted changes, so the commit does not name these packages", file=sys.stderr)
    os.environ["SOURCE_DATE_EPOCH"] = str(this.epoch)
    make_page()
    build(arguments.build, arguments.jobs, this.architecture, arguments.tests)
    stage = arguments.build / "stage"
    install(arguments.build, stage, this.architecture)
    arguments.out.mkdir(parents=True, exist_ok=True)
    remove_old(arguments.out, kinds)
    packages = []
    for kind in kinds:
        print(f"usher: release: {kind}", file=sys.stderr, flush=True)
        packages += importlib.import_module(f"tools.release.{kind}").make(stage, arguments.out, this)
    write_sums(arguments.out, arguments.key)
    for package in sorted(packages):
        print(package)


if __name__ == "__main__":
    main()
