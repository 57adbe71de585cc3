#!/usr/bin/env python3
"""Builds the Debian packages as `make deb` does. To save time they contain few locks and are not optimised; as by
distributions, they are built with link-time optimisation. Checks them with lintian. Installs them into a folder with a
package database of its own, so that the test needs no root and leaves the system alone, then uses and removes them.
Exit status 77: the tools that build packages are missing.
"""

import argparse
import gzip
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "install"))
from test_install import c_consumer, check, cmake_consumer, examples, failures, must, run

NAMES = ["libusher-dev", "libusher-locks0", "usher-check", "usher"]
MAINTAINER = ("A Maintainer", "maintainer@example.org")
SKIPPED = 77


def expect(what, ok, why=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {why}")


def dpkg(root, *arguments):
    """Returns a dpkg command with options that permit a run without root rights and on an incomplete system."""
    return ["dpkg", f"--root={root}", f"--log={root}/dpkg.log", "--force-not-root", "--force-depends",
            "--force-script-chrootless", *arguments]


def all_files(root):
    return sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.is_symlink() or not f.is_dir())


def symbols_bound(package, work, env):
    """Checks that symbols have their versions. Top-level asm gives functions of the C library and of Usher their symbol
    versions; link-time optimisation can lose these."""
    must(["dpkg-deb", "-x", package, work / "bound"], 30, env=env)
    library = next((work / "bound").rglob("libusher.so"))
    symbols = must(["nm", "-D", "--with-symbol-versions", library], 20, env=env)
    lost = [line for line in symbols.splitlines() if re.search(r" [wU] usher_", line)]
    expect("no function of libusher.so has lost its symbol version", not lost, lost)
    for name in ("[wU] __pthread_mutex_lock@", "T pthread_cond_wait$"):
        expect(f"libusher.so: {name}", re.search(f" {name}", symbols, re.M) is not None, symbols)


def clean_by_lintian(out, env):
    if shutil.which("lintian") is None:
        print("--    lintian is not installed: the packages are not checked with it", flush=True)
        return
    done = run(["lintian", "--fail-on", "error,warning", *out.glob("*.changes")], 120, env)
    print(done.stdout, end="")
    check("lintian has no errors and no warnings", done)


def in_its_place(usr, libdir, version):
    """Checks the files that Debian's own programs need, such as man pages. The install test does not check them."""
    for name in ("share/bash-completion/completions/usher", "share/zsh/vendor-completions/_usher",
                 "share/usher/machines/x5-2.toml",
                 "share/doc/usher/copyright", "share/doc/libusher-dev/copyright", "include/usher/usher.h",
                 f"{libdir}/usher/libusher.so", f"{libdir}/usher/libusher-all.so", f"{libdir}/usher/libusher-stat.so", "libexec/usher/usher_bench", "libexec/usher/usher_stat",
                 f"{libdir}/libusher_locks.a", f"{libdir}/libusher-locks.so", f"{libdir}/libusher-locks.so.0",
                 "share/doc/libusher-locks0/copyright", "share/doc/usher/README.md", "share/doc/usher/CHANGELOG.md",
                 "share/doc/usher/docs/locks.md", "share/doc/libusher-dev/examples/accounts.c"):
        expect(name, (usr / name).is_file(), "is missing")
    for name, begin in (("share/man/man1/usher.1.gz", ".TH USHER 1"),
                        ("share/doc/usher/changelog.gz", f"usher ({version}) "),
                        ("share/doc/libusher-dev/changelog.gz", f"usher ({version}) ")):
        text = gzip.decompress((usr / name).read_bytes()).decode() if (usr / name).is_file() else "is missing"
        expect(name, text.startswith(begin), text[:100])


def commands_work(usr, libdir, version, work, env):
    usher = usr / "bin" / "usher"
    check("usher --version", run([usher, "--version"], 20, env), lambda out: version in out)
    check("usher run finds the library", run([usher, "run", "--", "/bin/sh", "-c", "echo $LD_PRELOAD"], 20, env),
          lambda out: out.strip() == str(usr / libdir / "usher" / "libusher.so"))
    check("usher sim finds its executable and the machines", run([usher, "sim", "--list"], 20, env), lambda out: "x5-2" in out)
    check("usher stat finds its executable", run([usher, "stat", "--help"], 20, env), lambda out: "usher stat" in out)
    check("usher try", run([usher, "try", "--locks", "twa", "--rounds", "1", "--quiet", "--json", "-", "--", "true"], 30, env),
          lambda out: '"candidates"' in out)
    program = work / "uses_mutexes"
    must(["cc", "-O1", "-pthread", HERE.parent / "add_a_lock" / "uses_mutexes.c", "-o", program], 60, env=env)
    for lock in ("steady", "twa"):
        check(f"usher run --lock {lock}: the program's mutexes are Usher's",
              run([usher, "run", "--lock", lock, "--", program], 30, env))


