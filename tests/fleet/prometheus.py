#!/usr/bin/env python3
"""A fleet of 200 recorded machines under Prometheus, Alertmanager and node_exporter: which alerts arrive, and when.

Usage: tests/fleet/prometheus.py CLOCKSCOPE DIRECTORY

clockscope judges the machines of fixtures/doctor-cases and writes their metrics; each is a target under several
names. Three machines have a real node_exporter, which reads the files below their root. They lose their TSC, are mended and
lose it again; what arrives at the webhook of Alertmanager is compared with what has to. At last every expression of
the dashboard is run, and none may be without data.

The servers listen on loopback, on ports that are free. All durations of the rules are divided by 120, so that a day
takes twelve minutes. Nothing is slept for: each step waits until its condition holds, and fails after a limit.
"""
import contextlib
import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CASES = REPOSITORY / "fixtures/doctor-cases"
PACKAGING = REPOSITORY / "packaging"
DASHBOARD = PACKAGING / "grafana/clockscope.json"
MACHINES = 200
FASTER = 120
# Seconds; longer than any step takes on a busy machine.
PATIENCE = 120
CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"
STARTED = time.monotonic()


class Wrong(Exception):
    """Something is not as it has to be."""


def say(text):
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


def wait_for(what, condition):
    """Waits until the condition gives something, and gives that."""
    limit = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > limit:
            raise Wrong(f"after {PATIENCE} s there is not: {what}")
        time.sleep(0.1)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def fetch(url, data=None):
    request = urllib.request.Request(url, data=data and json.dumps(data).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


# ---------------------------------------------------------------- machines

class Machine:
    """A recorded machine with a root, whose verdict clockscope writes for the textfile collector."""

    def __init__(self, clockscope, folder, name):
        self.clockscope = clockscope
        self.name = name
        self.root = folder / name / "root"
        self.textfiles = folder / name / "textfile"
        self.textfiles.mkdir(parents=True)
        self.is_judged = True

    def becomes(self, case, clocksource, available, command_line=None, boots=False):
        """Takes the files of a recorded machine, or none (a healthy one), and is judged."""
        boot = None if boots or not self.root.exists() else self.boot()
        shutil.rmtree(self.root, ignore_errors=True)
        if case:
            shutil.copytree(CASES / case, self.root)
        self.write("proc/sys/kernel/random/boot_id", boot[0] if boot else str(uuid.uuid4()))
        # Boots are at least minutes apart, because the rules round to minutes.
        booted = boot[1] if boot else max(int(time.time()) - 100_000, getattr(self, "booted", 0) + 3600)
        self.booted = booted
        self.write("proc/stat", f"cpu  1 0 1 1 0 0 0 0 0 0\nbtime {booted}\n")
        self.write(f"{CLOCKSOURCE}/current_clocksource", clocksource)
        self.write(f"{CLOCKSOURCE}/available_clocksource", available)
        if command_line is not None:
            self.write("proc/cmdline", command_line)
        if self.is_judged:
            judge(self.clockscope, self.root, self.textfiles / "clockscope.prom")

    def boot(self):
        return (self.root / "proc/sys/kernel/random/boot_id").read_text().strip(), self.booted

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def exporter(self, port):
        """node_exporter with this machine's files instead of those of the machine that runs it."""
        return ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
                "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={self.textfiles}",
                "--collector.time", "--collector.stat", "--collector.uname", f"--path.procfs={self.root}/proc",
                f"--path.sysfs={self.root}/sys"]


