#!/bin/sh
# Makes packages of the files that scripts/release-build.sh has built, below CARGO_TARGET_DIR/packages.
# Usage: SOURCE_DATE_EPOCH=SECONDS CARGO_TARGET_DIR=DIR scripts/packages.sh deb|rpm|tarball|sbom
set -eu
umask 022
cd "$(dirname "$0")/.."

say() { printf 'packages: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}
: "${SOURCE_DATE_EPOCH:?says of when the files in the packages are}"
source=$PWD
mkdir -p "${CARGO_TARGET_DIR:?says where the binaries are}/packages"
built=$(cd "$CARGO_TARGET_DIR" && pwd)
packages=$built/packages
work=$built/work
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
export SOURCE_DATE_EPOCH CARGO_TARGET_DIR="$built"

# One copyright file for all kinds of packages names the crates that are linked in.
scripts/copyright.py >"$built/copyright"

deb() {
    rm -rf "$work/deb" "$packages"/*.deb
    tree=$work/deb/clockscope-$version
    mkdir -p "$tree"
    # The files that git would clone, without build output.
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar -C "$tree" --extract
    cp -R packaging/debian "$tree/debian"
    cp "$built/copyright" "$tree/debian/copyright"
    [ "$(cd "$tree" && dpkg-parsechangelog --show-field Version)" = "$version" ] ||
        die "packaging/debian/changelog has no entry for $version"
    # -d: the compiler need not come from a package. PREBUILT: the package gets the same binaries as the other packages.
    (cd "$tree" && PREBUILT=yes dpkg-buildpackage -us -uc -b -d) >"$work/deb.log" 2>&1 ||
        { tail -n 30 "$work/deb.log" >&2; die "dpkg-buildpackage failed; all it said is in $work/deb.log"; }
    mv "$work"/deb/*.deb "$packages/"
}

rpm() {
    rm -rf "$work/rpm" "$packages"/*.rpm
    rpmbuild -bb --define "_topdir $work/rpm" --define "source $source" --define "built $built" \
        --define "version $version" packaging/rpm/clockscope.spec >"$work/rpm.log" 2>&1 ||
        { tail -n 30 "$work/rpm.log" >&2; die "rpmbuild failed; all it said is in $work/rpm.log"; }
    mv "$work"/rpm/RPMS/*/*.rpm "$packages/"
}

# A tarball for each static binary, with its other files as below a prefix.
tarball() {
    rm -rf "$work/tarball"
    DESTDIR=$work/tarball/all scripts/install.sh install /usr >/dev/null
    for binary in "$built"/*-unknown-linux-gnu/release/clockscope; do
        [ ! -x "$binary" ] || tarball_of "$binary"
    done
}

tarball_of() { # binary
    triple=${1#"$built"/}
    name=clockscope-$version-${triple%%-*}-linux
    tree=$work/tarball/$name
    rm -f "$packages/$name.tar.gz"
    all=$work/tarball/all/usr
    mkdir -p "$tree/bin"
    # `strip` does not know other architectures; the linker has stripped such a binary.
    if [ "${triple%%-*}" = "$(uname -m)" ]; then
        strip -o "$tree/bin/clockscope" "$1"
    else
        install -m 755 "$1" "$tree/bin/clockscope"
    fi
    mkdir -p "$tree/share/man"
    cp -R "$all/share/man/man1" "$tree/share/man/"
    cp -R "$all/share/bash-completion" "$all/share/zsh" "$all/share/fish" "$tree/share/"
    cp -R "$all/share/doc/clockscope/." "$tree/"
    cp "$built/copyright" "$tree/COPYRIGHT-OF-CRATES"
    cp -R packaging/clockscope-*.service packaging/clockscope-doctor.timer packaging/clockscope.sysusers "$tree/"
    cp -R "$all/share/clockscope" "$tree/share/"
    rm "$tree/share/clockscope/installed"
    (cd "$tree" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
    tar -C "$work/tarball" --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu "$name" | gzip -n9 >"$packages/$name.tar.gz"
}

# The crates that the command is made of, with versions, licences and sums, in the form of CycloneDX.
sbom() {
    "${CARGO:-cargo}" cyclonedx --help >/dev/null 2>&1 ||
        die "cargo-cyclonedx is missing; try: cargo install cargo-cyclonedx --locked"
    tree=$work/sbom
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar -C "$tree" --extract
    # cargo cyclonedx writes a file beside the manifest of each crate.
    (cd "$tree" && "${CARGO:-cargo}" cyclonedx -qq --format json --spec-version 1.5 --no-build-deps \
        --manifest-path crates/clockscope/Cargo.toml --override-filename sbom)
    # The path of the temporary folder carries no information.
    sed "s|file://$tree|file:///clockscope|g" "$tree/crates/clockscope/sbom.json" >"$packages/clockscope-$version.cdx.json"
}

mkdir -p "$work"
case "${1:-}" in
deb | rpm | tarball | sbom) "$1" ;;
*) die "say what to make: deb, rpm, tarball or sbom" ;;
esac
(cd "$packages" && ls -l | awk 'NR > 1 { print "packages: " $9 ": " $5 " bytes" }')
