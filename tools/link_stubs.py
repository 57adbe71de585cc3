#!/usr/bin/env python3
"""Makes a folder for `cc -L` with which programs and shared libraries are linked as on a machine with an older glibc.

A linker binds each symbol to its newest version in the C library of the build machine, so a program that was built with
glibc 2.36 does not start with glibc 2.31. In the folder, stub libraries take the place of the C library: shared objects
without code that define those symbols of the build machine's glibc whose version is not newer than --glibc. As in glibc
before 2.34, libpthread.so.0, libdl.so.2, librt.so.1 and libutil.so.1 have symbols of their own. A strong reference to a
newer symbol is an error of the linker. A weak one remains without a version, and the loader binds it where the symbol
exists.

libc.so is a linker script that also names an archive, made of the sources given as arguments. The archive defines
symbols that the compiler's own libraries need and that glibc has only since a later version.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

# The libraries and symbols that were not in libc.so.6 before glibc 2.34.
MOVED = {
    "libdl.so.2": r"dl(open|close|sym|vsym|error|addr|addr1|info|mopen)",
    "librt.so.1": r"(__mq_open_2|aio_\w+|lio_\w+|mq_\w+|shm_(open|unlink)|timer_(create|delete|getoverrun|gettime|settime))",
    "libutil.so.1": r"(forkpty|login|login_tty|logout|logwtmp|openpty)",
    "libpthread.so.0": r"(_?_?pthread_\w+|sem_\w+|thrd_\w+|mtx_\w+|cnd_\w+|tss_\w+|call_once)",
}
# Symbols of libpthread that libc.so.6 had, too. __pthread_mutex_* are added: libusher.so has weak references to them
# with a version, and a linker accepts a version only from a library on which the output depends.
IN_LIBC_TOO = re.compile(
    r"pthread_(attr_(destroy|init|[gs]et(detachstate|inheritsched|schedparam|schedpolicy|scope))"
    r"|cond_(broadcast|destroy|init|signal|timedwait|wait)|condattr_(destroy|init)|equal|exit|self|[gs]etschedparam"
    r"|mutex_(destroy|init|lock|unlock)|setcancel(state|type))|thrd_(current|equal|sleep|yield)"
    r"|__pthread_mutex_(destroy|init|lock|trylock|unlock)")

LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}

# Symbols that the archive defines. Its functions call those of the C library by their version.
WRAPPED = {"__libc_start_main"}

Symbol = collections.namedtuple("Symbol", "name version binding kind size address")


def release(version):
    return tuple(int(n) for n in version.removeprefix("GLIBC_").split("."))


def symbols(library, newest):
    """Yields the symbols of a library whose version is not newer than `newest`."""
    rows = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, text=True, capture_output=True).stdout
    for row in rows.splitlines():
        words = row.split()
        if len(words) < 8 or words[6] in ("UND", "ABS", "Ndx") or words[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = words[7].replace("@@", "@").partition("@")
        if re.fullmatch(r"GLIBC_[0-9.]+", version) and release(version) <= newest:
            yield Symbol(name, version, words[4], words[3], int(words[2], 0), int(words[1], 16))


def assembly(defined):
    """Yields assembly that defines the symbols. Of each name the newest version is the default, to which a linker
    binds.

    Variables that have one address in the C library, such as environ and __environ, have one address here, too. A
    program that uses such a variable gets a copy of it, and the linker makes all names of the variable lead to the
    copy. The linker finds the other names if the symbol is weak.
    """
    default = {}
    for s in defined:
        if s.name not in default or release(default[s.name]) < release(s.version):
            default[s.name] = s.version
    defined = sorted(defined, key=lambda s: (s.kind == "OBJECT", s.address, s.size))
    kinds = {"OBJECT": "object", "TLS": "tls_object"}
    for index, (s, following) in enumerate(zip(defined, [*defined[1:], None])):
        label, kind = f"usher_stub_{index}", kinds.get(s.kind, "function")
        yield {"OBJECT": ".bss", "TLS": '.section .tbss,"awT",@nobits'}.get(s.kind, ".text")
        if s.kind in kinds and (index == 0 or defined[index - 1].address != s.address):
            yield ".balign 32"
        yield f".{'weak' if s.binding == 'WEAK' else 'globl'} {label}"
        yield f".type {label},@{kind}"
        yield f".size {label},{s.size}"
        yield f"{label}:"
        if s.kind != "OBJECT" or following is None or following.address != s.address:
            yield f".skip {max(s.size, 1)}"
        at = "@@" if default[s.name] == s.version and s.name not in WRAPPED else "@"
        yield f".symver {label},{s.name}{at}{s.version}"


def make_stub(compiler, folder, soname, defined):
    versions = sorted({s.version for s in defined}, key=release)
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    source.write_text("\n".join(assembly(defined)) + '\n.section .note.GNU-stack,"",@progbits\n', encoding="ascii")
    lines = [f"{version} {{ {'local: usher_stub_*;' if index == 0 else ''} }} {versions[index - 1] if index else ''};"
             for index, version in enumerate(versions)]
    script.write_text("\n".join(lines) + "\n", encoding="ascii")
    # -s omits the names of temporary files, so that the result is always the same.
    subprocess.run([compiler, "-shared", "-nostdlib", "-s", "-Wl,--build-id=none", f"-Wl,-soname,{soname}",
                    f"-Wl,--version-script,{script}", "-o", folder / soname, source], check=True)


def ask(compiler, question):
    return subprocess.run([compiler, question], check=True, text=True, capture_output=True).stdout.strip()


def find(compiler, name):
    return pathlib.Path(ask(compiler, f"-print-file-name={name}"))


def loader_of(compiler):
    """Returns the file name of the loader of 64-bit programs."""
    machine = ask(compiler, "-dumpmachine").partition("-")[0]
    if machine not in LOADERS:
        sys.exit(f"link_stubs: {compiler} compiles for {machine}, whose loader's name is not known here")
    return LOADERS[machine]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--glibc", default="2.28", help="the oldest version to link for (default: %(default)s)")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("sources", nargs="*", help="C sources of the archive")
    arguments = parser.parse_args()
    newest = release(arguments.glibc)
    compiler = arguments.compiler
    loader = loader_of(compiler)
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)

    stubs = collections.defaultdict(list)
    for s in symbols(find(compiler, "libc.so.6"), newest):
        if re.match(r"(__)?(res_|ns_|dn_|gai_(cancel|error|suspend)|getaddrinfo_a)", s.name):
            continue  # symbols of libresolv and libanl before glibc 2.34; nothing in this tree uses them
        home = next((lib for lib, names in MOVED.items() if re.fullmatch(names, s.name)), "libc.so.6")
        stubs["libc.so.6" if IN_LIBC_TOO.fullmatch(s.name) else home].append(s)
    for library in ("libm.so.6", loader):
        stubs[library] = list(symbols(find(compiler, library), newest))
    for soname in ("libc.so.6", loader):
        if not stubs[soname]:
            sys.exit(f"link_stubs: {soname} of the compiler {compiler} has no symbols")
    for soname, defined in stubs.items():
        make_stub(compiler, folder, soname, defined)

    objects = []
    for source in arguments.sources:
        objects.append(folder / (pathlib.Path(source).stem + ".o"))
        subprocess.run([compiler, "-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra",
                        "-Werror", "-c", source, "-o", objects[-1]], check=True)
    archive = folder / "libnewer.a"
    archive.unlink(missing_ok=True)
    subprocess.run([ask(compiler, "-print-prog-name=ar"), "rcsD", archive, *objects], check=True)

    nonshared = find(compiler, "libc_nonshared.a")
    as_needed = " ".join(str(folder / name) for name in (*MOVED, loader))
    (folder / "libc.so").write_text(
        f"GROUP ( {folder}/libc.so.6 {nonshared} AS_NEEDED ( {as_needed} ) {archive} )\n", encoding="utf-8")
    for soname in ("libm.so.6", *MOVED):
        link = folder / soname.rpartition(".")[0]
        link.unlink(missing_ok=True)
        link.symlink_to(soname)


if __name__ == "__main__":
    main()
