"""Debian packages, made by debhelper from the build of a release. Nothing is compiled again."""

import os
import pathlib
import shutil
import subprocess
import sys


def built(folder, libdir):
    """Changes the folder of libraries in an installed tree. A new build is not needed, since no compiler option depends
    on it."""
    for command in (["cmake", f"-DCMAKE_INSTALL_LIBDIR={libdir}", folder], ["cmake", "--build", folder, "--target", "usher_product"]):
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit("\n".join([*done.stdout.splitlines()[-20:], f"usher: release: exit status {done.returncode} of: {' '.join(map(str, command))}"]))


def make(stage, out, release):
    folder = pathlib.Path(stage).parent.resolve()
    work = pathlib.Path(out).resolve() / "deb"
    debian = release.architecture.debian
    multiarch = subprocess.run(["dpkg-architecture", "--host-arch", debian, "-qDEB_HOST_MULTIARCH"],
                               check=True, text=True, capture_output=True).stdout.strip()
    shutil.rmtree(work, ignore_errors=True)
    built(folder, f"lib/{multiarch}")
    try:
        done = subprocess.run([release.tree / "tools/deb.sh", work], check=False, stdout=subprocess.DEVNULL,
                              env=os.environ | {"USHER_BUILT": str(folder), "USHER_ARCHITECTURE": debian, "SOURCE_DATE_EPOCH": str(release.epoch)})
    finally:
        built(folder, "lib")
    if done.returncode != 0:
        sys.exit("usher: release: no Debian packages: see above")
    packages = [shutil.move(file, pathlib.Path(out) / file.name) for file in sorted(work.glob("*.deb"))]
    shutil.rmtree(work)
    return [pathlib.Path(p) for p in packages]
