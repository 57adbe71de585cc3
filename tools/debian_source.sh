#!/bin/sh
# Downloads the upstream sources of Debian source packages into a folder and verifies them by the keyring of this system. Unpacks and
# installs nothing, and needs no root.
#
#   tools/debian_source.sh RELEASE FOLDER PACKAGE...
#
# Does nothing if the folder was made from the same arguments. MIRROR: another one than deb.debian.org.
set -eu
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
. "$(dirname "$0")/debian_apt.sh"
release=$1
begin_folder "$2" "$*"
shift 2
configure_apt deb-src "$release" < /dev/null

if ! { apt-get -q update && (cd "$folder" && apt-get -q source --download-only --tar-only "$@"); } > "$apt/log" 2>&1; then
  apt_failed
fi
rm -rf "$apt"
printf '%s' "$arguments" > "$made"
