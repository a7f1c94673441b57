"""The ways in which a suite is run: plainly, below clockscope, or attached to again and again."""

import json
import os
import re
import subprocess
import time
from collections import Counter

import processes

PLAIN = "plain"
MODES = {
    "trace": ["trace", "--via", "bpf"],
    "trace-none": ["trace", "--via", "none"],
    "run-kernel": ["run", "--clock", "kernel"],
    "run-syscall": ["run", "--clock", "syscall"],
    "run-tsc": ["run", "--clock", "tsc", "--force"],
    "attach": None,
}
ATTACHMENT_LIMIT_S = 20.0
EVERY_S = 0.1
# Exit statuses of an attachment when some, or all, of the processes ended first or have a tracer.
INCOMPLETE, REFUSED = 1, 125


def command(clockscope, mode, argv, report):
    """The command line of a suite in a mode; trace writes its report to the file `report`."""
    if mode in (PLAIN, "attach"):
        return argv
    words = [clockscope, *MODES[mode]]
    if has_report(mode):
        words += ["--format", "json", "-o", report]
    return [*words, "--", *argv]


def has_report(mode):
    return "trace" in mode


def report_is_whole(report):
    """Whether the report was written, is JSON, and counted something."""
    try:
        with open(report) as file:
            return bool(json.load(file))
    except (OSError, ValueError):
        return False


class Attachments:
    """Attaches to all processes of a suite for 100 ms, leaves them for 100 ms, and so on."""

    def __init__(self, clockscope, mark, log):
        self.clockscope, self.mark, self.log = clockscope, mark, log
        self.seconds = []
        # Reasons of refused attachments and of failed restorations, with their numbers.
        self.words = Counter()
        # Faults that must never occur: clockscope hangs, or breaks itself.
        self.broken = []

    def beside(self, process, deadline):
        """Goes on until the suite has ended or its time is over."""
        with open(self.log, "w") as log:
            while process.poll() is None and time.monotonic() < deadline:
                pids = processes.tree(self.mark)
                if pids:
                    self.attach(pids, log)
                time.sleep(EVERY_S)

    def attach(self, pids, log):
        argv = [self.clockscope, "trace", "--via", "none", "-p", ",".join(map(str, pids))]
        argv += ["--duration", str(EVERY_S), "-o", os.devnull]
        started = time.monotonic()
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=ATTACHMENT_LIMIT_S,
            )
            status, words = done.returncode, done.stderr
        except subprocess.TimeoutExpired as expired:
            status, words = None, (expired.stderr or b"").decode(errors="replace")
            self.broken.append(f"an attachment took more than {ATTACHMENT_LIMIT_S:.0f} s")
        seconds = time.monotonic() - started
        log.write(f"{seconds:.2f} s, exit {status}, pids {pids}\n{words}")
        log.flush()
        self.words.update(re.findall(r"cannot attach to .*?: (.*)", words))
        self.words.update(re.findall(r"memory that held its counts stays attached", words))
        if status is not None and (status not in (0, INCOMPLETE, REFUSED) or "panicked" in words):
            self.broken.append(f"clockscope ended with {status}")
        # If all processes ended before or have a tracer, there was no attachment.
        if "attached to" in words:
            self.seconds.append(seconds)
