#!/bin/sh
# Runs a command in a user namespace in which Linux starts programs for AArch64 by qemu-aarch64 of build/qemu-root, with the
# libraries of build/aarch64-root. The namespace has its own binfmt_misc (Linux 6.7), so that nothing outside changes.
#
#   tests/aarch64/emulated.sh COMMAND...
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
export QEMU_LD_PREFIX="$tree/build/aarch64-root"
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# Flags of binfmt_misc. O: /proc/self/exe and the program's path are those of the program, not of qemu. F: the kernel
# opens qemu now, so that a later change of the root directory does not matter.
exec unshare --user --map-root-user --mount sh -c 'mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
  printf "%s" "$1" > /proc/sys/fs/binfmt_misc/register && shift && exec "$@"' sh \
  ":qemu-aarch64:M::$magic:$mask:$tree/build/qemu-root/usr/bin/qemu-aarch64:OCF" "$@"
