#!/bin/sh
# Builds the Debian packages of this tree into a folder, and prints how to install them: tools/deb.sh FOLDER [JOBS].
# debian/ defines the packages, except for the version (include/usher/version.h) and the packages that the build needs
# (packages.txt). DEBFULLNAME and DEBEMAIL, if set, name the maintainer. USHER_BUILT, if set, is a folder of a finished
# build, which was made for the Debian architecture USHER_ARCHITECTURE.
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)

# dpkg-buildpackage writes into the tree in which it runs, and beside it. So it runs in a tree of symbolic links, which
# has a copy of debian/.
work=$(mktemp -d "$out/tree.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM  # otherwise the shell ends without the trap above
ln -s "$tree"/* "$work"
rm "$work/debian"
cp -R -P "$tree/debian" "$work"
needed=$(awk '/^# --/ { on = /to build/ } on && NF && !/^#/ { printf ", %s", $1 }' "$tree/packages.txt")
maintainer=$(sed -n 's/^Maintainer: //p' "$tree/debian/control")
[ -z "${DEBFULLNAME:-}" ] || maintainer="$DEBFULLNAME <${maintainer##*<}"
case ${DEBEMAIL:-} in
  '') ;;
  *'<'*) maintainer=$DEBEMAIL ;;  # "Name <address>"
  *) maintainer="${maintainer%% <*} <$DEBEMAIL>" ;;
esac
sed "s/^Build-Depends: .*/&$needed/" "$tree/debian/control" |
  MAINTAINER=$maintainer awk '/^Maintainer: / { print "Maintainer: " ENVIRON["MAINTAINER"]; next } 1' > "$work/debian/control"
cat > "$work/debian/changelog" << END
usher ($(sed -n 's/^#define USHER_VERSION "\(.*\)"/\1/p' "$tree/include/usher/version.h")) unstable; urgency=medium

  * Built from commit $(git -C "$tree" describe --always --dirty --exclude="*" --abbrev=40 2> /dev/null || echo unknown).

 -- $maintainer  $(git -C "$tree" log -1 --format=%cD 2> /dev/null || date -R)
END

# With a finished build, the packages that a build needs are not required.
if [ -n "${USHER_BUILT:-}" ]; then
  how="--host-arch=$USHER_ARCHITECTURE --no-check-builddeps"
else
  how=
  echo "usher: building everything with Debian's flags, which takes about as long as make build; $out/build.log says how far it is" >&2
fi
cd "$work"
if ! DEB_BUILD_OPTIONS="terse ${DEB_BUILD_OPTIONS:-}" \
  dpkg-buildpackage $how --build=binary --no-sign --jobs="${2:-$(nproc)}" > "$out/build.log" 2>&1; then
  tail -40 "$out/build.log" >&2
  echo "usher: no packages (the end of $out/build.log is above)" >&2
  exit 1
fi
packages=$(awk -v out="$out" '/\.deb / { print out "/" $1 }' debian/files)
printf '%s\n' "$packages" 'Install them, as root, by' "  apt install $(echo $packages)"
