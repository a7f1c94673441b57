#!/bin/sh
# Builds and installs the C library: fastclock.h, fastclock.hpp, the shared and the static library,
# libfastclock-preload.so, fastclock.pc and fastclock(3). Usage: [DESTDIR=DIR] scripts/install-c.sh PREFIX
#
# Files go below DESTDIR$PREFIX; fastclock.pc names PREFIX. LIBDIR is PREFIX/lib unless it is set.
set -eu
# Other users read the files, so the installer's umask must not apply.
umask 022

say() { printf 'install-c: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}

case "${1:-}" in
/*) prefix=$1 ;;
*) die "say where to: scripts/install-c.sh PREFIX, an absolute path" ;;
esac
libdir=${LIBDIR:-$prefix/lib}
case "$libdir" in /*) ;; *) die "LIBDIR must be an absolute path: $libdir" ;; esac
destination=${DESTDIR:-}
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
if [ -z "${PREBUILT:-}" ] && command -v "$cargo" >/dev/null 2>&1; then
    # Cargo's messages give the paths of the libraries, so no option or variable of cargo can lead elsewhere.
    built=$(for part in --lib '--example fastclock_preload'; do
        # shellcheck disable=SC2086 # one or two words
        "$cargo" build --release --package fastclock-c $part --message-format json-render-diagnostics || exit
    done) || die "the library cannot be built"
    built_file() { # its name
        printf '%s\n' "$built" | grep -o "\"[^\"]*/$1\"" | tail -n 1 | tr -d '"'
    }
else
    # Without cargo, as under sudo or in a package: take the libraries built before.
    release=${CARGO_TARGET_DIR:-target}/release
    built_file() { find "$release/" "$release/examples/" -maxdepth 1 -name "$1" 2>/dev/null || :; }
fi
shared=$(built_file 'libfastclock[.]so')
static=$(built_file 'libfastclock[.]a')
preload=$(built_file 'libfastclock_preload[.]so')
case "$shared:$static:$preload" in
*.so:*.a:*.so) ;;
*) die "the library is not built and cargo is missing; try: make build, as a user that has it" ;;
esac

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
abi=${version%%.*}
[ -n "$abi" ] || die "the version is not where it was"

folder=crates/fastclock-c
place() { # mode, file, directory, name
    install -d "$destination$3"
    install -m "$1" "$2" "$destination$3/$4"
}
place 644 $folder/include/fastclock.h "$prefix/include" fastclock.h
place 644 $folder/include/fastclock.hpp "$prefix/include" fastclock.hpp
[ ! -e $folder/include/fastclock_page.h ] ||
    place 644 $folder/include/fastclock_page.h "$prefix/include" fastclock_page.h
place 644 "$static" "$libdir" libfastclock.a
# A running program has the old file mapped, so the new file replaces it instead of overwriting it.
replace() { # file, name
    place 755 "$1" "$libdir" "$2.new"
    mv -f "$destination$libdir/$2.new" "$destination$libdir/$2"
}
real=libfastclock.so.$version
replace "$shared" "$real"
replace "$preload" libfastclock-preload.so
ln -sf "$real" "$destination$libdir/libfastclock.so.$abi"
ln -sf "libfastclock.so.$abi" "$destination$libdir/libfastclock.so"
place 644 $folder/man/fastclock.3 "$prefix/share/man/man3" fastclock.3

install -d "$destination$libdir/pkgconfig"
case "$libdir" in "$prefix"/*) libdir_word="\${prefix}${libdir#"$prefix"}" ;; *) libdir_word=$libdir ;; esac
cat >"$destination$libdir/pkgconfig/fastclock.pc" <<END
prefix=$prefix
libdir=$libdir_word
includedir=\${prefix}/include

Name: fastclock
Description: A fast clock with an error bound, which follows the kernel's and falls back to it
Version: $version
Libs: -L\${libdir} -lfastclock
Libs.private: -lpthread -ldl -lm
Cflags: -I\${includedir}
END

# The dynamic loader looks into its cache, which must be updated on a running system.
if [ -z "$destination" ] && [ "$(id -u)" = 0 ]; then
    case "$libdir" in /usr/lib* | /usr/local/lib*) ldconfig ;; esac
fi
say "fastclock $version is in $destination$prefix"
