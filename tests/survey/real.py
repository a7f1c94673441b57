#!/usr/bin/env python3
"""Surveys a machine that runs PostgreSQL, Redis, nginx, a JVM and a Go server, and compares estimates with exact counts.

Usage, as root: tests/survey/real.py CLOCKSCOPE DIRECTORY [--rounds N]
DIRECTORY keeps what is compiled.

Each round is one `clockscope survey`, which estimates all processes, and a `clockscope trace -p` of the ten most costly ones, which counts.
What a process really reads is the mean of the counts before and behind an estimate. Under the load of all rounds no server
may fail, no client may see an error, and no clock may run backwards.
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# Lower rates are not judged: reads a second.
JUDGED_FROM = 50_000
# Intervals are of 95 %, so a few may miss by chance.
COVERED_LEAST = 0.9
PORT = 8474

JAVA = """
import java.io.*; import java.net.*;
public class Served {
    static volatile long last;
    public static void main(String[] words) throws Exception {
        long reads = Long.parseLong(words[1]);
        try (var server = new ServerSocket(Integer.parseInt(words[0]))) {
            while (true) try (var one = server.accept()) {
                var in = one.getInputStream(); var out = one.getOutputStream();
                while (in.read() >= 0) {
                    for (long i = 0; i < reads; i++) {
                        long now = System.nanoTime();
                        if (now < last) { System.err.println("backwards"); System.exit(9); }
                        last = now;
                    }
                    out.write(1);
                }
            }
        }
    }
}
"""
GO = """
package main

import ("net"; "os"; "strconv"; "time")

