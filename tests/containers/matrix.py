#!/usr/bin/env python3
"""Attaches to a program in real containers, and compares what the program did with what clockscope counted.

Usage, as root: tests/containers/matrix.py CLOCKSCOPE DIRECTORY [--attachments N] [--cell WORD]
DIRECTORY keeps the containers' root, which is made from Debian's packages the first time.

The program is `tests/tracees/attach_server.c`: it reads clocks in several threads, and says how often. Each cell of
the matrix starts it in one container, attaches N times while it works, and compares every count. What this host
refuses is a line of the table, with the reason, and no failure; what clockscope gets wrong is one.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACEES = HERE.parent / "tracees"
# Limits of a container that the host may not raise.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
THREADS = "4"
# A limit for hung commands, longer than any command takes.
PATIENCE = 120
COUNTED = "clockscope-test"
SECOND = "clockscope-test-second"
# The program ignores its last word, which tells its process from those of other tests.
PROGRAM = ["/attach_server", THREADS, f"of-{os.getpid()}"]
# Fills this much memory and keeps it.
HOARDS = "(head -c 58m /dev/zero; sleep 1000) | tail >/dev/null & sleep 2;"


class Refused(Exception):
    """The host does not allow this cell."""


class Wrong(Exception):
    """clockscope, or the program below it, did something wrong."""


class NotAttached(Wrong):
    """clockscope did not attach, and said why."""


def run(words, patience=PATIENCE, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=patience, check=False, **options)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no reason given"


def makes_root(directory):
    root = directory / "root"
    whole = directory / "root.is-whole"
    if not whole.exists():
        run(["rm", "-rf", str(root)])
        release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
        # Packages come over the network and are unpacked on a host that may be busy, so the limit is longer.
        made = run(["mmdebstrap", "--quiet", "--variant=minbase", release["VERSION_CODENAME"].strip('"'), str(root)],
                   patience=10 * PATIENCE)
        if made.returncode != 0:
            sys.exit(f"containers: no root could be made: {last_line(made.stderr)}")
        whole.touch()
    return root


class Server:
    """The program in a container."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, errors="replace")
        if self.line() != "ready":
            self.process.kill()
            raise Refused(last_line(self.process.stderr.read()))

    def line(self):
        return self.process.stdout.readline().strip()

    def ask(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def begin(self):
        self.ask("begin")
        if self.line() != "begun":
            raise Wrong("the program is gone")

    def end(self):
        """The calls that the program prints, by name and clock."""
        self.ask("end")
        did = {}
        while (line := self.line()) != "done":
            if not line:
                raise Wrong("the program is gone")
            kind, *words = line.split()
            if kind == "vdso":
                did[(words[0], words[1])] = int(words[2])
        return did

    def ends_well(self):
        self.ask("health")
        if self.line() != "health backwards 0 wrong 0":
            raise Wrong("the program saw the time run backwards")
        self.process.stdin.close()
        said = self.process.stdout.read().strip()
        code = self.process.wait(PATIENCE)
        if code != 7 or "ended well" not in said:
            raise Wrong(f"the program ended with {code}: {said[:80]}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def counted(report):
    rows = {}
    for row in report["vdso"]:
        key = (row["function"], row.get("clock") or "-")
        rows[key] = rows.get(key, 0) + row["calls"]
    return rows


def compare(did, report):
    """Raises unless all calls that the program counted were counted, each once; gives how many these are."""
    seen = counted(report)
    for key, calls in did.items():
        if seen.get(key, 0) != calls:
            raise Wrong(f"{key[0]} {key[1]}: made {calls}, counted {seen.get(key, 0)}")
    for decline in report["declines"]:
        if decline["command"] == "attach_server":
            raise Wrong(f"not counted: {decline['reason']}")
    return sum(did.values())


def attach(clockscope, servers, options):
    """One attachment while the programs work; gives the number of calls, made and counted."""
    words = [*clockscope, "trace", "--via", "none", "--format", "json", "-o", "/dev/fd/1", *options]
    tracer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace")
    said, attached = [], 0
    while attached < len(servers):
        if not (line := tracer.stderr.readline()):
            tracer.wait(PATIENCE)
            raise NotAttached(said[-1] if said else "clockscope said nothing")
        said.append(line.strip())
        attached += "attached to attach_server" in line
    for server in servers:
        server.begin()
        server.ask("sum 1")
        server.line()
    did = {}
    for server in servers:
        for key, calls in server.end().items():
            did[key] = did.get(key, 0) + calls
    # clockscope may be in a container, whose first process passes the signal on.
    subprocess.run(["kill", "-INT", str(inner(tracer.pid))], check=False)
    out, complaints = tracer.communicate(timeout=PATIENCE)
    # On a busy host, a short-lived process beside the program may be waiting in vfork. clockscope then reports it.
    busy = [line for line in [*said, *complaints.splitlines()] if line.endswith("; try again") and "attach_server" not in line]
    if tracer.returncode != (1 if busy else 0):
        raise Wrong(f"clockscope ended with {tracer.returncode}: {last_line(complaints)}")
    return compare(did, json.loads(out))


def inner(pid):
    """The process itself, or the clockscope below a runtime."""
    for other in Path("/proc").iterdir():
        if not other.name.isdigit():
            continue
        try:
            if (other / "comm").read_text(errors="replace").strip() == "clockscope" and marker(pid) and marker(pid) in (
                    other / "environ").read_text(errors="replace"):
                return int(other.name)
        except OSError:
            pass
    return pid


def marker(pid):
    """The name of the container that a runtime of ours was told to make."""
    words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    return next((word for word in words if word.startswith("CLOCKSCOPE_CELL=")), None)


class Matrix:
    def __init__(self, clockscope, directory, attachments):
        self.clockscope, self.attachments = str(clockscope), attachments
        self.root = makes_root(directory)
        server = self.root / "attach_server"
        built = run(["gcc", "-O2", "-static", "-I", str(TRACEES), "-o", str(server), str(TRACEES / "attach_server.c"),
                     "-lpthread"])
        if built.returncode != 0:
            sys.exit(f"containers: the program cannot be built: {last_line(built.stderr)}")
        run(["cp", self.clockscope, str(self.root / "clockscope")])
        self.rows, self.failed = [], 0
        self.podman = self.works_with()

    def works_with(self):
        """The first way in which podman starts a container on this host."""
        reasons = []
        for runtime in ["crun", "runc"]:
            for cgroups in [[], ["--cgroups", "disabled"]]:
                words = ["podman", "--runtime", runtime, "run", "--rm", "--network", "none", *LIMITS, *cgroups,
                         "--rootfs", str(self.root), "true"]
                tried = run(words)
                if tried.returncode == 0:
                    return runtime, cgroups
                reasons.append(f"{' '.join([runtime, *cgroups])}: {last_line(tried.stderr)}")
        print("\n".join(f"containers: {reason}" for reason in reasons))
        return None, []

    def podman_words(self, name, options, command, runtime=None):
        runtime = runtime or self.podman[0]
        if runtime is None:
            raise Refused("podman starts no container here")
        cgroups = self.podman[1] if runtime == self.podman[0] else []
        return ["podman", "--runtime", runtime, "run", "--rm", "-i", "--name", name, "--network", "none", *LIMITS, *cgroups,
                *options, "--rootfs", str(self.root), *command]

    def cell(self, what, where, start, tracer, options, expected=None):
        """A row of the table: `start` gives the command lines of the programs, `tracer` and `options` the clockscope.
        `expected` is what clockscope has to say where it cannot attach."""
        made, done, servers_here = 0, 0, []
        try:
            for words in start():
                servers_here.append(Server(words))
            for _ in range(self.attachments):
                made += attach(tracer(), servers_here, options())
                done += 1
            for server in servers_here:
                server.ends_well()
            if expected:
                raise Wrong(f"it attached where it had to say {expected!r}")
            self.rows.append((what, where, done, made, made, "ok"))
        except NotAttached as refused:
            if not expected or expected not in str(refused):
                self.failed += 1
                self.rows.append((what, where, done, "", "", f"WRONG: {refused}"))
            else:
                self.rows.append((what, where, 0, "", "", f"refused, as it has to be: {refused}"))
        except Refused as refused:
            self.rows.append((what, where, done, made, made, f"refused: {refused}"))
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            self.failed += 1
            self.rows.append((what, where, done, "", "", f"WRONG: {wrong}"))
        finally:
            for server in servers_here:
                server.kill()
            remove()
        print("containers: " + " | ".join(str(part) for part in self.rows[-1]), flush=True)

    def in_podman(self, what, options, runtime=None, beside=""):
        """The program in podman, traced from the host by the container's name; `beside` runs in the container, too."""
        command = ["sh", "-c", f"{beside} exec {' '.join(PROGRAM)}"] if beside else PROGRAM
        self.cell(f"podman, {what}", "host", lambda: [self.podman_words(COUNTED, options, command, runtime)],
                  lambda: [self.clockscope], lambda: ["--container", COUNTED])

    def together(self, what):
        """Two containers of podman, one of systemd-nspawn and a program of the host in one trace: four IPC namespaces."""
        def start():
            podman = [self.podman_words(name, [], PROGRAM) for name in (COUNTED, SECOND)]
            return [*podman, self.nspawn_words([]), [str(self.root / "attach_server"), *PROGRAM[1:]]]

        def options():
            # clockscope must not attach twice to a process that its container names already.
            pids = [word for process in servers() for word in ("-p", process.name)]
            return ["--container", COUNTED, "--container", SECOND, *pids]
        self.cell(what, "host", start, lambda: [self.clockscope], options)

    def paused(self, what):
        """Nothing in a paused container can be stopped, or let go: clockscope says so."""
        def pause():
            if (paused := run(["podman", "pause", COUNTED])).returncode != 0:
                raise Refused(last_line(paused.stderr))
            return ["--container", COUNTED]
        self.cell(f"podman, {what}", "host", lambda: [self.podman_words(COUNTED, [], PROGRAM)],
                  lambda: [self.clockscope], pause, "frozen")

    def short_lived(self, what):
        """Containers that end while they are attached to: neither they nor clockscope mind."""
        row = (f"podman, {what}", "host")
        remove()
        try:
            for _ in range(self.attachments):
                words = self.podman_words(COUNTED, [], ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do date; done; exit 3"])
                container = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL)
                traces = []
                while container.poll() is None:
                    traced = run([self.clockscope, "trace", "--via", "none", "-o", "/dev/null", "--container", COUNTED])
                    traces.append(traced)
                printed = container.stdout.read().count(b"\n")
                if (container.returncode, printed) != (3, 9):
                    raise Wrong(f"the container ended with {container.returncode} after {printed} of 9 dates")
                for traced in traces:
                    if traced.returncode not in (0, 1, 125) or "panicked" in traced.stderr:
                        raise Wrong(f"clockscope ended with {traced.returncode}: {last_line(traced.stderr)}")
            self.rows.append((*row, self.attachments, "", "", "ok"))
        except Refused as refused:
            self.rows.append((*row, 0, "", "", f"refused: {refused}"))
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            self.failed += 1
            self.rows.append((*row, 0, "", "", f"WRONG: {wrong}"))
        print("containers: " + " | ".join(str(part) for part in self.rows[-1]), flush=True)

    def beside(self, what, debug, expected=None):
        """As `podman`, traced from a second container that sees the processes."""
        def tracer():
            return self.podman_words(COUNTED + "-debug", ["--replace", "--env", f"CLOCKSCOPE_CELL={os.getpid()}", *debug],
                                     ["/clockscope"])

        def pid():
            return ["-p", str(pid_of_server()) if "host" in debug else inside_pid()]
        self.cell(f"podman, {what}", f"container: {' '.join(debug)}",
                  lambda: [self.podman_words(COUNTED, [], PROGRAM)], tracer, pid, expected)

    def inside(self, what, user):
        """Traced by `podman exec` in the same container."""
        def tracer():
            return ["podman", "exec", "--env", f"CLOCKSCOPE_CELL={os.getpid()}", "--user", user, COUNTED, "/clockscope"]
        self.cell(f"podman, {what}", f"inside, user {user}",
                  lambda: [self.podman_words(COUNTED, ["--user", user, "--init"], PROGRAM)],
                  tracer, lambda: ["-p", inside_pid()])

    def entry_point(self, what, options):
        """clockscope is the first process of the container, and starts the program."""
        try:
            words = self.podman_words(COUNTED, options, ["/clockscope", "trace", "--via", "none", "--format", "json",
                                                         "-o", "/dev/stderr", "--", *PROGRAM])
            server = Server(words)
            server.begin()
            did = server.end()
            server.ends_well()
            text = server.process.stderr.read()
            made = compare(did, json.loads(text[text.index("{"):]))
            self.rows.append((f"podman, {what}", "entry point", 1, made, made, "ok"))
        except Refused as refused:
            self.rows.append((f"podman, {what}", "entry point", 0, "", "", f"refused: {refused}"))
        except (Wrong, ValueError) as wrong:
            self.failed += 1
            self.rows.append((f"podman, {what}", "entry point", 0, "", "", f"WRONG: {wrong}"))
        finally:
            remove()
        print("containers: " + " | ".join(str(part) for part in self.rows[-1]), flush=True)

    def nspawn_words(self, options):
        return ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--directory", str(self.root), "--pipe",
                "--volatile=overlay", *options, *PROGRAM]

    def in_nspawn(self, what, options):
        self.cell(f"systemd-nspawn, {what}", "host", lambda: [self.nspawn_words(options)], lambda: [self.clockscope],
                  lambda: ["-p", str(pid_of_server())])

    def table(self):
        heads = ("container", "from", "attachments", "calls made", "counted", "result")
        rows = [heads, *[tuple(str(part) for part in row) for row in self.rows]]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        print()
        for row in rows:
            print("  ".join(part.ljust(width) for part, width in zip(row, widths)).rstrip())


def remove():
    run(["podman", "unpause", COUNTED])
    run(["podman", "rm", "--ignore", "-f", "-t", "0", COUNTED, SECOND])


def servers():
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_text(errors="replace").split("\0")
            if process.name.isdigit() and words[0].endswith(PROGRAM[0]) and words[1:3] == PROGRAM[1:]:
                yield process
        except OSError:
            pass


def pid_of_server():
    found = [int(process.name) for process in servers()]
    if len(found) != 1:
        raise Wrong(f"{len(found)} programs run instead of one")
    return found[0]


def inside_pid():
    """The process id of the program in its own namespace."""
    status = Path(f"/proc/{pid_of_server()}/status").read_text()
    return re.search(r"^NSpid:.*?(\d+)$", status, re.M).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clockscope", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--attachments", type=int, default=50)
    parser.add_argument("--cell", default="", help="only cells with this word")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("containers: containers need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    args.directory.mkdir(parents=True, exist_ok=True)
    matrix = Matrix(args.clockscope.resolve(), args.directory.resolve(), args.attachments)
    confined = ["--read-only", "--cap-drop", "all"]
    unconfined = ["--security-opt", "seccomp=unconfined"]
    users = ["--uidmap", "0:100000:65536"]
    ptrace = ["--cap-add", "SYS_PTRACE"]
    cells = [
        ("default filter", lambda what: matrix.in_podman(what, [])),
        ("default filter, runc", lambda what: matrix.in_podman(what, [], "runc")),
        ("no filter", lambda what: matrix.in_podman(what, unconfined)),
        ("read-only, no capabilities", lambda what: matrix.in_podman(what, confined)),
        ("user namespace", lambda what: matrix.in_podman(what, users)),
        ("64 MB", lambda what: matrix.in_podman(what, ["--memory", "64m"])),
        ("62 of 64 MB used", lambda what: matrix.in_podman(what, ["--memory", "64m", "--memory-swap", "64m"], beside=HOARDS)),
        ("no more tasks allowed", lambda what: matrix.in_podman(what, ["--pids-limit", THREADS])),
        ("forks all the time", lambda what: matrix.in_podman(what, [], beside="while :; do /bin/true; done &")),
        ("host's IPC and PID namespaces", lambda what: matrix.in_podman(what, ["--ipc", "host", "--pid", "host"])),
        ("paused", matrix.paused),
        ("ends meanwhile", matrix.short_lived),
        # The settings of `kubectl debug --target`, and of `kubectl debug node` with two of its profiles.
        ("default filter", lambda what: matrix.beside(
            what, ["--pid", f"container:{COUNTED}", "--ipc", f"container:{COUNTED}", *ptrace])),
        ("default filter", lambda what: matrix.beside(what, ["--pid", "host", *ptrace], "IPC namespace")),
        ("default filter", lambda what: matrix.beside(what, ["--pid", "host", *ptrace, "--cap-add", "SYS_ADMIN"])),
        ("default filter", lambda what: matrix.beside(what, ["--pid", "host", "--privileged"])),
        ("default filter", lambda what: matrix.inside(what, "0")),
        ("default filter", lambda what: matrix.inside(what, "1000")),
        ("default filter", lambda what: matrix.entry_point(what, [])),
        ("read-only, no capabilities", lambda what: matrix.entry_point(what, confined)),
        ("no filter", lambda what: matrix.entry_point(what, unconfined)),
        ("default filter", lambda what: matrix.in_nspawn(what, [])),
        ("user namespace", lambda what: matrix.in_nspawn(what, ["--private-users=100000:65536"])),
        ("two of podman, one of systemd-nspawn and the host, at once", matrix.together),
    ]
    for what, cell in cells:
        if args.cell in what:
            cell(what)
    matrix.table()
    if matrix.failed:
        sys.exit(f"containers: {matrix.failed} cells are wrong")
    if not any(row[-1] == "ok" for row in matrix.rows):
        sys.exit("containers: nothing could be tried here")


if __name__ == "__main__":
    main()