def build_packages(options, out, env):
    """Returns the packages that were built."""
    told = must([Path(options.tree) / "tools" / "deb.sh", out, 2], 1000,
                 env=dict(env, DEB_BUILD_OPTIONS="noopt optimize=+lto", USHER_LOCKS="steady;twa;mcscr;c-bo-mcs;pthread",
                          DEBFULLNAME=MAINTAINER[0], DEBEMAIL=MAINTAINER[1]))
    packages = [f for f in sorted(out.iterdir()) if f.suffix == ".deb"]
    expect("the expected packages", [f.name.split("_")[0] for f in packages] == NAMES, packages)
    expect("make deb says how to install them", f"apt install {' '.join(map(str, packages))}\n" in told, told)
    return packages


def check_fields(options, packages, env):
    """Checks dependencies, maintainer and version."""
    by_name = dict(zip(NAMES, packages))
    depends = must(["dpkg-deb", "-f", by_name["usher"], "Depends"], 20, env=env)
    expect("the library that reads debug information is installed, too", "libdw1" in depends, depends)
    of_dev = must(["dpkg-deb", "-f", by_name["libusher-dev"], "Depends"], 20, env=env)
    expect("libusher-dev needs its own libusher-locks0", f"libusher-locks0 (= {options.version})" in of_dev, of_dev)
    for package in packages:
        maintainer = must(["dpkg-deb", "-f", package, "Maintainer"], 20, env=env).strip()
        expect(f"{package.name}: DEBFULLNAME and DEBEMAIL", maintainer == "{} <{}>".format(*MAINTAINER), maintainer)
        check(f"{package.name} has the project's version", run(["dpkg-deb", "-f", package, "Version"], 20, env),
              lambda found: found.strip() == options.version)


def install(packages, root, env):
    database = root / "var" / "lib" / "dpkg"
    for folder in ("info", "updates", "triggers"):
        (database / folder).mkdir(parents=True)
    (database / "status").touch()
    check("installs", run(dpkg(root, "--install", *packages), 60, env))
    check("is installed", run(dpkg(root, "--audit"), 20, env), lambda out: out == "")


def use(options, root, work, env):
    """Uses the installed packages as users and embedders do."""
    multiarch = must(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"], 20, env=env).strip()
    usr, libdir = root / "usr", f"lib/{multiarch}"
    in_its_place(usr, libdir, options.version)
    commands_work(usr, libdir, options.version, work, env)
    env["PKG_CONFIG_LIBDIR"] = str(usr / libdir / "pkgconfig")  # only installed files are found
    options.libdir = libdir
    for name in ("usher", "usher-locks"):
        c_consumer(options.cc, name, usr / libdir, work, env)
    cmake_consumer(options, usr, work / "consumer", env)
    examples(options, usr, usr / "share/doc/libusher-dev/examples", work / "examples", env)


def remove(root, env):
    check("is removed", run(dpkg(root, "--purge", *NAMES), 60, env))
    left = [f for f in all_files(root) if f != "dpkg.log" and not f.startswith("var/lib/dpkg/")]
    expect("no file is left", not left and not (root / "usr").exists(), left)
    about_us = [f for f in all_files(root / "var" / "lib" / "dpkg") if any(f.startswith(f"info/{name}") for name in NAMES)]
    expect("no entry is left in the package database", not about_us, about_us)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--cmake", default="cmake")
    options = parser.parse_args()
    options.cc, options.cxx = "cc", "c++"  # Debian's compilers, which the package's users have, not those of this build
    for tool in ("dpkg-buildpackage", "dh"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool}; the section `package` of packages.txt names the missing packages")
            return SKIPPED

    start = time.monotonic()
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("USHER_", "DEB_", "PKG_CONFIG_", "DPKG_")) and
           k not in ("LD_PRELOAD", "DESTDIR", "MAKEFLAGS", "MFLAGS")}
    env["PATH"] += ":/usr/sbin:/sbin"  # dpkg needs programs of these folders
    env["LC_ALL"] = "C.UTF-8"
    with tempfile.TemporaryDirectory(prefix="usher-package-") as temporary:
        out, root, work = (Path(temporary).resolve() / name for name in ("out", "root", "work"))
        work.mkdir()
        packages = build_packages(options, out, env)
        print(f"built after {time.monotonic() - start:.0f} s", flush=True)
        check_fields(options, packages, env)
        symbols_bound(dict(zip(NAMES, packages))["usher"], work, env)
        clean_by_lintian(out, env)
        install(packages, root, env)
        use(options, root, work, env)
        remove(root, env)
    print(f"{len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