func main() {
    reads, _ := strconv.Atoi(os.Args[2])
    server, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
    if err != nil { panic(err) }
    for {
        one, err := server.Accept()
        if err != nil { panic(err) }
        go func() {
            last := time.Now()
            byte := make([]byte, 1)
            for {
                if n, err := one.Read(byte); n == 0 || err != nil { return }
                for i := 0; i < reads; i++ {
                    now := time.Now()
                    if now.Before(last) { os.Stderr.WriteString("backwards\\n"); os.Exit(9) }
                    last = now
                }
                one.Write(byte)
            }
        }()
    }
}
"""
NGINX = """
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/nginx.errors;
events {{ worker_connections 64; }}
http {{ access_log {folder}/nginx.log; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{port}; location / {{ return 200 "well\\n"; }} }} }}
"""


class Failed(Exception):
    """A server was harmed, or an installation is missing."""


class Paced(threading.Thread):
    """A client that asks so often a second and waits for each answer."""

    def __init__(self, port, request, rate):
        super().__init__(daemon=True)
        self.port, self.request, self.pause = port, request, 1 / rate
        self.answers, self.fault, self.stopped = 0, None, False

    def run(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 10) as server:
                server.settimeout(10)
                due = time.monotonic()
                while not self.stopped:
                    server.sendall(self.request)
                    if not server.recv(4096):
                        raise OSError("the server has closed the connection")
                    self.answers += 1
                    due = max(due + self.pause, time.monotonic() - 0.1)
                    time.sleep(max(0, due - time.monotonic()))
        except OSError as error:
            self.fault = error


class Machine:
    """Servers and their clients."""

    def __init__(self, folder, built):
        self.folder, self.built = folder, built
        self.servers, self.clients, self.pgbench = {}, {}, None

    def start(self, name, words, **options):
        self.servers[name] = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, stderr=open(self.folder / f"{name}.err", "wb"), **options)

    def client(self, name, port, request, rate):
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise Failed(f"{name} does not answer: {error}") from error
                time.sleep(0.05)
        self.clients[name] = Paced(port, request, rate)
        self.clients[name].start()

    def begin(self):
        folder = self.folder
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=PORT))
        self.start("nginx", ["/usr/sbin/nginx", "-c", folder / "nginx.conf", "-g", "daemon off;"])
        self.start("redis", ["redis-server", "--port", PORT + 1, "--bind", "127.0.0.1", "--save", "", "--dir", folder])
        # Servers with known rates: 200 requests a second, with so many reads for each.
        for at, reads in enumerate([500, 1500]):
            self.start(f"java{at}", ["java", "-Xshare:auto", "-cp", self.built, "Served", PORT + 2 + at, reads])
            self.start(f"go{at}", [self.built / "served", PORT + 4 + at, 2 * reads])
        self.postgresql()
        self.client("nginx", PORT, b"GET / HTTP/1.1\r\nHost: it\r\n\r\n", 500)
        # redis times each command of a pipeline.
        self.client("redis", PORT + 1, b"PING\r\n" * 100, 300)
        for at in range(2):
            self.client(f"java{at}", PORT + 2 + at, b"x", 200)
            self.client(f"go{at}", PORT + 4 + at, b"x", 200)

    def postgresql(self):
        where = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not where:
            raise Failed("PostgreSQL is missing: make setup")
        tools, data = where[-1], self.folder / "data"
        as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]
        data.mkdir()
        subprocess.run(["chown", "postgres", data], check=True)
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*as_user, tools / "initdb", "-D", data, "-A", "trust"], **quiet)
        self.start("postgresql", [*as_user, tools / "postgres", "-D", data, "-k", data, "-c", "listen_addresses="])
        end = time.monotonic() + 60
        while subprocess.run([tools / "pg_isready", "-q", "-h", data], check=False).returncode != 0:
            if time.monotonic() > end:
                raise Failed("PostgreSQL does not answer")
            time.sleep(0.1)
        script = self.folder / "timed.sql"
        script.write_text("EXPLAIN (ANALYZE, TIMING) SELECT sum(n) FROM generate_series(1, 500) n;\n")
        words = [tools / "pgbench", "-h", data, "-U", "postgres", "-n", "-f", script, "-c", 2, "-j", 1, "-R", 400, "-T", 100_000, "postgres"]
        self.pgbench = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                                        stderr=open(self.folder / "pgbench.err", "wb"))

    def check(self):
        """Checks that no server has ended and that every client was answered."""
        for name, server in [*self.servers.items(), ("pgbench", self.pgbench)]:
            if server.poll() is not None:
                said = (self.folder / f"{name}.err").read_text(errors="replace")[-300:]
                raise Failed(f"{name} has ended with {server.returncode}: {said}")
        for name, client in self.clients.items():
            if client.fault:
                raise Failed(f"the client of {name}: {client.fault}")

    def answers(self):
        return sum(client.answers for client in self.clients.values())

    def end(self):
        for client in self.clients.values():
            client.stopped = True
        everybody = [*self.servers.values(), *([self.pgbench] if self.pgbench else [])]
        for one in reversed(everybody):
            one.terminate()
        for one in everybody:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def build(directory):
    """The two servers that read the clock as often as they are told."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "Served.java").write_text(JAVA)
    (directory / "served.go").write_text(GO)
    subprocess.run(["javac", "-d", str(directory), str(directory / "Served.java")], check=True)
    environment = {**os.environ, "GO111MODULE": "off", "PATH": os.environ["PATH"] + ":/usr/local/go/bin"}
    subprocess.run(["go", "build", "-o", str(directory / "served"), str(directory / "served.go")], check=True, env=environment)


