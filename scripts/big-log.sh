#!/bin/sh
# Reads logs of 1 GiB with `clockscope doctor` and prints seconds and peak memory for each: ordinary text, lines of the
# watchdog only, a log without a line feed, and ordinary text in the JSON of docker. The limits are 200 MiB, and three
# times the CPU time of `gzip -1` for the ordinary text; six times for JSON, whose lines are all unpacked.
# Usage: scripts/big-log.sh [BINARY [FOLDER]]; the folder needs a little more than 1 GiB.
set -eu
cd "$(dirname "$0")/.."

binary=$(realpath "${1:-target/release/clockscope}")
folder=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/big-log.XXXXXX")
trap 'rm -rf "$folder"' EXIT
size=1073741824
log=$folder/root/var/log/dmesg
mkdir -p "${log%/*}"

text() { # lines as a kernel and its services write them
	n=0
	while [ $n -lt 400 ]; do
		printf '[%5d.%06d] usb 1-%d: new high-speed USB device number %d using xhci_hcd\n' \
			$((n * 7)) $((n * 131)) $((n % 9)) $n
		printf 'May  6 11:%02d:%02d host systemd[1]: Started Session %d of user root.\n' \
			$((n / 60)) $((n % 60)) $n
		n=$((n + 1))
	done
}

watchdog() { # five lines of 6.1, again and again
	cat <<-'LINES'
	[ 8996.144253] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:
	[ 8996.144260] clocksource:                       'hpet' wd_nsec: 503923392 wd_now: f4b7d wd_last: 6c50c5 mask: ffffffff
	[ 8996.144261] clocksource:                       'tsc' cs_nsec: 503646106 cs_now: 1ca324f62cac cs_last: 1ca0b7a50c00 mask: ffffffffffffffff
	[ 8996.144274] tsc: Marking TSC unstable due to clocksource watchdog
	[ 8996.146113] clocksource: Switched to clocksource acpi_pm
	LINES
}

# again FILE: its contents until the log is full.
again() { # `yes` ends by SIGPIPE
	yes "$(cat "$1")" | head -c $size >"$log"
}

# Each line as docker's json-file driver writes it.
dressed() {
	sed 's/.*/{"log":"&\\n","stream":"stdout","time":"2026-05-06T11:52:52.123456789Z"}/'
}

measure() { # name [times]
	sync "$log"
	cat "$log" >/dev/null # so that doctor reads from memory, not from the disk
	status=0
	/usr/bin/time -f '%e %M %U %S' -o "$folder/time" "$binary" doctor --root "$folder/root" --format json \
		>"$folder/out" 2>"$folder/err" || status=$?
	# If the status is not 0, time writes a line of its own first.
	tail -n 1 "$folder/time" | awk -v name="$1" -v status="$status" -v most="${2:-3}" -v anchor="$anchor" '{
		cpu = $3 + $4
		printf "%-20s %6.2f s (CPU %5.2f s, %4.2f times gzip -1) %6.1f MiB, status %d\n", name, $1, cpu, cpu / anchor, \
			$2 / 1024, status
		exit cpu > most * anchor || $2 > 200 * 1024
	}' || failed=1
}

command -v /usr/bin/time >/dev/null || { echo 'big-log: /usr/bin/time is missing: apt-get install time' >&2; exit 1; }
failed=0
text >"$folder/unit"
again "$folder/unit"
anchor=$(/usr/bin/time -f '%U %S' gzip -1c "$log" 2>&1 >/dev/null | awk '{ print $1 + $2 }')
measure 'ordinary text'
watchdog >"$folder/unit"
again "$folder/unit"
measure 'only watchdog lines'
head -c $size /dev/zero | tr '\0' x >"$log"
measure 'no line feed'
{ text; watchdog; } | dressed >"$folder/unit"
again "$folder/unit"
measure 'JSON lines' 6
exit $failed
