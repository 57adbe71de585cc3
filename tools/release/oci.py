"""A container image, as an OCI layout in a tar archive, that copies the libraries into a volume of a pod."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from tools.release import archive

BUSYBOX = pathlib.Path("/bin/busybox")  # Debian: busybox-static
APPLETS = ("chmod", "cp", "id", "mktemp", "mv", "sh")  # of packaging/oci/copy.sh
LIBRARIES = ("libusher.so", "libusher-all.so", "libusher-stat.so")
USER = "65532:65532"  # a number that is neither root's nor nobody's, which servers often have


def output_of(*command):
    done = subprocess.run([str(word) for word in command], check=False, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}usher: release: exit status {done.returncode} of: {' '.join(map(str, command))}")
    return done.stdout


def notice_of_busybox(folder):
    """Returns the notice about BusyBox, with the versions of the sources and the licences that BusyBox's packages
    require."""
    def field(name):
        return output_of("dpkg-query", "-W", "-f", f"${{{name}}}", "busybox-static").strip()

    text = (folder / "NOTICE.busybox").read_text(encoding="ascii")
    text = text.replace("@source@", field("source:Version")).replace("@libraries@", field("Built-Using"))
    licences = [pathlib.Path("/usr/share/common-licenses", name).read_text(encoding="utf-8")
                for name in ("GPL-2", "LGPL-2.1")]
    return "\n".join([text, *licences]).encode()


def files(stage, release):
    if not BUSYBOX.is_file() or "INTERP" in output_of("readelf", "-W", "-l", BUSYBOX):
        sys.exit(f"usher: release: there is no static {BUSYBOX}: apt-get install busybox-static")
    folder = release.tree / "packaging/oci"
    tree = {"bin/busybox": BUSYBOX} | {f"bin/{name}": archive.Link("busybox") for name in APPLETS}
    tree |= {f"opt/usher/{name}": stage / "lib" / name for name in LIBRARIES}
    tree["opt/usher/copy.sh"] = folder / "copy.sh"
    tree["opt/usher/LICENSE"] = release.tree / "LICENSE"
    tree["opt/usher/NOTICE"] = release.tree / "packaging/NOTICE"
    tree["opt/usher/NOTICE.busybox"] = notice_of_busybox(folder)
    return tree


def make(stage, out, release):
    if shutil.which("umoci") is None:
        sys.exit("usher: release: there is no umoci: apt-get install umoci")
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch))
    history = ("--history.created", created, "--history.created_by", f"usher {release.version}")
    labels = {"title": "usher", "version": release.version, "revision": release.commit,
              "licenses": "MIT AND GPL-2.0-only AND LGPL-2.1-or-later",
              "description": "copies libusher.so, which gives programs other locks, into a volume"}
    with tempfile.TemporaryDirectory(prefix="usher-oci-") as temporary:
        layer, layout = pathlib.Path(temporary) / "layer.tar", pathlib.Path(temporary) / "layout"
        layer.write_bytes(archive.tar(files(stage, release), release.epoch))
        image = f"{layout}:{release.version}"
        output_of("umoci", "init", "--layout", layout)
        output_of("umoci", "new", "--image", image)
        output_of("umoci", "raw", "add-layer", "--image", image, *history, layer)
        output_of("umoci", "config", "--image", image, "--no-history", "--created", created,
                  "--author", "The Usher authors", "--os", "linux", "--architecture", "amd64",
                  "--config.user", USER, "--config.env", "PATH=/bin", "--config.workingdir", "/",
                  "--config.entrypoint", "/opt/usher/copy.sh",
                  *(word for name, text in labels.items() for word in
                    ("--config.label", f"org.opencontainers.image.{name}={text}",
                     "--manifest.annotation", f"org.opencontainers.image.{name}={text}")))
        output_of("umoci", "gc", "--layout", layout)
        path = out / f"usher-{release.version}-oci.tar"
        path.write_bytes(archive.tar(archive.tree_of(layout), release.epoch))
        return [path]
