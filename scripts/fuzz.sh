#!/bin/sh
# Fuzzes each target for a time, from a corpus made of the fixtures or by scripts/fuzz-seeds.py.
# Usage: scripts/fuzz.sh SECONDS TARGET...
set -eu
cd "$(dirname "$0")/.."

[ $# -ge 2 ] || { echo 'usage: scripts/fuzz.sh SECONDS TARGET...' >&2; exit 2; }
seconds=$1
shift

cargo +nightly --version >/dev/null 2>&1 || {
	echo 'fuzz: no nightly compiler, which the sanitizers need: rustup toolchain install nightly --profile minimal' >&2
	exit 1
}
cargo fuzz --version >/dev/null 2>&1 || {
	echo 'fuzz: cargo-fuzz is missing: cargo install cargo-fuzz --locked' >&2
	exit 1
}

for target; do
	corpus=fuzz/corpus/$target
	mkdir -p "$corpus"
	case $target in
	archive) scripts/archive-seeds.sh "$corpus" ;;
	log)
		for log in fixtures/doctor-cases/*/var/log/*; do
			name=${log#fixtures/doctor-cases/}
			cp "$log" "$corpus/${name%%/*}"
		done
		;;
	*) scripts/fuzz-seeds.py "$target" "$corpus" ;;
	esac
	echo "fuzz: $target for $seconds s, from $(ls "$corpus" | wc -l) files"
	dictionary=fuzz/$target.dict
	# Longer than the longest kind of line; longer than an archive of one file.
	case $target in log) most=8192 ;; *) most=65536 ;; esac
	cargo +nightly fuzz run "$target" "$corpus" -- -max_total_time="$seconds" -max_len=$most \
		-timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
		$([ ! -f "$dictionary" ] || echo "-dict=$dictionary")
done
