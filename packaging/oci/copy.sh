#!/bin/sh
# The image's entry point: copies Usher's libraries into FOLDER, a volume that other containers mount: copy.sh [FOLDER]
set -eu
to=${1:-/usher}
[ -d "$to" ] || { echo "usher: there is no folder $to: mount a volume there, or name another folder in args" >&2; exit 1; }
# A running program that has an older file mapped keeps that file. The new file gets its final name only when it is
# complete.
for library in libusher.so libusher-stat.so; do
  new=$(mktemp "$to/.$library.XXXXXX") || { echo "usher: user $(id -u) may not write to $to: set runAsUser" >&2; exit 1; }
  cp "/opt/usher/$library" "$new"
  chmod 644 "$new"
  mv -f "$new" "$to/$library"
done
