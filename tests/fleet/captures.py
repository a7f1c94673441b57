"""Runs what docs/fleet.md says about many captures, on captures of the recorded machines: GNU parallel, DuckDB, the Job for Kubernetes.

Usage, by the Python of tests/fleet/tools: captures.py CLOCKSCOPE
Blocks fenced as `console-fleet` hold commands; those fenced as `sql` are queries that DuckDB answers; the command of `console-job` puts the
parts of the Job together.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import duckdb
import kubernetes_validate
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/fleet.md"
CASES = REPOSITORY / "fixtures/doctor-cases"
JOB = REPOSITORY / "packaging/kubernetes/captures-job.yaml"
# A limit for hung commands, longer than any command takes.
PATIENCE = 120


def say(text):
    print(f"test-deploy: captures: {text}", flush=True)


def expect(is_so, what):
    if not is_so:
        sys.exit(f"test-deploy: captures: {what}")


def blocks(language):
    """The blocks of the page with that fence."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def commands(language):
    """The commands of these blocks, and the exit status that each must have."""
    for line in "".join(blocks(language)).splitlines():
        if line.startswith("$ "):
            command, _, status = line[2:].partition("# exit ")
            yield command, int(status or 0)


class Shell:
    """A folder, and a PATH with clockscope and DuckDB's Python."""

    def __init__(self, folder, clockscope):
        self.folder = folder
        path = [pathlib.Path(sys.executable).parent, clockscope.parent, os.environ["PATH"]]
        self.environment = {**os.environ, "HOME": str(folder), "PATH": ":".join(map(str, path))}

    def run(self, command, status=0, **environment):
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env={**self.environment, **environment}, capture_output=True,
                              text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        expect(done.returncode == status, f"{command}: status {done.returncode} instead of {status}\n{done.stdout}{done.stderr}")
        return done.stdout


def pack(folder):
    """Captures of all recorded machines, and one that is cut off."""
    folder.mkdir()
    names = sorted(case.name for case in CASES.iterdir() if (case / "case.json").exists())
    for name in names:
        with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(CASES / name, "capture")
    whole = (folder / f"{names[0]}.tar.gz").read_bytes()
    (folder / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    return [*names, "cut"]


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def in_parallel_and_in_duckdb(shell, names):
    count = 0
    for command, status in commands("console-fleet"):
        out = shell.run(command, status)
        count += 1
        expect("duckdb" not in command or "wrong time possible" in out, f"DuckDB: {out}")
    expect(count >= 4, f"{count} commands in {PAGE}")
    found = lines(shell.folder / "machines.jsonl")
    expect(sorted(line["host"] for line in found) == sorted(names), "parallel lost or doubled a machine")
    alone = shell.run("find captures -name '*.tar*' | clockscope doctor --format json-lines --root -", 2)
    by_root = {line["root"]: line for line in found}
    expect(by_root == {line["root"]: line for line in map(json.loads, alone.splitlines())}, "parallel's lines differ from doctor's")
    say(f"GNU parallel: {len(found)} machines, as doctor alone says; {count} commands of docs/fleet.md")
    os.chdir(shell.folder)
    queries = [query for block in blocks("sql") for query in block.split(";") if query.strip()]
    expect(len(queries) >= 3, f"{len(queries)} queries in {PAGE}")
    for query in queries:
        rows = duckdb.sql(query).fetchall()
        expect(rows, f"no row answers {query}")
    expect([(path, bool(error)) for path, error in rows] == [("captures/cut.tar.gz", True)], f"the damaged one: {rows}")
    helped = sum("fix:tsc=nowatchdog" in line["labels"] for line in found)
    machines = sum(row[2] for row in duckdb.sql(queries[0]).fetchall())
    expect(machines == helped > 1, f"{machines} of {helped} machines")
    say(f"DuckDB: {len(queries)} queries, none without an answer")


def as_a_job(shell, names):
    job = yaml.safe_load(JOB.read_text())
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    container = job["spec"]["template"]["spec"]["containers"][0]
    expect(container["command"] == ["sh", "-c"], "it is no shell that runs it")
    pods = job["spec"]["completions"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    expect(environment["PODS"] == str(pods), "PODS is not completions")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    expect({environment["CAPTURES"], environment["RESULTS"]} == mounts, "the folders are not the mounts")
    results = shell.folder / "results"
    results.mkdir()
    here = {**environment, "CAPTURES": str(shell.folder / "captures"), "RESULTS": str(results)}
    for index in range(pods):
        shell.run(container["args"][0], 0, JOB_COMPLETION_INDEX=str(index), **here)
    parts = [lines(results / f"{index}.jsonl") for index in range(pods)]
    expect(all(parts), "a Pod has nothing to do")
    hosts = sorted(line["host"] for part in parts for line in part)
    expect(hosts == sorted(names), "the Pods lost or doubled a machine")
    # State after a Pod was killed in the middle of a line and is started again.
    file = results / "3.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    shell.run(container["args"][0], 0, JOB_COMPLETION_INDEX="3", **here)
    expect(sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines()), "a restarted Pod does not go on")
    [(command, status)] = commands("console-job")
    merged = shell.run(command, status)
    expect(f"{len(names)} machines" in merged and "cut.tar.gz" in merged, merged)
    # The summary must equal that of a single run, except for the paths.
    at_once = shell.run("clockscope doctor --summary --root captures", 2).replace("  captures/", "  ")
    expect(merged.replace(f"  {shell.folder}/captures/", "  ").split() == at_once.split(), f"{merged}\n{at_once}")
    say(f"Job: valid; {pods} Pods judge {len(hosts)} machines, each once; a restarted Pod goes on; the summary is that of all at once")


def main():
    clockscope = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="captures-") as folder:
        shell = Shell(pathlib.Path(folder), clockscope)
        names = pack(shell.folder / "captures")
        in_parallel_and_in_duckdb(shell, names)
        as_a_job(shell, names)
    say("ok")


main()
