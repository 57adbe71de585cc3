#!/bin/sh
# The image's entry point: copies Usher's libraries into FOLDER, a volume that other containers mount: copy.sh [FOLDER]
set -eu
to=${1:-/usher}
[ -d "$to" ] || { echo "usher: there is no folder $to: mount a volume there, or name another folder in args" >&2; exit 1; }
# A program that has an older library mapped keeps it: the new file is complete when it gets its name.
for library in libusher.so libusher-all.so libusher-stat.so; do
  new=$(mktemp "$to/.$library.XXXXXX") || { echo "usher: user $(id -u) may not write to $to: set runAsUser" >&2; exit 1; }
  cp "/opt/usher/$library" "$new"
  chmod 644 "$new"
  mv -f "$new" "$to/$library"
done
