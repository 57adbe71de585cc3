#!/usr/bin/env python3
"""Checks a release's packages for AArch64: compares their contents with those of the packages for x86-64, then
installs, uses and removes each package in Debian systems for AArch64, under emulation (tests/aarch64/in_root.sh). The
wheel is tested by the test for x86-64, run there by the system's Python.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE))
from tools.release import release  # noqa: E402

ARM, X86 = (release.ARCHITECTURES[name] for name in ("aarch64", "x86_64"))
failures = []
checks = 0

# Differences between the architectures that are permitted in file names, fields and texts. The first version of the C
# library's symbols, and that of its condition variables, also differ.
ALIKE = ((r"aarch64|x86_64", "MACHINE"), (r"arm64|amd64", "DEBIAN"), (r"AArch64|x86-64", "PROCESSOR"), (r" \(experimental: run under emulation only\)", ""))
ALIKE_VERSIONS = ((r"GLIBC_2\.(17|2\.5|3\.2)$", "GLIBC_FIRST"),)


def expect(what, ok, why=""):
    global checks
    checks += 1
    print(f"{'ok  ' if ok else 'FAIL'}  {what}", flush=True)
    if not ok:
        failures.append(what)
        print(f"  {why}", flush=True)


def run(command, limit=60):
    try:
        return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, text=True, check=False)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, f"{late.stdout}\nran longer than {limit} s")


def output_of(*command):
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode} of {' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


def alike(text, words=ALIKE):
    for pattern, word in words:
        text = re.sub(pattern, word, text)
    return text


# ---- contents --------------------------------------------------------------------------------------------------------

def of_wheel(path):
    """Returns {name: (kind and mode, size)} of the wheel's entries."""
    with zipfile.ZipFile(path) as archive:
        return {e.filename: (oct(e.external_attr >> 16), e.file_size) for e in archive.infolist()}


def of_tar(file):
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        return {e.name: (f"{e.type.decode()} {e.mode:o} {e.uid}:{e.gid} {e.linkname}", e.size) for e in archive}


def of_tarball(path):
    with open(path, "rb") as file:
        return of_tar(file)


def of_deb(path):
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as data:
        return of_tar(data.stdout)


def of_rpm(path):
    rows = output_of("rpm", "-qp", "--qf", "[%{FILENAMES}\\t%{FILEMODES:octal} %{FILELINKTOS}\\t%{FILESIZES}\\n]", path)
    return {name: (facts, int(size)) for name, facts, size in (row.split("\t") for row in rows.splitlines())}


KINDS = ((".whl", of_wheel), (".tar.gz", of_tarball), (".deb", of_deb), (".rpm", of_rpm))


def packages(folder):
    return {alike(path.name): path for path in sorted(folder.iterdir()) if path.name.endswith(tuple(ending for ending, _ in KINDS))}


def compare_contents(arm, x86):
    """Checks that names, modes, owners and links are equal. Sizes may differ only for files that the compiler makes, or
    that list or describe other files."""
    contents = next(of for ending, of in KINDS if arm.name.endswith(ending))
    here, there = ({alike(name): (alike(facts), size) for name, (facts, size) in contents(path).items()} for path in (arm, x86))
    differ = sorted(here.keys() ^ there.keys())
    expect(f"{arm.name}: the {len(here)} files of {x86.name}", not differ and here, differ)
    differ = [(name, here[name][0], there[name][0]) for name in here.keys() & there.keys() if here[name][0] != there[name][0]]
    expect(f"{arm.name}: modes, owners and links", not differ, differ)
    may = r"(^|/)(bin/usher|libexec/usher/usher_\w+|libusher[\w.-]*\.(so|a)[\d.]*|RECORD|METADATA|WHEEL|files|md5sums|changelog.*gz|[\w-]+\.cmake|[\w-]+\.pc)$"
    differ = [name for name in here.keys() & there.keys() if here[name][1] != there[name][1] and not re.search(may, name)]
    expect(f"{arm.name}: sizes of all other files", not differ, differ)


def compare_fields(arm, x86):
    """Compares Debian's control fields, or the wheel's METADATA."""
    if arm.suffix == ".deb":
        here, there = (re.sub(r"\n?Installed-Size: \d+", "", alike(output_of("dpkg-deb", "-f", path))) for path in (arm, x86))
        expect(f"{arm.name} is for {ARM.debian}", output_of("dpkg-deb", "-f", arm, "Architecture").strip() == ARM.debian)
    elif arm.suffix == ".whl":
        here, there = (alike(zipfile.ZipFile(path).read(next(n for n in zipfile.ZipFile(path).namelist() if n.endswith("/METADATA"))).decode())
                       for path in (arm, x86))
        here, there = (" ".join(text.split()) for text in (here, there))
    else:
        return
    expect(f"{arm.name}: the same fields", here == there, f"{here}\n{there}")


def exports(library):
    """Returns the names, with versions, of the symbols that the library defines, and of those that it needs."""
    found, needs = set(), set()
    for row in output_of("readelf", "-W", "--dyn-syms", library).splitlines():
        words = row.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK"):
            (needs if words[6] == "UND" else found).add(alike(words[7], ALIKE_VERSIONS))
    return found, needs


def compare_exports(arm, x86):
    for name in ("libusher.so", "libusher-all.so", "libusher-stat.so", "libusher-locks.so.0"):
        here, there = (exports(stage / "lib" / name)[0] for stage in (arm, x86))
        expect(f"{name} exports the {len(there)} symbols of x86-64's", here == there and there, sorted(here ^ there))


