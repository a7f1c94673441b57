#!/usr/bin/env python3
"""Counts the system calls of real programs twice at the same moment, in the program and by eBPF, and compares the counts.

Usage, as root: tests/sites/real.py CLOCKSCOPE DIRECTORY [--program NAME]...
DIRECTORY keeps what each program printed and its report.

Each program is a shell script that starts what it needs, works, and ends: `programs/NAME`, traced with all its children by
`trace --via both`. Two counts of a name that differ are a failure, unless `explained` knows why and how much that may be.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A limit for hung programs, longer than any of them takes on a busy machine.
PATIENCE = 300
# The call by which signal handlers return; clockscope leaves its instruction alone.
RETURNS = "rt_sigreturn"
# Calls that the kernel repeats by itself after a signal, or a tracer's stop, has interrupted them: signal(7).
MADE_AGAIN = {
    "accept", "accept4", "clock_nanosleep", "connect", "epoll_pwait", "epoll_wait", "flock", "fcntl", "futex", "nanosleep",
    "pause", "poll", "ppoll", "pselect6", "pwrite64", "read", "readv", "recvfrom", "recvmsg", "restart_syscall", "select",
    "sendmsg", "sendto", "wait4", "waitid", "write", "writev",
}
# Calls by instructions that a table of `posix_spawn` leads to, or by those of chromium's sandbox, which the report names.
NAMED = {"rt_sigprocmask", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "setresgid", "setresuid"}
# Calls in which threads wait until they are killed. The kernel counts an error, which no code in the program sees.
WAITING = MADE_AGAIN | {"rt_sigtimedwait", "rt_sigsuspend"}


def explained(row, handlers, declines):
    """Why the counts of a name differ, in a few words; None if there is no known reason."""
    name, sites, kernel = row["name"], row["sites"], row["kernel"]
    if name == RETURNS and sites == 0:
        return "returns of signal handlers are left alone"
    # A thread is interrupted by a signal with a handler, by the signal that announces a library to clockscope, or by a
    # stop.
    if name in MADE_AGAIN and sites < kernel <= sites + handlers + kernel // 1000 + 2:
        return "made again by the kernel after a signal"
    if name in NAMED and sites < kernel and any("jump to computed addresses" in line for line in declines):
        return "by instructions that the report names"
    # glibc from 2.41 on calls the vDSO's function, which makes the call when it has no random bytes left.
    if name == "getrandom" and sites < kernel and any("[vdso]" in line for line in declines):
        return "by the vDSO, which the report names"
    killed = sum(int(line.split()[2]) for line in declines if "killed in" in line)
    if name == "exit_group" and sites < kernel <= sites + killed:
        return "by threads that were killed in it, which the report names"
    if name == "mmap" and sites < kernel <= sites + 12 and any("may be data" in line for line in declines):
        return "by code that no function of the file has, which the report names"
    return None


def errors_differ(row):
    """Whether more errors, or fewer, were seen than there were, where they are known."""
    errors, kernel = row["errors"], row["kernel_errors"]
    if errors is None or row["sites"] != row["kernel"]:
        return False
    return errors > kernel or errors < kernel and row["name"] not in WAITING


def trace(clockscope, program, directory):
    """The report of one program, and how many seconds it took."""
    report, output = directory / f"{program}.json", directory / f"{program}.txt"
    report.unlink(missing_ok=True)
    # The two ways do not end in one moment, so no process may go on.
    words = [clockscope, "trace", "--via", "both", "--wait-all", "--format", "json", "-o", str(report)]
    words.append(str(HERE / "programs" / program))
    surroundings = {**os.environ, "SOURCES": str(HERE.parent / "tracees")}
    if program == "newer-libc":
        fetch = [HERE.parent.parent / "vm" / "package", directory / "debian", "trixie", "amd64", "all", "libc6"]
        surroundings["NEWER_LIBC"] = subprocess.run(fetch, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="sites-") as scratch, open(output, "wb") as out:
        # Servers that run as another user must be able to enter.
        os.chmod(scratch, 0o755)
        start = time.monotonic()
        ended = subprocess.run(words, cwd=scratch, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                               timeout=PATIENCE, check=False, env=surroundings)
        seconds = time.monotonic() - start
    if ended.returncode != 0:
        sys.exit(f"{program}: exit status {ended.returncode}; see {output}")
    return json.loads(report.read_text()), seconds


def judge(report):
    """The explained differences, as `name: why`, and the unexplained rows."""
    rows = report["by_sites"]
    handlers = sum(row["kernel"] for row in rows if row["name"] == RETURNS)
    declines = [decline["reason"] for decline in report["declines"]]
    known, unknown = [], []
    for row in rows:
        if row["sites"] == row["kernel"]:
            if errors_differ(row):
                unknown.append(f"{row['name']}: {row['errors']} errors of {row['kernel_errors']}")
            continue
        counts = f"{row['name']} {row['sites']:,} of {row['kernel']:,}"
        why = explained(row, handlers, declines)
        if why:
            known.append(f"{counts} ({why})")
        else:
            unknown.append(counts)
    counted, calls = (sum(row[way] for row in rows if row["name"] != RETURNS) for way in ("sites", "kernel"))
    if counted < calls * 0.99:
        unknown.append(f"all calls: {counted:,} of {calls:,}")
    return known, unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clockscope", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--program", action="append", help="only this one")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("real.py: eBPF needs root")
    directory = options.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    wrong = 0
    print("| program | processes | calls by the kernel | seconds | names that differ |\n|---|--:|--:|--:|---|")
    for program in options.program or sorted(path.name for path in (HERE / "programs").iterdir()):
        report, seconds = trace(options.clockscope.resolve(), program, directory)
        known, unknown = judge(report)
        calls = sum(row["kernel"] for row in report["by_sites"])
        shown = "; ".join([*(f"**{line}**" for line in unknown), *known]) or "none"
        print(f"| {program} | {report['processes']} | {calls:,} | {seconds:.0f} | {shown} |", flush=True)
        wrong += bool(unknown) or calls == 0
    if wrong:
        sys.exit(f"real.py: {wrong} programs with differences that nobody has explained; see {directory}")


if __name__ == "__main__":
    main()
