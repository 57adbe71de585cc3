# Sourced by debian_root.sh and debian_source.sh, which download packages of a Debian release. They run apt with a
# configuration and a state of its own. It verifies packages by the keyring of this system, installs nothing, and needs
# no root.

# Makes an empty folder, unless it was made from the same arguments: then the script ends.
#   begin_folder FOLDER ARGUMENTS
begin_folder() {
  mkdir -p "$1"
  folder=$(cd "$1" && pwd)
  made=$folder/.made arguments=$2
  [ "$(cat "$made" 2>/dev/null)" != "$arguments" ] || exit 0
  rm -rf "$folder"
}

# Sets APT_CONFIG, for packages of a type (deb, deb-src) of a release. More lines of the configuration are on the standard input.
#   configure_apt TYPE RELEASE
configure_apt() {
  apt=$folder/.apt
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/sources"
  : > "$apt/status"
  cat > "$apt/sources/debian.sources" <<EOF
Types: $1
URIs: ${MIRROR:-http://deb.debian.org/debian}
Suites: $2
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
  { cat; cat <<EOF; } > "$apt/apt.conf"
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/sources";
EOF
  export APT_CONFIG="$apt/apt.conf"
}

# Ends the script with the end of apt's output.
apt_failed() {
  tail -20 "$apt/log" >&2
  echo "usher: apt-get failed (above)" >&2
  exit 1
}
