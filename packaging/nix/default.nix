# Builds Usher from this tree, without the checker:
#   nix-build -E 'with import <nixpkgs> { }; callPackage ./packaging/nix { }'
#
# Checked: nix-instantiate --parse (tests/package/test_archives.py), and that nixpkgs has packages of these names.
# Not checked: the build, for lack of nixpkgs.
{
  lib,
  stdenv,
  boost,
  cli11,
  cmake,
  elfutils,
  expat,
  fmt,
  libsystemtap,
  ninja,
  nlohmann_json,
  pkg-config,
  protozero,
  re2,
  tomlplusplus,
  zlib,
}:

stdenv.mkDerivation {
  pname = "usher";
  version = builtins.head (
    builtins.match ''.*define USHER_VERSION "([0-9.]+)".*'' (builtins.readFile ../../include/usher/version.h)
  );
  src = lib.cleanSource ../..;

  nativeBuildInputs = [
    cmake
    ninja
    pkg-config
  ];
  buildInputs = [
    boost
    cli11
    elfutils
    expat
    fmt
    libsystemtap # sys/sdt.h, the probes of libusher.so
    nlohmann_json
    protozero
    re2
    tomlplusplus
    zlib
  ];
  cmakeFlags = [
    "-DBUILD_TESTING=OFF"
    "-DUSHER_BUILD_CHECKER=OFF"
    "-DUSHER_BUILD_EXAMPLES=OFF"
    "-DUSHER_WERROR=OFF"
    # The command finds its files relative to itself. nixpkgs would pass whole paths.
    "-DCMAKE_INSTALL_BINDIR=bin"
    "-DCMAKE_INSTALL_DATADIR=share"
    "-DCMAKE_INSTALL_DOCDIR=share/doc/usher"
    "-DCMAKE_INSTALL_INCLUDEDIR=include"
    "-DCMAKE_INSTALL_LIBDIR=lib"
    "-DCMAKE_INSTALL_LIBEXECDIR=libexec"
    "-DCMAKE_INSTALL_MANDIR=share/man"
  ];
  postInstall = ''
    cp ../packaging/NOTICE $out/share/doc/usher
  '';

  meta = {
    description = "Run programs under better locks";
    license = lib.licenses.mit;
    mainProgram = "usher";
    platforms = [ "x86_64-linux" ];
  };
}
