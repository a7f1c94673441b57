#!/usr/bin/env python3
"""Judges many captures with one `clockscope doctor`: seconds and memory, and whether each is named.

usage: scripts/many-captures.py CLOCKSCOPE FOLDER [COUNT]

Makes COUNT captures (10,000) in FOLDER out of the recorded machines of fixtures/doctor-cases: each an archive, plain,
gzip or xz, with some lines of its log dropped. One in a hundred is damaged: cut off, with bytes that changed, or with
nothing in it that is an archive. Then runs `doctor --format json-lines` on two CPUs, stops it once in the middle and lets
it go on with --resume, and prints `doctor --summary` of the result. The limits are 10 minutes and 200 MB.
"""
import io, json, lzma, os, pathlib, random, resource, shutil, signal, subprocess, sys, tarfile, time

FORMS = ["w:", "w:gz", "w:gz", "w:xz"]
ENDINGS = {"w:": ".tar", "w:gz": ".tar.gz", "w:xz": ".tar.xz"}
DAMAGED_EACH = 100


def machines():
    cases = pathlib.Path(__file__).resolve().parent.parent / "fixtures/doctor-cases"
    for case in sorted(path for path in cases.iterdir() if path.is_dir()):
        files = [path for path in sorted(case.rglob("*")) if path.is_file() and path.name != "case.json"]
        yield case.name, [(str(path.relative_to(case)), path.read_bytes()) for path in files]


def archive(files, form, chance):
    packed = io.BytesIO()
    options = {"preset": 0} if form == "w:xz" else {"compresslevel": 1} if form == "w:gz" else {}
    with tarfile.open(fileobj=packed, mode=form, **options) as tar:
        for name, data in files:
            if name.startswith("var/log"):
                lines = data.splitlines(keepends=True)
                data = b"".join(line for line in lines if chance.random() > 0.05)
            member = tarfile.TarInfo("capture/" + name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def damaged(packed, chance):
    kind = chance.randrange(3)
    if kind == 0:
        return packed[: chance.randrange(1, min(len(packed) // 2, 900))]
    if kind == 1:
        # Within the first header, because plain tar has no checksum of the contents of files.
        return packed[:60] + bytes(byte ^ 0xA5 for byte in packed[60:])
    return b"<html>404 not found</html>\n"


def make(folder, count):
    chance = random.Random(1)
    recorded = list(machines())
    broken = set()
    for number in range(count):
        name, files = recorded[number % len(recorded)]
        form = chance.choice(FORMS)
        packed = archive(files, form, chance)
        place = folder / f"rack-{number % 40:02}"
        place.mkdir(exist_ok=True)
        path = place / f"clockscope-{name}-{number:05}-2026-11-24T020000Z{ENDINGS[form]}"
        if number % DAMAGED_EACH == 7:
            packed = damaged(packed, chance)
            broken.add(str(path))
        path.write_bytes(packed)
    return broken


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_duckdb(out, lines):
    """The query of docs/fleet.md, if DuckDB is there."""
    try:
        import duckdb
    except ImportError:
        print("not asked by DuckDB, which is missing: pip install duckdb")
        return []
    label = "fix:tsc=nowatchdog"
    page = (pathlib.Path(__file__).resolve().parent.parent / "docs/fleet.md").read_text()
    query = page.split("```sql\n", 1)[1].split(";", 1)[0]
    rows = duckdb.sql(query.replace("machines.jsonl", str(out))).fetchall()
    found, wanted = sum(row[2] for row in rows), sum(label in line["labels"] for line in lines)
    print(f"DuckDB: {found} machines with {label}, in {len(rows)} groups")
    return [] if found == wanted and wanted else [f"DuckDB finds {found} machines with {label}, the lines have {wanted}"]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 10_000
    shutil.rmtree(folder, ignore_errors=True)
    captures = folder / "captures"
    captures.mkdir(parents=True)
    broken = make(captures, count)
    out = folder / "machines.jsonl"
    command = [tool, "doctor", "--root", str(captures), "--format", "json-lines", "-o", str(out)]

    start = time.monotonic()
    whole = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    lines = lines_of(out)
    errors = {line["root"] for line in lines if line["error"]}
    print(f"{len(lines)} machines in {seconds:.1f} s, {peak:.1f} MiB at most; {len(errors)} could not be read")
    print(f"status {whole.returncode}: {whole.stderr.strip()}")

    roots = [line["root"] for line in lines]
    made = {str(path) for path in captures.rglob("*.tar*")}
    failed = []
    if len(roots) != count or set(roots) != made:
        failed.append(f"{count} captures, {len(set(roots))} of them named, {len(roots)} lines")
    if errors - broken:
        failed.append(f"whole archives were not read: {sorted(errors - broken)[:3]}")
    unsaid = {line["root"] for line in lines if line["root"] in broken and not line["error"] and not line["unread"]}
    if unsaid:
        failed.append(f"damaged archives are called whole: {sorted(unsaid)[:3]}")
    if seconds > 600 or peak > 200:
        failed.append("the limits are 600 s and 200 MiB")

    # After a kill in the middle, --resume continues.
    out.unlink()
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not out.exists() or out.stat().st_size < count * 40:
        if run.poll() is not None:
            break
        time.sleep(0.001)
    run.send_signal(signal.SIGKILL)
    run.wait()
    half = len(out.read_bytes().splitlines())
    resumed = subprocess.run([*command, "--resume"], stderr=subprocess.PIPE, text=True, check=False)
    again = lines_of(out)
    print(f"killed after {half} machines; resumed: {resumed.stderr.strip()}")
    key = lambda line: line["root"]
    if sorted(again, key=key) != sorted(lines, key=key):
        failed.append("what was resumed is not what was done at once")

    start = time.monotonic()
    summary = subprocess.run([tool, "doctor", "--summary", "--format", "json", "--root", str(out)], capture_output=True, text=True, check=False)
    groups = json.loads(summary.stdout)
    print(f"summary in {time.monotonic() - start:.1f} s: " + ", ".join(f"{g['machines']} {g['name']}" for g in groups["verdict"]))
    if {one["root"] for one in groups["unreadable"]} != errors or groups["machines"] != count:
        failed.append("the summary lacks machines")
    failed.extend(by_duckdb(out, lines))
    shutil.rmtree(folder)
    if failed:
        sys.exit("\n".join(failed))


main()
