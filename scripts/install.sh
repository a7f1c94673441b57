#!/bin/sh
# Installs below DESTDIR$PREFIX the files that `make build` has built: the command, its manual pages and completions,
# the units of `clockscope serve` and of doctor's metrics, rules for Prometheus, a dashboard for Grafana, the
# documentation, and the C library of fastclock. Or removes the installed files.
# Usage: [DESTDIR=DIR] [LIBDIR=DIR] [ZSHDIR=DIR] scripts/install.sh install|uninstall PREFIX
#
# PREFIX/share/clockscope/installed lists all installed files, and the folders that the installation made. Only these
# are removed. An installation over an older one adds to the list.
set -eu
# Other users run the command, so the installer's umask must not apply.
umask 022

say() { printf 'install: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}
usage='scripts/install.sh install|uninstall PREFIX'
[ $# = 2 ] || die "say what and where to: $usage"
prefix=$2
case "$prefix" in
/*/) prefix=${prefix%/} ;;
/*) ;;
*) die "PREFIX must be an absolute path: '$prefix'; $usage" ;;
esac
case "$prefix" in
*[!A-Za-z0-9/._+~@-]*) die "pkg-config and systemd cannot take the PREFIX '$prefix'; try one without spaces and signs" ;;
esac
destination=${DESTDIR:-}
case "$destination" in
/) destination= ;;
'' | /*) ;;
*) destination=$PWD/$destination ;;
esac
list=$prefix/share/clockscope/installed
enabled='clockscope-serve.service clockscope-doctor.timer'
LC_ALL=C
export LC_ALL

# systemd and the loader need to be told of changes, unless the files are for a package (DESTDIR).
is_this_system() { [ -z "$destination" ] && [ "$(id -u)" = 0 ]; }

uninstall() {
    [ -e "$destination$list" ] || die "nothing is installed in $destination$prefix: there is no $destination$list"
    for unit in $enabled; do
        if is_this_system && systemctl is-enabled --quiet "$unit" 2>/dev/null; then
            systemctl disable --now "$unit"
        fi
    done
    grep -qv '^/' "$destination$list" && die "$destination$list is damaged: it names something that is no absolute path"
    # In reverse order a folder comes after its files.
    sort -r "$destination$list" | while IFS= read -r path; do
        case "$path" in
        */) [ ! -d "$destination$path" ] || rmdir --ignore-fail-on-non-empty "$destination${path%/}" ;;
        *) rm -f "$destination$path" ;;
        esac
    done
    say "removed what was installed in $destination$prefix"
}

# Fills $work/tree with the files to install.
stage() {
    cd "$(dirname "$0")/.."
    target=${CARGO_TARGET_DIR:-target}
    for built in release/clockscope man/clockscope.1; do
        [ -e "$target/$built" ] || die "$target/$built is not built; try: make build"
    done
    tree=$work/tree
    put() { install -D -m "$1" "$2" "$tree$3"; }

    strip -o "$work/clockscope" "$target/release/clockscope"
    put 755 "$work/clockscope" "$prefix/bin/clockscope"
    for page in "$target"/man/*.1; do
        put 644 "$page" "$prefix/share/man/man1/${page##*/}"
    done
    for shell in bash zsh fish; do
        "$target/release/clockscope" completions "$shell" >"$work/$shell"
    done
    put 644 "$work/bash" "$prefix/share/bash-completion/completions/clockscope"
    put 644 "$work/zsh" "${ZSHDIR:-$prefix/share/zsh/site-functions}/_clockscope"
    put 644 "$work/fish" "$prefix/share/fish/vendor_completions.d/clockscope.fish"

    for unit in $enabled clockscope-doctor.service; do
        sed "s|^ExecStart=/usr/|ExecStart=$prefix/|" "packaging/$unit" >"$work/$unit"
        put 644 "$work/$unit" "$prefix/lib/systemd/system/$unit"
    done
    put 644 packaging/clockscope.sysusers "$prefix/lib/sysusers.d/clockscope.conf"

    for rules in clockscope clockscope-node; do
        sed "s|file:///usr/share/doc|file://$prefix/share/doc|" "packaging/prometheus/$rules.rules.yml" >"$work/$rules"
        put 644 "$work/$rules" "$prefix/share/clockscope/prometheus/$rules.rules.yml"
    done
    put 644 packaging/grafana/clockscope.json "$prefix/share/clockscope/grafana/clockscope.json"

    for page in README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE docs/*.md; do
        put 644 "$page" "$prefix/share/doc/clockscope/$page"
    done
    PREBUILT=yes DESTDIR=$tree scripts/install-c.sh "$prefix" >/dev/null
    find "$tree" -type f -name '*.so*' -exec strip --strip-unneeded {} +
    find "$tree" -type f -name '*.a' -exec strip --strip-debug {} +
    # The list is installed while it is empty, so that it also lists itself and its folder.
    : >"$work/list"
    put 644 "$work/list" "$list"
}

install_all() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    (stage)
    cd "$work/tree"
    [ ! -e "$destination$list" ] || cat "$destination$list" >"$work/list"
    [ -z "$destination" ] || mkdir -p "$destination"
    find . -mindepth 1 -type d | sort | while IFS= read -r folder; do
        path=${folder#.}
        [ ! -d "$destination$path" ] || continue
        mkdir "$destination$path"
        printf '%s/\n' "$path" >>"$work/list"
    done
    find . ! -type d | while IFS= read -r file; do
        path=${file#.}
        # Running programs have the old file mapped, so the new file replaces it instead of overwriting it.
        cp -P --preserve=mode,timestamps "$file" "$destination$path.new"
        mv -fT "$destination$path.new" "$destination$path"
        printf '%s\n' "$path" >>"$work/list"
    done
    sort -u "$work/list" >"$destination$list"
    ! is_this_system || ldconfig
    say "clockscope is in $destination$prefix/bin"
}

case "$1" in
install) install_all ;;
uninstall) uninstall ;;
*) die "'$1' is neither install nor uninstall: $usage" ;;
esac
