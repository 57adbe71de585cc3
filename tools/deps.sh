#!/bin/sh
# Installs the Debian packages of packages.txt that are missing, by apt-get, as root or with sudo. Prints them with the
# reasons for which they are needed. A section of packages.txt begins with `# -- NAME`. With arguments, installs the
# sections whose NAME contains one of the arguments. Without arguments, installs the sections `to build`, `to test and
# measure`, `package` (which is tested, too) and `the demo`.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- build test demo package

wanted=$(for section in "$@"; do
  awk -v want="$section" '
    /^# --/ { on = index($0, want) > 0; next }
    /^#/ || NF == 0 { next }
    on { print }' packages.txt
done | sort -u)

missing=$(printf '%s\n' "$wanted" | while read -r name why; do
  [ -z "$name" ] || dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || printf '%s\t%s\n' "$name" "$why"
done)
[ -n "$missing" ] || exit 0
if ! command -v apt-get > /dev/null; then
  echo "usher: there is no apt-get: install what packages.txt lists, and give CMake the commands of CONTRIBUTING.md" >&2
  exit 1
fi

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo > /dev/null; then
  as_root=sudo
else
  names=$(printf '%s\n' "$missing" | cut -f1 | tr '\n' ' ')
  echo "usher: missing packages, and neither root nor sudo: install them by 'apt-get install $names'" >&2
  exit 1
fi
echo "usher: installing Debian packages:" >&2
printf '%s\n' "$missing" | sed 's/^/  /' >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root apt-get -q update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends \
  $(printf '%s\n' "$missing" | cut -f1); } > "$log" 2>&1; then
  tail -20 "$log" >&2
  echo "usher: apt-get failed (above); mend that and run make again" >&2
  exit 1
fi
