"""Running a program with a limit of time, and leaving none of its processes behind."""

import ctypes
import os
import signal
import subprocess
import time

MARK = "CLOCKSCOPE_FOREIGN"
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the parent of every orphan below it, so that none escapes `sweep`."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat(pid):
    """Parent and state of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0].decode()


def _is_marked(pid, mark):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def tree(mark):
    """Living processes that carry the mark in their environment, and their descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) and stat[1] not in "ZX":
            parents[int(name)] = stat[0]
    inside = {pid for pid in parents if _is_marked(pid, mark)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in inside} - inside
        grown = bool(more)
        inside |= more
    return sorted(inside)


def sweep(mark, waited_for=None):
    """Kills what is left of a program, until nothing is. Orphans among it are waited for here, but
    not the process `waited_for`.
    """
    killed = set()
    for _ in range(50):
        pids = tree(mark)
        if not pids:
            break
        killed.update(pids)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)
    for pid in killed - {waited_for}:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


class Ended:
    """How a program ended: exit status as the shell says it, 124 after the limit; seconds; output."""

    def __init__(self, status, seconds, output):
        self.status, self.seconds, self.output = status, seconds, output


def run(argv, mark, limit_s, output, cwd=None, env=None, beside=None):
    """Runs a program with its output in the file `output`, killed with all its descendants after
    `limit_s`. `beside(process)` runs meanwhile in this thread and must come back when it has ended.
    """
    env = {**os.environ, "LC_ALL": "C", **(env or {}), MARK: mark}
    started = time.monotonic()
    with open(output, "wb") as file:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            cwd=cwd, env=env, start_new_session=True,
        )
    status = None
    try:
        if beside:
            beside(process, started + limit_s)
        status = process.wait(max(0, started + limit_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        status = 124
    finally:
        seconds = time.monotonic() - started
        sweep(mark, process.pid)
        process.wait()
    if status < 0:
        status = 128 - status
    with open(output, errors="replace") as file:
        return Ended(status, seconds, file.read())
