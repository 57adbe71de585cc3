#!/bin/sh
# Downloads the upstream sources of Debian source packages into a folder and verifies them by the keyring of this system. Unpacks and
# installs nothing, and needs no root.
#
#   tools/debian_source.sh RELEASE FOLDER PACKAGE...
#
# Does nothing if the folder was made from the same arguments. MIRROR: another one than deb.debian.org.
set -eu
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
arguments=$*
release=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
made=$folder/.made
[ "$(cat "$made" 2>/dev/null)" != "$arguments" ] || exit 0

rm -rf "$folder"
apt=$folder/.apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/sources"
: > "$apt/status"
cat > "$apt/sources/debian.sources" <<SOURCES
Types: deb-src
URIs: ${MIRROR:-http://deb.debian.org/debian}
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
cat > "$apt/apt.conf" <<CONF
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/sources";
CONF
export APT_CONFIG="$apt/apt.conf"

if ! { apt-get -q update && (cd "$folder" && apt-get -q source --download-only --tar-only "$@"); } > "$apt/log" 2>&1; then
  tail -20 "$apt/log" >&2
  echo "usher: apt-get failed (above)" >&2
  exit 1
fi
rm -rf "$apt"
printf '%s' "$arguments" > "$made"
