#!/usr/bin/env python3
"""Checks a release's packages other than the wheel and the .deb files: the tarballs, the RPMs, the container image.
Installs each into a folder, uses it and removes it. Then makes the packages once more, which must give the same bytes.
As root it also tests in other systems: each subfolder of the folder that --roots names is the root of a system. Uses
rpm, rpmlint, skopeo and umoci if they are installed, and no network.
"""

import argparse
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "install"))
sys.path.insert(0, str(TREE))
from test_install import check, failures, must, run  # noqa: E402
from tools.release import oci, release, rpm, tarball  # noqa: E402

PROGRAM = HERE.parent / "add_a_lock" / "uses_mutexes.c"
VERBOSE = "USHER_VERBOSE=1 {} run --lock steady -- /bin/true 2>&1"


def expect(what, ok, why=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {why}")


def refused(what, done, message, status=1):
    expect(what, done.returncode == status and message in done.stderr, f"exit status {done.returncode}: {done.stderr}")


def left_out(what, why):
    print(f"--    {what}: {why}", flush=True)


def has(tool, what):
    if shutil.which(tool) is None:
        left_out(what, f"there is no {tool}")
        return False
    return True


def all_files(folder):
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_symlink() or not f.is_dir())


def listed(text):
    """Returns the files in a list of installed files and folders."""
    return [line for line in text.splitlines() if not line.endswith("/")]


