#!/bin/sh
# ./install.sh [PREFIX]            installs below PREFIX (default: /usr/local), or upgrades what is installed there
# ./install.sh --remove [PREFIX]   removes exactly what was installed; PREFIX/share/usher/@uninstall@ does the same
# If DESTDIR is set, it is put before PREFIX.
#
# PREFIX/share/usher/@list@ lists what is installed, in the order in which it is removed. A line is a path below PREFIX;
# one that ends in / is a folder that an installation made, and is removed if it is empty.
set -eu
umask 022
list=share/usher/@list@
fail() { echo "@package@: $*" >&2; exit 1; }

# Enters the folder that contains the path $1 below the prefix; status 1: there is no such folder. All further steps
# name files relative to the entered folder. So another user, who may own a folder on the way, cannot divert them by a
# link in its place.
enter() {
  case /$1/ in *//* | */./* | */../*)
    fail "refused: the path '$1' in $root/$list is not one below $root" ;;
  esac
  folder=$root/$1
  cd -P -- "${folder%/*}/" 2> /dev/null || return 1
  case $(pwd -P)/ in "$root"/*) ;; *) fail "refused: a link on the way to $root/$1 leads out of $root" ;; esac
}

# Makes the file $1 below the prefix, from the file or link $2 or from standard input. The new file is written in a
# folder that no other user can enter, and then renamed, so that a running program keeps the old file.
put() (
  enter "$1" || fail "cannot enter the folder of $root/$1"
  name=./${1##*/}
  [ ! -d "$name" ] || fail "$root/$1 is a folder: move it away"
  new=./.usher.$$
  trap 'rm -rf "$new"' EXIT
  trap 'exit 1' HUP INT TERM
  mkdir -m 700 "$new" || fail "cannot write into the folder of $root/$1"
  if [ $# = 2 ]; then cp -P -- "$2" "$new/file"; else cat > "$new/file"; fi || fail "cannot write $root/$1"
  [ -h "$new/file" ] || chmod u=rwX,go=rX "$new/file"
  mv -f "$new/file" "$name"
)

# Removes the paths on standard input, folders only if they are empty.
remove() {
  status=0
  while IFS= read -r path; do
    (
      [ "$path" != ./ ] || { rmdir "$root/" 2> /dev/null || :; exit 0; }
      enter "${path%/}" || exit 0
      last=${path%/} last=./${last##*/}
      case $path in */) rmdir "$last" 2> /dev/null || : ;; *) rm -f "$last" ;; esac
    ) || status=1
  done
  return $status
}

# Prints the list of an earlier installation. The list must be writable only for its owner, because the files in it will
# be removed.
installed() {
  [ -e "$root/$list" ] || return 0
  [ -n "$(find "$root/$list" -prune -type f -user "$(id -u)" ! -perm -020 ! -perm -002)" ] ||
    fail "$root/$list can be changed by another user than $(id -u): run this as the user who installed"
  cat "$root/$list"
}

[ ! -h "$0" ] || fail "run the script itself, not a link to it"
here=$(cd -P -- "$(dirname -- "$0")" && pwd -P)
what=install
case ${1-} in --remove) what=remove; shift ;; -*) fail "usage: $0 [--remove] [PREFIX]" ;; esac
prefix=${DESTDIR-}${1-/usr/local}
case $here/${0##*/} in */share/usher/@uninstall@) what=remove prefix=$here/../.. ;; esac

if [ $what = remove ]; then
  root=$(cd -P -- "$prefix" 2> /dev/null && pwd -P) || fail "there is no folder $prefix: nothing is installed there"
  root=${root%/}
  [ -e "$root/$list" ] || fail "there is no $root/$list: nothing is installed there"
  old=$(installed)
  printf '%s\n' "$old" | remove
  exit
fi

made=
[ -d "$prefix" ] || { mkdir -p -- "$prefix" && made=./; }
root=$(cd -P -- "$prefix" && pwd -P) root=${root%/}
old=$(installed)
known=$(cat "$root"/share/usher/installed-files* 2> /dev/null || :)
is_known() { printf '%s\n' "$known" | grep -qxF -e "$1"; }
! is_known ./ || made=./
while IFS= read -r path; do # a folder comes before its content
  case $path in */) folder=${path%/} ;; *) continue ;; esac
  [ -d "$root/$folder" ] && ! is_known "$path" || made="$path
$made"
  (enter "$folder" && { [ -d "./${folder##*/}" ] || mkdir "./${folder##*/}"; }) || fail "cannot make $root/$folder"
done < "$here/files"
files=$(grep -v '/$' "$here/files")
new=$(printf '%s\n' "$files" "$list" "$made" | grep .)
gone=$(printf '%s\n' "$old" | grep -vxF -e "$new" || :) # of an older version

# Until everything is installed, the list also has the files that will be removed, so that an interrupted installation
# can be removed.
printf '%s\n' "$gone" "$new" | grep . | put "$list"
printf '%s\n' "$files" | while IFS= read -r path; do put "$path" "$here/$path"; done
printf '%s\n' "$gone" | grep . | remove
printf '%s\n' "$new" | put "$list"
echo "@package@ @version@ is installed below $root; $root/share/usher/@uninstall@ removes it"
