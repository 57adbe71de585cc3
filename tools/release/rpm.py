"""The packages usher, usher-libs and usher-devel for distributions with RPM."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time


def macros(work, stage, release):
    """Returns the macros that packaging/rpm/usher.spec needs, and those whose value would otherwise depend on the
    machine or the time of the build."""
    notices = f"{release.tree / 'LICENSE'} {release.tree / 'packaging/NOTICE'}"
    control = (release.tree / "debian/control").read_text(encoding="utf-8")
    return {
        "usher_version": release.version, "stage": stage.resolve(), "notices": notices,
        "usher_date": time.strftime("%a %b %d %Y", time.gmtime(release.epoch)), "usher_commit": release.commit,
        "packager": re.search(r"^Maintainer: (.*)", control, re.M)[1],
        "_topdir": work,
        # The folders in Fedora and its relatives, of which Debian's rpmbuild does not know all.
        "_lib": "lib64", "_libdir": "/usr/lib64", "_libexecdir": "/usr/libexec", "_docdir": "/usr/share/doc",
        "_buildhost": "localhost", "use_source_date_epoch_as_buildtime": 1, "clamp_mtime_to_source_date_epoch": 1,
        "_binary_payload": "w6.xzdio",  # readable for rpm versions of the time of glibc 2.28
    }


def make(stage, out, release):
    if shutil.which("rpmbuild") is None:
        sys.exit("usher: release: there is no rpmbuild: apt-get install rpm")
    with tempfile.TemporaryDirectory(prefix="usher-rpm-") as temporary:
        work = pathlib.Path(temporary)
        command = ["rpmbuild", "-bb", "--target", f"{release.architecture.name}-linux"]
        for name, value in macros(work, stage, release).items():
            command += ["--define", f"{name} {value}"]
        # HOME is the temporary folder, so that the user's own macros have no influence.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(work), "LC_ALL": "C.UTF-8",
                       "SOURCE_DATE_EPOCH": str(release.epoch)}
        done = subprocess.run([*command, release.tree / "packaging/rpm/usher.spec"], check=False, text=True,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        made = sorted((work / "RPMS").rglob("*.rpm"))
        if done.returncode != 0 or len(made) != 3:
            sys.exit(f"{done.stdout}usher: release: rpmbuild failed with status {done.returncode}: see above")
        return [pathlib.Path(shutil.copyfile(path, out / path.name)) for path in made]