class Test:
    def __init__(self, options, work):
        self.out, self.stage, self.work = options.out.resolve(), options.stage.resolve(), work
        self.roots = options.roots
        self.release = release.of_this_tree()
        self.version, self.epoch = self.release.version, None
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(work)}

    def run(self, *command, limit=60, **env):
        return run(command, limit, env=self.env | env)

    def sh(self, text, **more):
        return self.run("sh", "-c", text, **more)

    def works(self, where, usher, library):
        """Checks that an installed command works and finds its library."""
        check(f"{where}: usher --version", self.run(usher, "--version"), lambda out: self.version in out)
        check(f"{where}: usher run finds the library", self.sh("'%s' run -- /bin/sh -c 'echo $LD_PRELOAD'" % usher),
              lambda out: out.strip() == str(library))
        check(f"{where}: the library is loaded", self.sh(VERBOSE.format(usher)),
              lambda out: f"usher {self.version}: lock steady" in out)
        check(f"{where}: usher sim finds the machines", self.run(usher, "sim", "--list"), lambda out: "x5-2" in out)
        check(f"{where}: usher stat finds its executable", self.run(usher, "stat", "--help"),
              lambda out: "usher stat" in out)

    # ---- tarballs ----------------------------------------------------------------------------------------------------

    def extracted(self, package):
        """Extracts a tarball as a user whose umask keeps files private. Returns the folder."""
        path = self.out / f"{package}-{self.version}-linux-x86_64.tar.gz"
        with tarfile.open(path) as archive:
            entries = archive.getmembers()
        self.epoch = entries[0].mtime
        top = path.name.removesuffix(".tar.gz")
        expect(f"{path.name} has one folder", all(e.name == top or e.name.startswith(f"{top}/") for e in entries),
               entries)
        modes = {True: (0o777,), False: (0o644, 0o755)}
        others = [(e.name, e.uid, e.gid, e.mtime, oct(e.mode)) for e in entries
                  if e.uid or e.gid or e.mtime != self.epoch or e.mode not in modes[e.issym()]]
        expect(f"{path.name}: owner 0:0, modes 644 and 755, one time stamp", not others, others)
        must(["sh", "-c", f"umask 077; tar -xf '{path}' -C '{self.work}'"], 60, env=self.env)
        return self.work / top

    def tarballs(self):
        usher, checker = self.extracted("usher"), self.extracted("usher-check")
        for folder in (usher, checker):
            expect(f"{folder.name} has LICENSE and NOTICE", {"LICENSE", "NOTICE"} <= set(os.listdir(folder)))
        expect("the checker is in its own tarball",
               not list(usher.rglob("usher_check*")) and list(checker.rglob("usher_check")))
        self.works("extracted", usher / "bin/usher", usher / "lib/libusher.so")

        prefix = self.work / "prefix"
        check("install.sh", self.run("sh", usher / "install.sh", prefix),
              lambda out: str(prefix / "share/usher/uninstall.sh") in out)
        listing = listed((prefix / "share/usher/installed-files").read_text())
        differ = set(listing) ^ set(all_files(prefix))
        expect("the list has the installed files", not differ, differ)
        modes = {oct(f.stat().st_mode & 0o7777) for f in prefix.rglob("*") if not f.is_symlink()}
        expect("everybody can read what is installed, only the owner can change it", modes == {"0o644", "0o755"}, modes)
        self.works("installed", prefix / "bin/usher", prefix / "lib/libusher.so")
        self.mutexes(prefix / "bin/usher")
        self.upgrade(usher, prefix)

        check("install.sh of the checker", self.run("sh", checker / "install.sh", prefix))
        check("usher check finds the checker", self.run(prefix / "bin/usher", "check", "--list"),
              lambda out: "twa" in out)
        check("usher check", self.run(prefix / "bin/usher", "check", "twa-spin", "--executions", "200"),
              lambda out: "all pass" in out)
        self.own_lock(prefix)
        check("uninstall.sh", self.run(prefix / "share/usher/uninstall.sh"))
        rest = set(listed((checker / "files").read_text())) | {"share/usher/installed-files-check"}
        expect("the checker stays", set(all_files(prefix)) == rest, set(all_files(prefix)) ^ rest)
        check("uninstall-check.sh", self.run(prefix / "share/usher/uninstall-check.sh"))
        expect("nothing is left", not prefix.exists(), all_files(prefix) if prefix.exists() else "")

        self.destdir(usher)
        self.hostile(usher)

    def mutexes(self, usher):
        if not has("cc", "a program's mutexes"):
            return
        program = self.work / "uses_mutexes"
        must(["cc", "-O1", "-pthread", PROGRAM, "-o", program], 60, env=self.env)
        for lock in ("steady", "twa"):
            check(f"usher run --lock {lock}: the program's mutexes are Usher's",
                  self.run(usher, "run", "--lock", lock, "--", program))

    def upgrade(self, usher, prefix):
        """Upgrades an installation of an older version, which had a file and a folder that the new version lacks."""
        listing, library = prefix / "share/usher/installed-files", prefix / "lib/libusher.so"
        (prefix / "share/old").mkdir()
        (prefix / "share/old/file").touch()
        (prefix / "lib/mine").touch()
        listing.write_text("share/old/file\n" + listing.read_text() + "share/old/\n")
        with open(library, "rb") as running:
            check("install.sh upgrades", self.run("sh", usher / "install.sh", prefix))
            expect("a running program keeps its library", os.fstat(running.fileno()).st_ino != library.stat().st_ino)
        expect("what the new version lacks is removed", not (prefix / "share/old").exists())
        expect("what is the user's stays", (prefix / "lib/mine").exists())
        (prefix / "lib/mine").unlink()
        expect("the list is the new version's", sorted(listed(listing.read_text())) == all_files(prefix))

    def own_lock(self, prefix):
        if not has("c++", "a lock of one's own"):
            return
        page = (TREE / "CONTRIBUTING.md").read_text(encoding="utf-8")
        text = re.search(r"<!-- add-a-lock: header .*?```cpp\n(.*?)```", page, re.S)[1]
        mistake = text.replace("exchange(free, std::memory_order_release)", "exchange(free, std::memory_order_relaxed)")
        for name, header, status, verdict in (("polite", text, 0, "all pass"),
                                              ("impolite", mistake.replace("polite", "impolite"), 1, "data race")):
            path = self.work / f"{name}.hpp"
            path.write_text(header)
            done = self.run(prefix / "bin/usher-check-own", path, f"usher::{name}", "--executions", "500", limit=400)
            expect(f"usher-check-own: {name}: {verdict}", done.returncode == status and verdict in done.stdout,
                   done.stdout + done.stderr)
        done = self.run(prefix / "bin/usher-check-own", path, "usher::polit", limit=100)
        refused("usher-check-own reports a wrong name", done, "does not compile as the lock", 2)

    def destdir(self, usher):
        root = self.work / "root"
        prefix = "/opt/two words"
        check("install.sh with DESTDIR", self.run("sh", usher / "install.sh", prefix, DESTDIR=str(root)))
        expect("DESTDIR is put before the prefix", (root / "opt/two words/bin/usher").is_file())
        (root / "opt/two words/mine").touch()
        check("install.sh --remove", self.run("sh", usher / "install.sh", "--remove", prefix, DESTDIR=str(root)))
        expect("what is the user's stays after the removal", all_files(root) == ["opt/two words/mine"], all_files(root))

    def hostile(self, usher):
        """The installation's list of files, or a folder of the prefix, has been changed by an attacker."""
        prefix, victim = self.work / "hostile", self.work / "victim"
        must(["sh", usher / "install.sh", prefix], 60, env=self.env)
        listing = prefix / "share/usher/installed-files"
        victim.mkdir()
        (victim / "file").touch()
        (prefix / "lib/out").symlink_to(victim)
        listing.write_text(f"{victim}/file\n../victim/file\nlib/../../victim/file\nlib/out/file\n{listing.read_text()}")
        listing.chmod(0o664)
        done = self.run(prefix / "share/usher/uninstall.sh")
        refused("a list that others can change is refused", done, "changed by another user")
        if os.geteuid() == 0:
            listing.chmod(0o644)
            os.chown(listing, 12345, 0)
            done = self.run(prefix / "share/usher/uninstall.sh")
            refused("a list of another user is refused", done, "changed by another user")
            os.chown(listing, 0, 0)
        expect("nothing has been removed", (prefix / "bin/usher").is_file())
        listing.chmod(0o644)
        done = self.run(prefix / "share/usher/uninstall.sh")
        expect("paths out of the prefix are refused", done.returncode == 1 and done.stderr.count("refused: ") == 4,
               done.stderr)
        expect("all other files are removed", all_files(prefix) == ["lib/out"], all_files(prefix))
        expect("files out of the prefix stay", (victim / "file").exists())

        (prefix / "lib/usher").mkdir()
        (prefix / "share").symlink_to(victim)
        done = self.run("sh", usher / "install.sh", prefix)
        refused("install.sh does not follow a link out of the prefix", done, "refused: ")
        expect("nothing is installed there", all_files(victim) == ["file"], all_files(victim))

    def other_systems(self):
        if self.roots is None or os.geteuid() != 0:
            left_out("other systems", "no --roots" if self.roots is None else "needs root")
            return
        archive = self.out / f"usher-{self.version}-linux-x86_64.tar.gz"
        for root in sorted(f for f in self.roots.iterdir() if (f / "bin/sh").exists()):
            folder = Path(tempfile.mkdtemp(prefix="usher-", dir=root / "tmp"))
            try:
                inside = f"/tmp/{folder.name}"
                must(["tar", "-xf", archive, "-C", folder], 60, env=self.env)
                script = (f"p={inside}/prefix && cd {inside}/usher-* && ./install.sh $p && $p/bin/usher --version && "
                          f"{VERBOSE.format('$p/bin/usher')} && $p/bin/usher sim --list | grep x5-2 && "
                          "$p/bin/usher stat -- /bin/true && $p/bin/usher bench --help > /dev/null && "
                          "$p/share/usher/uninstall.sh && ! [ -e $p ]")
                # The mount is in a mount namespace of its own, so it ends with the processes.
                enter = 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -c "$2"'
                done = self.run("unshare", "--mount", "sh", "-c", enter, "sh", root, script, limit=120)
                check(f"{root.name}: installs, works, is removed", done,
                      lambda out: f"usher {self.version}: lock steady" in out)
            finally:
                shutil.rmtree(folder)

    # ---- RPMs --------------------------------------------------------------------------------------------------------

    def rpms(self):
        if not has("rpm", "RPMs"):
            return
        packages = [self.out / f"{name}-{self.version}-1.x86_64.rpm" for name in ("usher", "usher-libs", "usher-devel")]
        for package in packages:
            about = must(["rpm", "-qp", "--requires", "--list", "--scripts",
                          "--qf", "host %{BUILDHOST}, time %{BUILDTIME}\\n", package], 20, env=self.env)
            needed = {tuple(map(int, v.split("."))) for v in re.findall(r"\(GLIBC_([0-9.]+)\)", about)}
            expect(f"{package.name} needs no newer glibc than 2.28", max(needed, default=(0,)) <= (2, 28), needed)
            expect(f"{package.name} has LICENSE and NOTICE", "/LICENSE\n" in about and "/NOTICE\n" in about, about)
            expect(f"{package.name} does not name its machine", f"host localhost, time {self.epoch}\n" in about, about)
            expect(f"{package.name} has no scripts", "scriptlet" not in about, about)
        provided = must(["rpm", "-qp", "--provides", packages[0]], 20, env=self.env)
        expect("the preloaded libraries are nobody's dependency", "libusher" not in provided, provided)
        if has("rpmlint", "what rpmlint says"):
            check("rpmlint has no errors and no warnings",
                  self.run("rpmlint", "--config", TREE / "packaging/rpm/rpmlint.toml", *packages, limit=120),
                  lambda out: "0 errors, 0 warnings" in out)
        if os.geteuid() != 0:
            left_out("the installed RPMs", "needs root")
            return
        root = self.work / "rpm-root"
        root.mkdir()
        command = ("rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--nodeps")
        check("the RPMs are installed", self.run(*command, "-i", *packages, limit=120))
        self.works("RPM", root / "usr/bin/usher", root / "usr/lib64/usher/libusher.so")
        if has("pkg-config", "programs with the RPMs' libraries") and has("cmake", "programs with the RPMs' libraries"):
            self.devel(root / "usr")
        check("the RPMs are removed", self.run(*command, "-e", "usher", "usher-libs", "usher-devel", limit=120))
        left = [f for f in all_files(root) if not f.startswith("var/lib/rpm/")]
        expect("RPM: nothing is left", not left, left)

    def devel(self, usr):
        program, source = self.work / "accounts", usr / "share/doc/usher/examples/accounts.c"
        flags = must(["pkg-config", "--cflags", "--libs", "usher-locks"], 20,
                     env=self.env | {"PKG_CONFIG_LIBDIR": str(usr / "lib64/pkgconfig")}).split()
        done = self.run("cc", source, *flags, "-pthread", "-o", program)
        check("RPM: a program finds usher-locks by pkg-config", done)
        if done.returncode == 0:
            check("RPM: and runs", self.run(program, LD_LIBRARY_PATH=str(usr / "lib64")))
        folder = self.work / "cmake-consumer"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(c C CXX)\nfind_package(usher REQUIRED)\n"
            f"add_executable(c {source})\ntarget_link_libraries(c usher::locks)\n")
        # The test names the package's folder, because Debian's CMake does not look into lib64.
        check("RPM: CMake's package works",
              self.sh(f"cmake -S {folder} -B {folder}/made -Dusher_DIR={usr}/lib64/cmake/usher && "
                      f"cmake --build {folder}/made && {folder}/made/c", limit=120))

    # ---- container image ---------------------------------------------------------------------------------------------

    def image(self):
        path = self.out / f"usher-{self.version}-oci.tar"
        if has("skopeo", "skopeo inspect"):
            check("skopeo inspect", self.run("skopeo", "inspect", "--config", f"oci-archive:{path}"),
                  lambda out: '"User": "65532:65532"' in out and "/opt/usher/copy.sh" in out)
        if not has("umoci", "the image's content"):
            return
        layout, bundle, volume = (self.work / name for name in ("layout", "bundle", "volume"))
        layout.mkdir()
        must(["tar", "-xf", path, "-C", layout], 30, env=self.env)
        rootless = [] if os.geteuid() == 0 else ["--rootless"]
        check("umoci unpack", self.run("umoci", "unpack", *rootless, "--image", f"{layout}:{self.version}", bundle))
        root = bundle / "rootfs"
        for name in oci.LIBRARIES:
            expect(f"the image has {name}",
                   (root / "opt/usher" / name).read_bytes() == (self.stage / "lib" / name).read_bytes())
        expect("the image has the licences",
               all((root / "opt/usher" / n).is_file() for n in ("LICENSE", "NOTICE", "NOTICE.busybox")))
        if os.geteuid() != 0:
            left_out("the image's entry point", "needs root")
            return
        enter = ("chroot", "--userspec=65532:65532", root, "/opt/usher/copy.sh")
        refused("the entry point reports that there is no volume", self.run(*enter), "mount a volume")
        volume = root / "usher"
        volume.mkdir()
        refused("it reports a volume of another user", self.run(*enter), "may not write")
        volume.chmod(0o777)  # as an emptyDir
        for what in ("copies", "replaces"):
            check(f"the entry point {what} the libraries", self.run(*enter))
            there = {f.name: (f.read_bytes(), f.stat().st_mode & 0o777) for f in volume.iterdir()}
            expect("they are complete and readable, and nothing else is there",
                   there == {n: ((self.stage / "lib" / n).read_bytes(), 0o644) for n in oci.LIBRARIES}, list(there))
        (root / "opt/volume").mkdir(mode=0o777)
        (root / "opt/volume").chmod(0o777)
        check("the entry point takes another folder", self.run(*enter, "/opt/volume"),
              lambda _: (root / "opt/volume/libusher.so").is_file())
        check("a program runs with the copied library",
              self.sh(f"LD_PRELOAD={volume}/libusher.so USHER_LOCK=steady USHER_VERBOSE=1 /bin/true 2>&1"),
              lambda out: f"usher {self.version}: lock steady" in out)

    def pod(self):
        pod = TREE / "packaging/oci/pod.yaml"
        expect("pod.yaml has this version", f"image: usher:{self.version}\n" in pod.read_text())
        try:
            import yaml
            expect("pod.yaml is YAML", yaml.safe_load(pod.read_text())["kind"] == "Pod")
        except ImportError:
            left_out("pod.yaml", "there is no module yaml")

    def same_again(self):
        expect("the packages are of this commit", self.epoch == self.release.epoch,
               "make them again, by `make release`")
        if self.epoch != self.release.epoch:
            return
        os.environ["SOURCE_DATE_EPOCH"] = str(self.release.epoch)
        again = self.work / "again"
        again.mkdir()
        for module in (tarball, rpm, oci):
            for package in module.make(self.stage, again, self.release):
                expect(f"{package.name} has the same bytes again",
                       package.read_bytes() == (self.out / package.name).read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TREE / "build/dist", help="folder of the packages")
    parser.add_argument("--stage", type=Path, default=TREE / "build/portable/stage", help="what they were made of")
    parser.add_argument("--roots", type=Path, help="folder with roots of other systems")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="usher-archives-") as temporary:
        test = Test(options, Path(temporary).resolve())
        test.tarballs()
        test.other_systems()
        test.rpms()
        test.image()
        test.pod()
        test.same_again()
    print(f"{len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