# ---- use -------------------------------------------------------------------------------------------------------------

def in_root(system, command, limit):
    return run([HERE / "in_root.sh", system, command], limit)


USES = """set -e
{usher} --version | grep -x 'usher {version}'
{usher} list | grep -q '^  steady '
for lock in mcs steady twa; do
  USHER_VERBOSE=1 {usher} run --lock $lock -- {programs}/uses_mutexes 2>&1 | grep "usher {version}: lock $lock"
done
[ "$({usher} run -- sh -c 'echo $LD_PRELOAD')" = {library} ]
{usher} sim --list | grep -q x5-2
{usher} stat -- {programs}/uses_mutexes 2>&1 | grep '^Verdict: '
{usher} record --lock steady --every 60 --output /tmp/one.recording -- {programs}/uses_mutexes 60000
{usher} predict /tmp/one.recording --locks steady,mcs --threads 2 --seeds 1
"""
CHECKS = "{usher} check twa-spin --executions 200 | grep 'all pass'\n"


def uses(usher, library, version, programs, checker=False):
    text = USES + (CHECKS if checker else "")
    return text.format(usher=usher, library=library, version=version, programs=programs)


def use_debs(system, out, version, programs):
    files = " ".join(shlex.quote(str(path)) for path in sorted(out.glob(f"*_{ARM.debian}.deb")))
    script = f"""set -e
mkdir -p /var/log /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
: > /var/lib/dpkg/status
[ "$(dpkg --print-architecture)" = {ARM.debian} ]
dpkg --force-depends -i {files}
[ -z "$(dpkg --audit)" ]
""" + uses("usher", f"/usr/lib/{ARM.name}-linux-gnu/usher/libusher.so", version, programs, True) + f"""
LD_LIBRARY_PATH= {programs}/accounts
dpkg --purge usher usher-check libusher-dev libusher-locks0
! ls /usr/bin/usher /usr/lib/{ARM.name}-linux-gnu/usher /usr/share/doc/usher /usr/lib/{ARM.name}-linux-gnu/libusher* 2> /dev/null
"""
    done = in_root(system, script, 300)
    expect(f"{system}: the .deb files are installed, work, and are removed", done.returncode == 0, done.stdout)


def use_tarballs(system, out, version, programs):
    # The checker is used from the extracted archive: install.sh starts several programs for each file, which takes
    # minutes under emulation.
    names = [f"{name}-{version}-linux-{ARM.name}" for name in ("usher", "usher-check")]
    script = "set -e\ncd /tmp\n" + "".join(f"tar -xf {out}/{name}.tar.gz\n" for name in names) + \
        f"./{names[0]}/install.sh /tmp/p\nexport USHER_CHECKER=/tmp/{names[1]}/libexec/usher/usher_check\n" + \
        uses("/tmp/p/bin/usher", "/tmp/p/lib/libusher.so", version, programs, True) + \
        "/tmp/p/share/usher/uninstall.sh\n! ls /tmp/p 2> /dev/null\n"
    done = in_root(system, script, 590)
    expect(f"{system}: the tarballs are installed, work, and are removed", done.returncode == 0, done.stdout)


def use_wheel(system, out):
    wheel = next(out.glob("*.whl"))
    done = in_root(system, f"python3 tests/package/test_wheel.py --slower 4 --wheel {shlex.quote(str(wheel))}", 1500)
    print(done.stdout, end="")
    expect(f"{system}: the wheel's test", done.returncode == 0)


def compile_programs(build, stage, folder):
    """Compiles programs for systems with glibc 2.28 and later, as those of the release are."""
    stubs = next((build / "link_stubs").glob("2.28-*"))
    compiler = ["aarch64-linux-gnu-gcc-12", "-O1", f"-L{stubs}", "-static-libgcc", "-pthread"]
    output_of(*compiler, TREE / "tests/add_a_lock/uses_mutexes.c", "-o", folder / "uses_mutexes")
    output_of(*compiler, "-I", stage / "include", TREE / "examples/accounts.c", "-o", folder / "accounts", stage / "lib/libusher-locks.so")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=TREE / "build/aarch64")
    parser.add_argument("--out", type=Path, default=TREE / "build/dist-aarch64", help="folder of the packages")
    parser.add_argument("--beside", type=Path, help="folder of the packages for x86-64, of the same commit")
    parser.add_argument("--beside-stage", type=Path, default=TREE / "build/portable/stage", help="what those were made of")
    parser.add_argument("--systems", default="bookworm,bullseye")
    options = parser.parse_args()
    version = release.of_this_tree(ARM.name).version
    arm = packages(options.out)
    expect(f"{options.out} has packages", arm)
    sums = run(["sh", "-c", f"cd {shlex.quote(str(options.out))} && sha256sum --check --strict --quiet SHA256SUMS"])
    expect("SHA256SUMS", sums.returncode == 0, sums.stdout)
    if options.beside:
        x86 = packages(options.beside)
        expect("each package that there is for x86-64", arm.keys() == x86.keys(), sorted(arm.keys() ^ x86.keys()))
        for name in arm.keys() & x86.keys():
            compare_contents(arm[name], x86[name])
            compare_fields(arm[name], x86[name])
        compare_exports(options.build / "stage", options.beside_stage)
    with tempfile.TemporaryDirectory(prefix="programs-", dir=options.build) as temporary:
        programs = Path(temporary)
        compile_programs(options.build, options.build / "stage", programs)
        for system in options.systems.split(","):
            use_debs(system, options.out, version, programs)
            use_tarballs(system, options.out, version, programs)
            use_wheel(system, options.out)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