def judge(clockscope, root, file):
    words = [clockscope, "doctor", "--format", "metrics", "-o", file, *(["--root", root] if root else [])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode not in (0, 1, 2, 3) or not file.exists():
        raise Wrong(f"doctor of {root}: {done.returncode} {done.stderr}")


def recorded(clockscope):
    """The recorded machines by name, as doctor's JSON."""
    machines = {}
    for case in sorted(CASES.iterdir()):
        done = subprocess.run([clockscope, "doctor", "--format", "json", "--root", case], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        machines[case.name] = {**json.loads(done.stdout), "status": done.returncode}
    return machines


# ---------------------------------------------------------------- servers

class Site(http.server.BaseHTTPRequestHandler):
    """Metrics of the machines without a node_exporter of their own, and the webhook."""
    pages = {}
    received = []
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        file = self.pages.get(self.path)
        self.answer(200, file.read_bytes()) if file else self.answer(404)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.extend(message["alerts"])
        self.answer(200)

    def log_message(self, *_):
        pass


def faster(text):
    """The rules with all durations divided by FASTER."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}

    def divided(found):
        before, number, name = found.groups()
        return f"{before}{int(number) * unit[name] * 1000 // FASTER}ms"
    return re.sub(r"(interval: |for: |[\[:])(\d+)([smhd])(?=$|[\]:])", divided, text, flags=re.MULTILINE)


class Fleet:
    """Prometheus, Alertmanager, and what they look at."""

    def __init__(self, clockscope, folder):
        self.clockscope = clockscope
        self.folder = folder
        self.running = []
        self.silenced = []
        self.port, self.prometheus, self.alertmanager = free_port(), free_port(), free_port()
        self.seen = 0

    def start(self, words, name):
        log = open(self.folder / f"{name}.log", "w", encoding="utf-8")
        self.running.append((name, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)))

    def stop(self):
        for _, process in self.running:
            process.terminate()
        for _, process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def open(self, targets):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Site)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rules = []
        for name in ("clockscope", "clockscope-node"):
            text = (PACKAGING / f"prometheus/{name}.rules.yml").read_text(encoding="utf-8")
            quick = faster(text)
            if re.search(r"(interval: |for: |\[)\d+[smhd]\b", quick):
                raise Wrong(f"{name}.rules.yml has a duration that was not divided")
            rules.append(self.folder / f"{name}.rules.yml")
            rules[-1].write_text(quick, encoding="utf-8")
        # JSON is also YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{self.alertmanager}"]}]}]},
            "scrape_configs": [{"job_name": "node", "static_configs": targets}],
        }, indent=1))
        (self.folder / "alertmanager.yml").write_text(json.dumps({
            "route": {"receiver": "webhook", "group_by": ["alertname", "instance"], "group_wait": "1s",
                      "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "webhook", "webhook_configs": [
                {"url": f"http://127.0.0.1:{self.port}/webhook", "send_resolved": True}]}],
        }, indent=1))
        self.start(["prometheus-alertmanager", f"--config.file={self.folder}/alertmanager.yml",
                    f"--storage.path={self.folder}/alertmanager", "--cluster.listen-address=", "--log.level=warn",
                    f"--web.listen-address=127.0.0.1:{self.alertmanager}"], "alertmanager")
        self.start(["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.prometheus}", "--log.level=warn",
                    "--rules.alert.resend-delay=1s"], "prometheus")

    def query(self, expression):
        for name, process in self.running:
            if process.poll() is not None:
                raise Wrong(f"{name} ended: {(self.folder / (name + '.log')).read_text()[-2000:]}")
        words = urllib.parse.urlencode({"query": expression})
        try:
            return fetch(f"http://127.0.0.1:{self.prometheus}/api/v1/query?{words}")["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code in (503,):
                return []
            raise Wrong(f"{expression}: {error.read().decode()}") from error
        except OSError:
            return []

    def number(self, expression):
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def firing(self, alert):
        return {row["metric"]["instance"]: row["metric"] for row in
                self.query(f'ALERTS{{alertname="{alert}", alertstate="firing"}}')}

    def mark(self):
        """From here on `arrives` looks."""
        self.seen = len(Site.received)

    def arrived(self, status, alert, host):
        for one in Site.received[self.seen:]:
            labels = one["labels"]
            if (one["status"], labels["alertname"], labels["instance"]) == (status, alert, host):
                return one
        return None

    def arrives(self, status, alert, host):
        one = wait_for(f"{alert} of {host}, {status}, at the webhook", lambda: self.arrived(status, alert, host))
        say(f"webhook: {status:8} {one['annotations']['summary']}")
        return one

    def never_arrived(self, alert, host):
        for status in ("firing", "resolved"):
            if self.arrived(status, alert, host):
                raise Wrong(f"{alert} of {host} arrived, which it must not")


def expect(what, found, wanted):
    if found != wanted:
        raise Wrong(f"{what}: {found!r} and not {wanted!r}")


def runbook_is_there(alert):
    """The section that the alert names is in the documentation."""
    url = alert["annotations"]["runbook_url"]
    path, _, anchor = url.removeprefix("file:///usr/share/doc/clockscope/").partition("#")
    page = (REPOSITORY / path).read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in page.splitlines() if line.startswith("#")}
    if f'<a id="{anchor}"></a>' not in page and anchor not in headings:
        raise Wrong(f"{path} has no section {anchor}")
    say(f"         runbook: {path}#{anchor}")


# ---------------------------------------------------------------- the scenarios

def settles(fleet, machines, names):
    """All targets are up, and the alerts are those of the recorded machines."""
    wait_for(f"{len(names)} targets that are up", lambda: fleet.number("sum(up)") == len(names))
    say(f"Prometheus: {len(names)} targets are up")

    def hosts(condition):
        return {name for name, case in names.items() if case in machines and condition(machines[case])}

    def fix(report):
        return report["advice"][0]["name"] if report["advice"] else ""

    wrong = hosts(lambda report: report["status"] == 2)
    slow = hosts(lambda report: report["status"] == 1 and report["state"] == "slow" and fix(report) not in ("", "coarse", "keep"))
    wait_for(f"ClockMayBeWrong of {len(wrong)} machines", lambda: wrong <= set(fleet.firing("ClockMayBeWrong")))
    wait_for(f"ClockReadsSlow of {len(slow)} machines", lambda: slow <= set(fleet.firing("ClockReadsSlow")))
    actors = {name for name, case in names.items() if case not in machines}
    for alert, wanted in (("ClockMayBeWrong", wrong), ("ClockReadsSlow", slow)):
        found = {name: labels for name, labels in fleet.firing(alert).items() if name not in actors}
        expect(alert, set(found), wanted)
        for name, labels in found.items():
            report = machines[names[name]]
            cause = next((row["id"] for row in report["findings"] if row["severity"] in ("slow", "wrong")), None)
            expect(f"cause and fix of {names[name]}", (labels.get("cause"), labels.get("fix")), (cause, fix(report) or None))
        say(f"firing:  {alert} of {len(found)} recorded machines, each with doctor's cause and fix")
    healthy = hosts(lambda report: report["status"] == 0)
    spared = hosts(lambda report: report["source"] in ("xen", "arch_sys_counter", "arm,sp804", "kvm-clock"))
    told = {row["metric"]["instance"] for row in fleet.query('ALERTS{alertstate="firing", severity!="info"}')}
    expect("alerts of healthy machines, and of those that never had a TSC", told & (healthy | spared), set())
    say(f"silent:  {len(healthy | spared)} machines that are healthy, or never had a TSC (arm, arm64, Xen, kvm-clock)")


def is_lost(fleet, one):
    """A machine loses its TSC while it runs, and is mended."""
    wait_for("the healthy machine one", lambda: fleet.query('clockscope:clocksource_now:timestamp_seconds{instance="one",clocksource="tsc"}'))
    fleet.mark()
    say("one loses its TSC: the watchdog of its kernel gives it up")
    one.becomes("threadripper-acpi_pm-glitch", "acpi_pm", "acpi_pm")
    for name in ("ClocksourceChanged", "ClockReadsSlow"):
        alert = fleet.arrives("firing", name, "one")
        expect("cause and fix", (alert["labels"]["cause"], alert["labels"]["fix"]), ("tsc-watchdog-glitch", "reboot"))
        runbook_is_there(alert)
    say(f"         {alert['annotations']['description']}")
    fleet.never_arrived("ClocksourceChangedAtReboot", "one")
    fleet.mark()
    say("one is mended, as the alert says: it boots again, with the TSC")
    one.becomes(None, "tsc", "tsc hpet acpi_pm", boots=True)
    for name in ("ClocksourceChanged", "ClockReadsSlow"):
        fleet.arrives("resolved", name, "one")
    fleet.never_arrived("ClocksourceChangedAtReboot", "one")


def is_lost_at_reboot(fleet, two):
    """A repair that does not survive a reboot."""
    fleet.mark()
    say("two is mended: it boots without tsc=unstable, and has its TSC")
    two.becomes(None, "tsc", "tsc hpet acpi_pm", "ro quiet", boots=True)
    fleet.arrives("resolved", "ClockReadsSlow", "two")
    fleet.mark()
    say("two boots from its old image at night")
    two.becomes("liquorix-144-conflicting-params", "acpi_pm", "acpi_pm", boots=True)
    alert = fleet.arrives("firing", "ClocksourceChangedAtReboot", "two")
    labels = alert["labels"]
    expect("what it says", tuple(labels[key] for key in ("before", "clocksource", "cause", "fix")),
           ("tsc", "acpi_pm", "param-tsc-unstable", "remove-parameter"))
    runbook_is_there(alert)
    say(f"         {alert['annotations']['description']}")
    fleet.arrives("firing", "ClockReadsSlow", "two")
    fleet.never_arrived("ClocksourceChanged", "two")


def is_lost_without_clockscope(fleet, three):
    """node_exporter alone: the name of the clocksource is enough for an alert, not for a cause."""
    fleet.mark()
    say("three, which has node_exporter only, boots with another kernel and loses its TSC")
    three.becomes(None, "hpet", "hpet acpi_pm", boots=True)
    for name in ("NodeClocksourceChangedAtReboot", "NodeClocksourceSlow"):
        runbook_is_there(fleet.arrives("firing", name, "three"))
    fleet.never_arrived("NodeClocksourceChanged", "three")


def is_silenced(fleet, one, three):
    """A silence holds back one machine's alerts, and no other's."""
    address = f"--alertmanager.url=http://127.0.0.1:{fleet.alertmanager}"
    amtool = ["amtool", address, "silence"]
    silence = subprocess.run([*amtool, "add", "instance=one", "--duration=1h", "--author=test", "--comment=firmware update"],
                             capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.strip()
    fleet.mark()
    say("amtool silences one; it loses its TSC again, and three is mended after it")
    one.becomes("threadripper-acpi_pm-glitch", "acpi_pm", "acpi_pm")

    both = {"ClocksourceChanged", "ClockReadsSlow"}

    def suppressed():
        alerts = fetch(f"http://127.0.0.1:{fleet.alertmanager}/api/v2/alerts?silenced=true")
        return {alert["labels"]["alertname"] for alert in alerts
                if alert["labels"]["instance"] == "one" and silence in alert["status"]["silencedBy"]} >= both
    wait_for("two silenced alerts of one", suppressed)
    # The alerts that arrive later show that the silenced ones were held back.
    three.becomes(None, "tsc", "tsc hpet acpi_pm")
    fleet.arrives("resolved", "NodeClocksourceSlow", "three")
    for name in both:
        fleet.never_arrived(name, "one")
    say("silent:  one, whose alerts Alertmanager holds back")
    subprocess.run([*amtool, "expire", silence], capture_output=True, timeout=PATIENCE, check=True)
    say("amtool ends the silence")
    fleet.arrives("firing", "ClocksourceChanged", "one")


# ---------------------------------------------------------------- the dashboard

def dashboard_has_data(fleet):
    """Runs every expression of the dashboard, as Grafana would send it."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = {"$__rate_interval": "30s", "$__interval": "10s", "$__range": "10m", "$job": ".*", "$instance": ".*"}
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    count = 0
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(name, value)
            if "$" in expression:
                raise Wrong(f"panel {panel['title']}: a variable is not known: {expression}")
            rows = wait_for(f"data of the panel {panel['title']}: {expression}", lambda: fleet.query(expression))
            count += 1
            say(f"panel:   {panel['title']}: {len(rows)} series")
    say(f"dashboard: {count} expressions of {len(panels)} panels, none without data")


def run(clockscope, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    machines = recorded(clockscope)
    for name in machines:
        judge(clockscope, CASES / name, folder / f"{name}.prom")
    judge(clockscope, None, folder / "here.prom")
    fleet = Fleet(clockscope, folder)
    # "here" is this machine, with a measured cost of its reads.
    names = {"here": "here"}
    Site.pages["/here"] = folder / "here.prom"
    cases = list(machines)
    while len(names) < MACHINES - 3:
        case = cases[len(names) % len(cases)]
        name = f"{case}-{len(names):03}"
        names[name] = case
        Site.pages[f"/{name}"] = folder / f"{case}.prom"
    targets = [{"targets": [f"127.0.0.1:{fleet.port}"], "labels": {"instance": name, "__metrics_path__": f"/{name}"}}
               for name in names]
    one, two, three = (Machine(clockscope, folder, name) for name in ("one", "two", "three"))
    three.is_judged = False
    one.becomes(None, "tsc", "tsc hpet acpi_pm")
    two.becomes("liquorix-144-conflicting-params", "acpi_pm", "acpi_pm")
    three.becomes(None, "tsc", "tsc hpet acpi_pm")
    say(f"clockscope: {len(cases)} recorded machines and this one are judged; {MACHINES} targets")
    with contextlib.ExitStack() as stack:
        stack.callback(fleet.stop)
        for machine in (one, two, three):
            port = free_port()
            names[machine.name] = machine.name
            targets.append({"targets": [f"127.0.0.1:{port}"], "labels": {"instance": machine.name}})
            fleet.start(machine.exporter(port), machine.name)
        fleet.open(targets)
        settles(fleet, machines, names)
        is_lost(fleet, one)
        is_lost_at_reboot(fleet, two)
        is_lost_without_clockscope(fleet, three)
        is_silenced(fleet, one, three)
        if DASHBOARD.exists():
            dashboard_has_data(fleet)
    say(f"ok: {len(Site.received)} notifications arrived")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tests/fleet/prometheus.py CLOCKSCOPE DIRECTORY")
    try:
        run(str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve() / "prometheus")
    except Wrong as wrong:
        sys.exit(f"tests/fleet/prometheus.py: {wrong}")


if __name__ == "__main__":
    main()
