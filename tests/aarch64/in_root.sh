#!/bin/sh
# Runs a shell command, as root, in a Debian system for AArch64, under emulation. The system is build/aarch64-RELEASE,
# which tools/debian_root.sh fills. This tree is visible there at its own path. What the command changes in the system
# is gone when it ends.
#
#   tests/aarch64/in_root.sh RELEASE COMMAND
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
# All mounts, also that of /mnt, are in the mount namespace of emulated.sh, and end with it.
exec "$here/emulated.sh" sh -eu -c '
  mount -t tmpfs tmpfs /mnt
  root=/mnt/root
  cp -R -P -p "$1" "$root"  # a copy and not an overlay, in which dpkg cannot rename folders
  mkdir -p "$root$2" "$root/proc" "$root/dev" "$root/tmp" "$root/root"
  mount --rbind "$2" "$root$2"
  mount --rbind /proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"
  # QEMU_LD_PREFIX is not set here, so that programs use the libraries of the Debian system.
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root sh -c "cd \"\$0\" && $3" "$2"
  ' sh "$tree/build/aarch64-$1" "$tree" "$2"
