#!/bin/sh
# Installs the packages of Debian or Ubuntu that a part of the project needs and that are missing. Usage:
#        scripts/setup.sh build|demo|test|bench|unit|vm|kernels|foreign|containers|prove|release|oldest|fleet
#        scripts/setup.sh fastclock SYSTEM...
# `oldest` and `fastclock` also install, if rustup is there, the oldest compiler that the workspace or fastclock
# promises, and for fastclock the systems' standard libraries. `release` also installs tools with `cargo install`.
set -eu

say() { printf 'setup: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}

# Prints lines of a package and a command that the package provides ("-": ask dpkg).
needs() {
    cat <<'END'
gcc cc
libc6-dev -
binutils strip
clang clang
END
    [ "$1" = build ] || [ "$1" = oldest ] && return
    if [ "$1" = fastclock ]; then
        echo gcc-multilib -
        return
    fi
    if [ "$1" = prove ]; then
        cat <<'END'
z3 z3
cvc5 cvc5
python3 python3
END
        return
    fi
    if [ "$1" = fleet ]; then
        cat <<'END'
prometheus prometheus
prometheus-alertmanager prometheus-alertmanager
prometheus-node-exporter prometheus-node-exporter
python3 python3
python3-venv -
golang-go go
parallel parallel
ansible ansible-playbook
ansible-lint ansible-lint
yamllint yamllint
openssh-client ssh
systemd-container systemd-nspawn
mmdebstrap mmdebstrap
podman podman
crun crun
runc runc
END
        return
    fi
    if [ "$1" = unit ]; then
        cat <<'END'
systemd-container systemd-nspawn
mmdebstrap mmdebstrap
END
        return
    fi
    if [ "$1" = containers ]; then
        cat <<'END'
podman podman
crun crun
runc runc
uidmap newuidmap
systemd-container systemd-nspawn
mmdebstrap mmdebstrap
python3 python3
END
        return
    fi
    if [ "$1" = kernels ]; then
        echo musl-tools musl-gcc
        echo qemu-system-arm qemu-system-aarch64
        echo clang clang
        echo lld ld.lld
    fi
    if [ "$1" = vm ] || [ "$1" = kernels ]; then
        cat <<'END'
qemu-system-x86 qemu-system-x86_64
busybox-static -
cpio cpio
golang-go go
sqlite3 sqlite3
END
        return
    fi
    if [ "$1" = release ]; then
        cat <<'END'
python3 python3
debhelper dh
dpkg-dev dpkg-buildpackage
lintian lintian
rpm rpmbuild
rpmlint rpmlint
pkg-config pkg-config
mmdebstrap mmdebstrap
systemd-container systemd-nspawn
minisign minisign
END
        return
    fi
    if [ "$1" = foreign ]; then
        cat <<'END'
make make
xz-utils xz
linux-source -
glibc-source -
python3 python3
golang-go go
perl perl
stress-ng stress-ng
rt-tests cyclictest
postgresql -
END
        # The package with Python's tests has the version in its name; python3 depends on that version.
        apt-cache depends python3 2>/dev/null |
            sed -n 's/.*Depends: \(python3\.[0-9]*\)$/lib\1-testsuite -/p'
        return
    fi
    echo sqlite3 sqlite3
    [ "$1" = demo ] && return
    cat <<'END'
gcc-multilib -
g++ g++
pkg-config pkg-config
musl-tools musl-gcc
perl perl
python3 python3
nodejs node
default-jdk-headless javac
golang-go go
gdb gdb
strace strace
util-linux unshare
procps ps
curl curl
postgresql -
postgresql-client psql
redis-server redis-server
redis-tools redis-benchmark
nginx nginx
wrk wrk
chromium chromium
linux-perf perf
bpftrace bpftrace
prometheus promtool
systemd systemd-analyze
zstd zstd
xz-utils xz
mandoc mandoc
bash-completion -
zsh zsh
fish fish
debhelper dh
dpkg-dev dpkg-buildpackage
rpm rpmbuild
cpio cpio
END
    [ "$1" = test ] && return
    cat <<'END'
ltrace ltrace
libbenchmark-dev -
END
}

is_there() { # package command
    if [ "$2" = - ]; then
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
    else
        # Servers are outside of an ordinary PATH, and Go is often unpacked by hand.
        (PATH="$PATH:/usr/sbin:/sbin:/usr/local/go/bin" command -v "$2" >/dev/null 2>&1)
    fi
}

# Ubuntu's name of a package that has another name in Debian.
local_name() {
    if [ "$1" = linux-perf ] && [ "$ID" = ubuntu ]; then
        echo linux-tools-generic
    else
        echo "$1"
    fi
}

part=${1:-}
case "$part" in
build | demo | test | bench | unit | vm | kernels | foreign | containers | prove | release | oldest | fleet | fastclock) ;;
*) die "say what to set up: build, demo, test, bench, unit, vm, kernels, foreign, containers, prove, release, oldest, fleet or fastclock" ;;
esac

command -v cargo >/dev/null 2>&1 ||
    die "cargo is missing; install Rust 1.88 or later as https://rustup.rs says"

# Failures are ignored here; scripts/oldest.sh and scripts/fastclock.sh report a missing compiler or library.
root=$(dirname "$0")/..
case $part in
oldest) manifest=$root/Cargo.toml ;;
fastclock) manifest=$root/crates/fastclock/Cargo.toml ;;
*) manifest= ;;
esac
if [ -n "$manifest" ] && command -v rustup >/dev/null 2>&1; then
    shift
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$manifest")
    cargo "+$oldest" --version >/dev/null 2>&1 ||
        rustup --quiet toolchain install "$oldest" --profile minimal || true
    for system; do
        [ -d "$(rustc --print target-libdir --target "$system")" ] ||
            rustup --quiet target add "$system" || true
    done
fi

ID=unknown
[ ! -r /etc/os-release ] || . /etc/os-release
missing=
while read -r package command; do
    is_there "$package" "$command" || missing="$missing $(local_name "$package")"
done <<END
$(needs "$part")
END
# Cargo tools without a Debian package.
if [ "$part" = release ]; then
    for tool in cargo-auditable cargo-cyclonedx; do
        command -v "$tool" >/dev/null 2>&1 || cargo install --quiet --locked "$tool"
    done
fi
[ -n "$missing" ] || exit 0

case " $ID ${ID_LIKE:-} " in
*" debian "* | *" ubuntu "*) ;;
*) die "this is not Debian or Ubuntu; install what these packages hold, then try again:$missing" ;;
esac
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "run as root: apt-get install$missing"
    sudo=sudo
fi

# The tests start their own servers, so keep the packages from starting theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '$sudo rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
fi
say "installing$missing"
$sudo apt-get -q update
# shellcheck disable=SC2086 # a list of packages
$sudo env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends install $missing
