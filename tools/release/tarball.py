"""Two archives that install into one prefix: Usher, and the checker with all that it needs to check a user's own lock.
"""

import pathlib
import sys

from tools.release import archive

RELACY = pathlib.Path("/usr/include/relacy")  # Debian: relacy-dev
CHECKER = "share/usher/checker"
# The checker's sources that are compiled together with a user's own lock. The scenarios of waiting lists, conditions
# and semaphores are left out.
CHECKER_SOURCES = ("engine/main.cpp", "engine/explore.cpp", "engine/checked_platform.cpp", "engine/checked_fork.cpp", "scenarios/lock.cpp")
CHECKER_PARTS = "scenarios/lock"  # the folder of that scenario's programs


def is_of_checker(name):
    return name.startswith(("libexec/usher/usher_check", "libexec/usher/mutants/"))


def notices(tree, folder):
    return {f"{folder}/LICENSE": tree / "LICENSE", f"{folder}/NOTICE": tree / "packaging/NOTICE"}


def checker_files(release):
    """Returns the checker's sources and headers, relacy, and the script that compiles them with a user's lock."""
    source = release.tree / "check"
    files = {f"{CHECKER}/check/{name}": source / name for name in CHECKER_SOURCES}
    files |= {f"{CHECKER}/check/{path.relative_to(source)}": path
              for path in (*source.glob("engine/*.hpp"), *(source / CHECKER_PARTS).glob("*.?pp"))}
    if not (RELACY / "relacy.hpp").is_file():
        sys.exit(f"usher: release: there is no {RELACY}/relacy.hpp: apt-get install relacy-dev")
    files |= {f"{CHECKER}/relacy/{name}": path for name, path in archive.tree_of(RELACY).items()}
    files["bin/usher-check-own"] = release.tree / "packaging/tarball/usher-check-own"
    return files


def write(out, package, files, release):
    """Writes the archive. It has one top folder, and besides the files contains the script that installs them and a
    list of them."""
    uninstall = f"uninstall{package.removeprefix('usher')}.sh"
    script = (release.tree / "packaging/tarball/install.sh").read_text(encoding="ascii")
    for word, text in (("package", package), ("version", release.version), ("uninstall", uninstall),
                       ("list", f"installed-files{package.removeprefix('usher')}")):
        script = script.replace(f"@{word}@", text)
    files[f"share/usher/{uninstall}"] = script.encode()
    names = files.keys() | {f"{folder}/" for folder in archive.folders_of(files)}
    tree = files | {"install.sh": script.encode(), "files": "".join(f"{n}\n" for n in sorted(names)).encode()}
    tree |= {"LICENSE": release.tree / "LICENSE", "NOTICE": release.tree / "packaging/NOTICE"}
    top = f"{package}-{release.version}-linux-{release.architecture.name}"
    path = out / f"{top}.tar.gz"
    path.write_bytes(archive.gzipped(archive.tar({f"{top}/{name}": content for name, content in tree.items()},
                                                 release.epoch)))
    return path


def make(stage, out, release):
    usher = archive.tree_of(stage, lambda name: not is_of_checker(name)) | notices(release.tree, "share/doc/usher")
    checker = archive.tree_of(stage, is_of_checker)
    if "libexec/usher/usher_check" not in checker:
        sys.exit(f"usher: release: there is no checker in {stage}: build with -DUSHER_BUILD_CHECKER=ON")
    checker |= checker_files(release) | notices(release.tree, "share/doc/usher-check")
    return [write(out, "usher", usher, release), write(out, "usher-check", checker, release)]
