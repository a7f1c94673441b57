"""Renders packaging/helm/clockscope with several values, validates what comes out, and runs its containers as they are described
there: the doctor in podman on recorded machines, the exporter beside it.

Usage, as root, by the Python of tests/fleet/tools: chart.py CLOCKSCOPE TOOLS DIRECTORY
DIRECTORY/root is the root of a Debian, which stands for the image.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import jsonschema
import kubernetes_validate
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "packaging/helm/clockscope"
CASES = REPOSITORY / "fixtures/doctor-cases"
RULES = REPOSITORY / "packaging/prometheus/clockscope.rules.yml"
# A limit for hung commands, longer than any command takes.
PATIENCE = 120
IMAGE = {"image": {"repository": "registry.example/clockscope"}}
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"

ACCEPTED = {
    "defaults": {},
    "live": {"live": True, "podMonitor": {"enabled": True}},
    "all": {
        "logs": "", "nodeFeatures": FEATURES, "podLabels": {"team": "clocks"}, "podAnnotations": {"a": "b"},
        "priorityClassName": "system-node-critical", "nodeSelector": {"pool": "db"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]}}},
        "imagePullSecrets": [{"name": "pull"}], "podMonitor": {"enabled": True, "labels": {"release": "p"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "p"}, "runbookUrl": "https://wiki.example/clock/"},
    },
    "textfile": {"textfile": "/var/lib/node_exporter", "exporter": {"enabled": False}},
    "features": {"nodeFeatures": FEATURES, "exporter": {"enabled": False}},
}
# Values that helm must refuse, and the message.
REFUSED = {
    "no image": ({"image": {"repository": ""}}, "image.repository is the image of clockscope"),
    "a word too much": ({"intervall": 60}, "intervall"),
    "every second": ({"intervalSeconds": 1}, "intervalSeconds"),
    "a relative folder": ({"textfile": "textfile"}, "textfile"),
    "a monitor of nothing": ({"podMonitor": {"enabled": True}, "textfile": "/t", "exporter": {"enabled": False}}, "try exporter.enabled=true"),
    "a verdict for nobody": ({"exporter": {"enabled": False}}, "nobody would see the verdicts"),
}


def say(text):
    print(f"test-deploy: chart: {text}", flush=True)


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **options)


def succeeds(words, **options):
    done = run(words, **options)
    if done.returncode != 0:
        sys.exit(f"test-deploy: chart: {' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(is_so, what):
    if not is_so:
        sys.exit(f"test-deploy: chart: {what}")


def merged(one, other):
    """`other` over `one`, as helm merges values."""
    out = dict(one)
    for key, value in other.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


class Chart:
    def __init__(self, tools, directory):
        self.helm, self.tools, self.directory = tools / "bin/helm", tools, directory

    def words(self, action, values):
        """A command of helm's with these values and the image."""
        file = self.directory / "values.yaml"
        file.write_text(yaml.safe_dump(merged(IMAGE, values)))
        release = ["nodes"] if action[0] == "template" else []
        return [self.helm, *action, *release, CHART, "--values", file]

    def render(self, values):
        text = succeeds(self.words(["template", "--namespace", "monitoring"], values))
        return [document for document in yaml.safe_load_all(text) if document]

    def validate(self, documents):
        for document in documents:
            if document["apiVersion"] == "monitoring.coreos.com/v1":
                name = f"{document['kind'].lower()}s.yaml"
                definition = yaml.safe_load((self.tools / "definitions" / name).read_text())
                [version] = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
                jsonschema.validate(document, strictly(version["schema"]["openAPIV3Schema"]))
            else:
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def strictly(schema):
    """A definition that refuses fields that it does not name. What is an integer or a string there has the type of an integer here, and
    one pattern is of Go's form."""
    if isinstance(schema, list):
        return [strictly(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: strictly(value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
    if isinstance(schema.get("pattern"), str) and "(?i)" in schema["pattern"]:
        out.pop("pattern")
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and schema.get("type") == "object":
        open_ones = {"metadata": {"type": "object"}} if "metadata" in schema["properties"] else {}
        out["properties"] = {**out["properties"], **open_ones}
        out["additionalProperties"] = False
    return out


def rendered(chart):
    for name, values in ACCEPTED.items():
        succeeds(chart.words(["lint", "--strict"], values))
        documents = chart.render(values)
        chart.validate(documents)
        say(f"{name}: {', '.join(document['kind'] for document in documents)}: valid")
    broken = chart.render({})
    [daemon] = [one for one in broken if one["kind"] == "DaemonSet"]
    daemon["spec"]["template"]["spec"]["hostPIDs"] = True
    try:
        chart.validate(broken)
    except kubernetes_validate.ValidationError:
        pass
    else:
        sys.exit("test-deploy: chart: the validation accepts anything")
    for name, (values, said) in REFUSED.items():
        done = run(chart.words(["template"], values))
        expect(done.returncode != 0 and said in done.stderr, f"{name} is not refused: {done.stderr}")
    say(f"{len(REFUSED)} wrong values are refused")


def documented(chart):
    """The command of docs/fleet.md, which would need a cluster, renders."""
    [command] = re.findall(r"^\$ helm install (.*)$", (REPOSITORY / "docs/fleet.md").read_text(), re.MULTILINE)
    documents = [one for one in yaml.safe_load_all(succeeds([chart.helm, "template", *command.split()], cwd=REPOSITORY)) if one]
    chart.validate(documents)
    expect(len(documents) == 4, f"{len(documents)} documents")
    say(f"docs/fleet.md: helm install {command.split()[0]}: {len(documents)} documents")


def confined(chart):
    """No capability but the one for the log, nothing of the host but what is read."""
    for name, values in ACCEPTED.items():
        [daemon] = [one for one in chart.render(values) if one["kind"] == "DaemonSet"]
        pod = daemon["spec"]["template"]["spec"]
        for word in ["hostPID", "hostIPC", "hostNetwork", "hostUsers"]:
            expect(word not in pod, f"{name}: {word}")
        expect(pod["automountServiceAccountToken"] is False, f"{name}: it has a token")
        expect(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", f"{name}: no filter")
        for container in pod["containers"]:
            context = container["securityContext"]
            expect(context["readOnlyRootFilesystem"] and not context["privileged"], f"{name}: not confined")
            expect(not context["allowPrivilegeEscalation"] and context["capabilities"]["drop"] == ["ALL"], f"{name}: not confined")
            added = ["SYSLOG"] if values.get("live") and container["name"] == "doctor" else None
            expect(context["capabilities"].get("add") == added, f"{name}: capabilities")
        of_host = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
        written = {mount["name"] for mount in pod["containers"][0]["volumeMounts"] if not mount.get("readOnly")}
        expect(of_host & written <= {"textfile", "features"}, f"{name}: {of_host & written} can be written")
    say("confined: no capability, no namespace of the host, no token; nothing of the host is written but the folders that were named")


def rules(chart):
    [rule] = [one for one in chart.render({"prometheusRule": {"enabled": True}}) if one["kind"] == "PrometheusRule"]
    expect(rule["spec"]["groups"] == yaml.safe_load(RULES.read_text())["groups"], "the rules are not those of packaging/prometheus")
    moved = next(one for one in chart.render(ACCEPTED["all"]) if one["kind"] == "PrometheusRule")
    expect("file://" not in json.dumps(moved) and "https://wiki.example/clock/" in json.dumps(moved), "runbookUrl")
    file = chart.directory / "rules.yml"
    file.write_text(yaml.safe_dump(moved["spec"]))
    say(succeeds(["promtool", "check", "rules", file]).strip().splitlines()[-1].strip())


class Podman:
    """Runs a container of the rendered DaemonSet, on a host whose files are below `host`."""

    def __init__(self, clockscope, root, directory):
        self.clockscope, self.root, self.directory = clockscope, root, directory
        self.ways = None
        reasons = []
        for runtime in ["crun", "runc"]:
            for cgroups in [[], ["--cgroups", "disabled"]]:
                words = ["podman", "--runtime", runtime, "run", "--rm", "--network", "none", *self.limits(), *cgroups, "--rootfs", f"{root}:O", "true"]
                done = run(words)
                if done.returncode == 0:
                    self.ways = (runtime, cgroups)
                    return
                reasons.append(done.stderr.strip())
        sys.exit("test-deploy: chart: podman starts no container here:\n" + "\n".join(reasons))

    @staticmethod
    def limits():
        return ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]

    def words(self, daemon, volumes, command=None, name=None):
        """`volumes`: the folder or file of each volume."""
        pod = daemon["spec"]["template"]["spec"]
        container = pod["containers"][0]
        context = container["securityContext"]
        runtime, cgroups = self.ways
        words = ["podman", "--runtime", runtime, "run", "--rm", "--network", "none", *self.limits(), *cgroups]
        words += ["--user", str(context["runAsUser"])]
        words += ["--read-only", "--read-only-tmpfs=false"] if context["readOnlyRootFilesystem"] else []
        words += ["--security-opt", "no-new-privileges"] if not context["allowPrivilegeEscalation"] else []
        words += [f"--cap-drop={one}" for one in context["capabilities"]["drop"]]
        words += [f"--cap-add={one}" for one in context["capabilities"].get("add", [])]
        for one in container["env"]:
            words += ["--env", f"{one['name']}={one['value']}"]
        for mount in container["volumeMounts"]:
            options = ":ro" if mount.get("readOnly") else ""
            words += ["--volume", f"{volumes[mount['name']]}:{mount['mountPath']}{options}"]
        words += ["--volume", f"{self.clockscope}:/usr/bin/clockscope:ro"]
        words += ["--name", name] if name else []
        return [*words, "--rootfs", f"{self.root}:O", *(command or [*container["command"], *container["args"]])]


def host_of(case, directory):
    """A host as the DaemonSet expects one, with the files of a recorded machine."""
    host = directory / f"host-{case.name}"
    shutil.copytree(case, host)
    for file in ["proc/cmdline", "proc/cpuinfo", "proc/version", "etc/os-release"]:
        (host / file).parent.mkdir(parents=True, exist_ok=True)
        (host / file).touch()
    for folder in ["sys", "proc/sys/kernel", "var/log", "textfile", "features"]:
        (host / folder).mkdir(parents=True, exist_ok=True)
    return host


def volumes_of(daemon, host):
    """Where the volumes of the Pod are on that host."""
    folders = {}
    for volume in daemon["spec"]["template"]["spec"]["volumes"]:
        name = volume["name"]
        own = {"textfile": "textfile", "features": "features"}.get(name)
        folders[name] = host / (own or volume["hostPath"]["path"].lstrip("/"))
        expect(folders[name].exists(), f"{folders[name]} is not there")
    return folders


def settled(text):
    """Metrics without lines that differ from one run to the next."""
    return [line for line in text.splitlines() if not re.match(r"clockscope_(doctor_run_timestamp|boot_info)", line)]


def until(is_so, what):
    """Waits until another process has met a condition."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        expect(time.monotonic() < end, what)
        time.sleep(0.05)


def doctor_runs(chart, podman, clockscope, directory):
    [daemon] = [one for one in chart.render({"nodeFeatures": FEATURES}) if one["kind"] == "DaemonSet"]
    for case in [CASES / "vbox-seed-deb7-3.2", CASES / "qemu-4.15-tsc-healthy", CASES / "lkml-cpuid15-wrong-freq-tsc"]:
        host = host_of(case, directory)
        name = f"clockscope-chart-{os.getpid()}"
        with subprocess.Popen([str(word) for word in podman.words(daemon, volumes_of(daemon, host), name=name)],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as container:
            try:
                features = host / "features/clockscope"
                until(lambda: features.exists() or container.poll() is not None, "no metrics come")
                ended = run(["podman", "stop", "--time", "5", name])
            finally:
                run(["podman", "rm", "--force", "--ignore", name])
            said = container.communicate(timeout=PATIENCE)[1]
        expect((container.returncode, ended.returncode) == (0, 0), f"{case.name}: it does not end on SIGTERM: {container.returncode} {said}")
        alone = run([clockscope, "doctor", "--root", host, "--format", "metrics"])
        written = (host / "textfile/clockscope.prom").read_text()
        expect(settled(written) == settled(alone.stdout), f"{case.name}: it says something else in the container:\n{written}")
        state = re.search(r'doctor_state_info{state="([^"]*)"}', written)[1]
        source = re.search(r'clocksource_current_info{device="0",clocksource="([^"]*)"}', written)[1]
        lines = features.read_text().splitlines()
        wanted = [f"clockscope.io/clock-reads={state}", f"clockscope.io/clocksource={source}"]
        expect(sorted(lines) == sorted(wanted), f"{case.name}: {lines}")
        for line in lines:
            value = line.partition("=")[2]
            expect(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value), f"no label's value: {line}")
        left = sorted(path.name for path in (host / "features").iterdir())
        expect(left == ["clockscope"], f"{left} is left")
        say(f"{case.name}: in a container as outside; labels {' '.join(lines)}")
    inside = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; touch /etc/x /usr/x /host/sys/x /host/var/log/x 2>&1"
    out = run(podman.words(daemon, volumes_of(daemon, host), command=["sh", "-c", inside])).stdout
    expect("CapEff:\t0000000000000000" in out and "CapBnd:\t0000000000000000" in out and "NoNewPrivs:\t1" in out, out)
    expect("Seccomp:\t2" in out and out.count("Read-only file system") == 4, out)
    say("inside: no capability, no new privileges, a seccomp filter, and nothing can be written but the volumes")
    return host


def live_runs(chart, podman, directory):
    [daemon] = [one for one in chart.render({"live": True}) if one["kind"] == "DaemonSet"]
    textfile = directory / "live"
    textfile.mkdir()
    command = ["clockscope", "doctor", "--format", "metrics", "-o", "/textfile/clockscope.prom"]
    done = run(podman.words(daemon, {"textfile": textfile}, command=command))
    expect(done.returncode in (0, 1, 2), f"live: {done.returncode} {done.stderr}")
    text = (textfile / "clockscope.prom").read_text()
    cost = re.search(r'clockscope_clock_read_seconds{clock="CLOCK_MONOTONIC",path="vdso"} (\S+)', text)
    expect(cost, f"live: it is not measured: {text}")
    say(f"live: a read takes {float(cost[1]) * 1e9:.1f} ns by the vDSO in the container")


def exporter_runs(chart, host):
    """The second container's command, with the exporter of Debian."""
    [daemon] = [one for one in chart.render({}) if one["kind"] == "DaemonSet"]
    [exporter] = [one for one in daemon["spec"]["template"]["spec"]["containers"] if one["name"] == "exporter"]
    port = exporter["ports"][0]["containerPort"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        here = free.getsockname()[1]
    args = [arg.replace("=/textfile", f"={host}/textfile").replace(f"=:{port}", f"=127.0.0.1:{here}") for arg in exporter["args"]]
    with subprocess.Popen(["prometheus-node-exporter", *args], stderr=subprocess.DEVNULL) as process:
        try:
            text = []

            def answers():
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{here}/metrics", timeout=5) as answer:
                        text.append(answer.read().decode())
                except OSError:
                    expect(process.poll() is None, f"the exporter ends: {process.returncode}")
                return bool(text)

            until(answers, "the exporter does not answer")
        finally:
            process.terminate()
    names = {line.split("{")[0].split(" ")[0] for line in text[0].splitlines() if not line.startswith("#")}
    expect({"clockscope_doctor_status", "node_textfile_mtime_seconds"} <= names, names)
    others = sorted(name for name in names if not name.startswith(("clockscope_", "node_textfile_", "node_scrape_", "node_exporter_", "promhttp_")))
    expect(others == [], f"it exports {others}, too")
    say(f"exporter: {len(names)} names, all of doctor and of the collector")


def main():
    clockscope, tools, directory = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    with tempfile.TemporaryDirectory(prefix="chart-") as folder:
        folder = pathlib.Path(folder)
        chart = Chart(tools, folder)
        rendered(chart)
        documented(chart)
        confined(chart)
        rules(chart)
        podman = Podman(clockscope, directory / "root", folder)
        host = doctor_runs(chart, podman, clockscope, folder)
        live_runs(chart, podman, folder)
        exporter_runs(chart, host)
    say("ok")


main()
