#!/bin/sh
# Downloads packages of a Debian release for an architecture, with everything that they depend on, verifies them by the keyring of
# this system, and unpacks them below a folder. Installs nothing, runs no maintainer script, and needs no root.
#
#   tools/debian_root.sh RELEASE ARCHITECTURE FOLDER PACKAGE...    PACKAGE- with a minus: without its dependencies
#
# Does nothing if the folder was made from the same arguments. MIRROR: another one than deb.debian.org.
set -eu
[ $# -ge 4 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
. "$(dirname "$0")/debian_apt.sh"
release=$1 architecture=$2
begin_folder "$3" "$*"
shift 3
# The index of sid is valid for a week, and that of a mirror may be older. Its signature is checked nevertheless.
configure_apt deb "$release" <<EOF
APT::Architecture "$architecture";
APT::Architectures "$architecture";
APT::Install-Recommends "false";
Acquire::Check-Valid-Until "false";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
EOF

whole='' alone=''
for package; do
  case $package in
    *-) alone="$alone ${package%-}" ;;
    *) whole="$whole $package" ;;
  esac
done
if ! { apt-get -q update && { [ -z "$whole" ] || apt-get -qy --download-only install $whole; } &&
       { [ -z "$alone" ] || (cd "$apt/cache/archives" && apt-get -q download $alone); }; } > "$apt/log" 2>&1; then
  apt_failed
fi

# /lib and the like are links into /usr, as on an installed system.
for name in bin sbin lib lib64; do
  mkdir -p "$folder/usr/$name"
  ln -s "usr/$name" "$folder/$name"
done
for archive in "$apt"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$folder" --keep-directory-symlink --no-same-owner
  dpkg-deb -W --showformat='${Package} ${Version} ${Architecture}\n' "$archive" >> "$folder/.packages"
done
# Makes absolute links relative, since they would lead to files of this system.
find "$folder/usr" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -ms --relative-to="$(dirname "$link")" "$folder$(readlink "$link")")" "$link"
done
rm -rf "$apt"
printf '%s' "$arguments" > "$made"