def children(pid):
    """The children of all threads of a process."""
    found = []
    for task in Path("/proc").glob(f"{pid}/task/*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended meanwhile
    return found


def descendants(pids):
    """These processes and their children's children."""
    found = []
    for pid in pids:
        found += [pid, *descendants(children(pid))]
    return found


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Failed(f"{words[1]}: exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def survey(clockscope, machine, count):
    """A survey whose `count` most costly servers have the report of a trace, as `trace`."""
    report = run([clockscope, "survey", "--duration", "5", "--freq", "997", "--format", "json"])
    # Attach to the test's own servers only.
    own = descendants([server.pid for server in machine.servers.values()])
    for row in [row for row in report["processes"] if row["reads"] and row["pid"] in own][:count]:
        if Path(f"/proc/{row['pid']}").exists():
            options = ["--via", "none", "--quiet", "--format", "json", "-o", "/dev/fd/1", "--duration", "1"]
            row["trace"] = run([clockscope, "trace", *options, "-p", str(row["pid"])])
    return report


def exact_rates(report):
    rows = [row for row in report["processes"] if "trace" in row]
    return {row["pid"]: row["trace"]["clock_reads"]["reads"] * 1e9 / row["trace"]["wall_ns"] for row in rows}


class Verdict:
    """How often intervals cover, and orders hold."""

    def __init__(self):
        self.judged = self.covered = self.pairs = self.wrong_pairs = 0
        self.outside = []

    def add(self, report, before):
        after = exact_rates(report)
        truths = {pid: (before[pid] + rate) / 2 for pid, rate in after.items() if pid in before}
        rows = [row for row in report["processes"] if row["pid"] in truths and row["reads"]]
        for row in rows:
            truth, reads = truths[row["pid"]], row["reads"]
            if truth < JUDGED_FROM:
                continue
            self.judged += 1
            if reads["low_per_second"] <= truth <= reads["high_per_second"]:
                self.covered += 1
            else:
                self.outside.append(f"{row['command']}: {truth:,.0f}, estimated {reads['per_second']:,.0f} "
                                    f"[{reads['low_per_second']:,.0f}, {reads['high_per_second']:,.0f}]")
        # Rows are in the order of their cost. Two rows whose intervals overlap may be in either order.
        for at, first in enumerate(rows):
            for second in rows[at + 1:]:
                if first["reads"]["low_per_second"] > second["reads"]["high_per_second"]:
                    self.pairs += 1
                    self.wrong_pairs += truths[first["pid"]] < truths[second["pid"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clockscope", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("real.py: survey needs root")
    directory = options.directory.resolve()
    build(directory)
    clockscope = str(options.clockscope.resolve())
    verdict, pauses, own, before, seconds = Verdict(), [], [], {}, 0
    with tempfile.TemporaryDirectory(prefix="survey-") as scratch:
        # PostgreSQL runs as its own user.
        os.chmod(scratch, 0o755)
        machine = Machine(Path(scratch), directory)
        try:
            machine.begin()
            for number in range(options.rounds):
                report = survey(clockscope, machine, 10)
                machine.check()
                if number:
                    verdict.add(report, before)
                else:
                    show(report)
                before = exact_rates(report)
                pauses += [row["trace"]["attached"][0]["pause_ns"] for row in report["processes"] if "trace" in row]
                own.append(report["own_cpu_ns"] / report["elapsed_ns"])
                seconds += report["elapsed_ns"] / 1e9
            answers = machine.answers()
        finally:
            machine.end()
    share = verdict.covered / verdict.judged if verdict.judged else 0
    print(f"estimates of more than {JUDGED_FROM:,} reads a second: {verdict.judged}, of which intervals cover {verdict.covered} ({share:.1%})")
    print(f"pairs of processes whose intervals do not overlap: {verdict.pairs}, in the wrong order {verdict.wrong_pairs}")
    print(f"exact counts: {len(pauses)}, longest pause of a process to attach {max(pauses) / 1e6:.2f} ms; {answers:,} requests answered, none failed")
    print(f"clockscope's own CPU time: {sum(own) / len(own):.1%} of one CPU while it samples ({seconds:.0f} s)")
    for line in verdict.outside:
        print(f"outside: {line}")
    if share < COVERED_LEAST or verdict.wrong_pairs:
        sys.exit("real.py: survey is not as right as it says")


def show(report):
    print("| process | estimated reads a second | 95 % interval | counted | CPUs |\n|---|--:|--:|--:|--:|")
    exact = exact_rates(report)
    for row in report["processes"]:
        if row["pid"] in exact and row["reads"]:
            reads = row["reads"]
            print(f"| {row['command']} | {reads['per_second']:,.0f} | {reads['low_per_second']:,.0f} to {reads['high_per_second']:,.0f} "
                  f"| {exact[row['pid']]:,.0f} | {row['cores']:.3f} |")
    print(flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"real.py: {failure}")
