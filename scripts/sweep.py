#!/usr/bin/env python3
"""Runs every program of this machine plainly and below `clockscope trace`, and compares what each says.

usage: scripts/sweep.py CLOCKSCOPE [--only GLOB]... [--limit SECONDS] [FOLDER]...

Takes the executable files of /usr/bin and /usr/sbin (or of each FOLDER), follows links, and runs each file once with
`--version` and once with `--help`: twice plainly, then traced, then with -c, then with -c --via sites. Exit status, standard
output and standard error must be the plain ones. A program whose plain runs differ (a time or a process id in its text) is compared
by its exit status. Where a traced run differs, three more plain and three more traced runs decide: a difference is a
program whose traced runs all differ from all plain ones, or one that only dies by a signal when traced. Each run has a
new HOME, no terminal, no input and a time limit: 20 s, and 100 s if traced, because ptrace slows down programs that make
many system calls. Started by root, it runs programs as the user 65534 (nobody). The last line has the totals; exit status 1
if there is a difference.
"""
import argparse, collections, concurrent.futures, ctypes, fnmatch, json, os, pathlib, resource, select, shutil, signal, stat, subprocess, sys, tempfile, time

NOBODY = 65534
BECOME = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
OPTIONS = ["--version", "--help"]
SLOWER_TRACED = 5
WAYS = {"default": ["-q"], "-c": ["-q", "-c"], "sites": ["-q", "-c", "--via", "sites"]}
STOPS = "it stops or restarts the machine"
NOT_RUN = {
    **dict.fromkeys("shutdown halt poweroff reboot init telinit ctrlaltdel kexec switch_root pivot_root rtcwake".split(), STOPS),
    **dict.fromkeys("agetty getty sulogin openvt vlock".split(), "it takes the console"),
    **dict.fromkeys("mkfs* mke2fs mkswap wipefs blkdiscard".split(), "it writes to disks"),
    "cpan*": "it downloads, whatever its options may be",
    "killall5": "it ends all processes of its user outside of its session",
}
PR_SET_CHILD_SUBREAPER = 36
FILE_LIMIT = 64 << 20

Run = collections.namedtuple("Run", "status out err said problem report")


def end_of_orphans():
    """Daemons and background processes have half a second, then they are killed: the next run starts without them."""
    deadline = time.monotonic() + 0.5
    while left := pathlib.Path("/proc/thread-self/children").read_text().split():
        for pid in map(int, left):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)


def run(place, limit, command, traced=None):
    """Runs `command` below `place`, which is emptied first; `traced` are clockscope and its options, or None."""
    home, report = place / "home", place / "report.json"
    shutil.rmtree(place, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    if BECOME:
        for path in [place, home, home / "tmp"]:
            os.chown(path, NOBODY, NOBODY)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "TMPDIR": str(home / "tmp"),
                   "LANG": "C.UTF-8", "TERM": "dumb"}
    below = [*traced, "--format", "json", "-o", str(report), "--"] if traced else []
    with open(place / "out", "wb") as out, open(place / "err", "wb") as err:
        try:
            program = subprocess.Popen([*below, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=home,
                                       env=environment, start_new_session=True, **BECOME)
        except OSError as error:
            return Run(f"not executed: {error.strerror}", b"", b"", [], None, None)
    waiting, process = select.poll(), os.pidfd_open(program.pid)
    waiting.register(process, select.POLLIN)
    in_time = waiting.poll(limit * 1000 * (SLOWER_TRACED if traced else 1))
    os.close(process)
    if not in_time:
        os.killpg(program.pid, signal.SIGKILL)
    status = program.wait() if in_time else program.wait() and "time limit"
    end_of_orphans()
    lines = (place / "err").read_bytes().splitlines(keepends=True)
    said = [line.decode(errors="replace").strip() for line in lines if line.startswith(b"clockscope: ")] if traced else []
    err = b"".join(line for line in lines if not (traced and line.startswith(b"clockscope: ")))
    read, problem = checked(report, status, "sites" in traced) if traced and in_time else (None, None)
    return Run(status, (place / "out").read_bytes(), err, said, problem, read)


def checked(report, status, leaves):
    """The report of a run, and a complaint about it or None."""
    try:
        read = json.loads(report.read_text())
    except (OSError, ValueError) as error:
        return None, f"no report: {error}"
    ended = -read["signal"] if read["signal"] is not None else read["exit_code"]
    if ended != status:
        return read, f"the report says that the program ended with {ended}"
    # Losses of clockscope itself have no process; nor has what --via sites leaves alone.
    lost = [one["reason"] for one in read["declines"] if one["pid"] == 0 and (one["what"] == "vdso" or not leaves)]
    return read, f"the report says: {'; '.join(lost)}" if lost else None


def first_difference(one, other):
    if one.status != other.status:
        return f"status {one.status} plainly, {other.status} traced"
    for name, mine, yours in zip(Run._fields[1:3], one[1:3], other[1:3]):
        if mine != yours:
            pairs = zip((mine + b"\n").splitlines(), (yours + b"\n").splitlines())
            lines = next((pair for pair in pairs if pair[0] != pair[1]), (f"{len(mine)} bytes", f"{len(yours)} bytes"))
            return f"{name}: {lines[0]!r} plainly, {lines[1]!r} traced"
    return "the same"


def sweep(clockscope, folder, limit, path, option):
    """Compares one program with one option: a dictionary of what there is to say."""
    place = folder / f"worker-{os.getpid()}"
    command = [path, option]
    plain = [run(place, limit, command), run(place, limit, command)]
    made = {"name": f"{path} {option}", "runs": 2, "differences": [], "declines": [], "said": [], "via": []}
    if "time limit" in [one.status for one in plain]:
        return made | {"kind": "time limit"}
    made["kind"] = "whole" if plain[0][:3] == plain[1][:3] else "status"
    outcome = lambda one: one[: 3 if made["kind"] == "whole" else 1]
    for way, options in WAYS.items():
        traced = [run(place, limit, command, [clockscope, "trace", *options])]
        known = {outcome(one) for one in plain}
        if outcome(traced[0]) not in known:
            plain += [run(place, limit, command) for _ in range(3)]
            traced += [run(place, limit, command, [clockscope, "trace", *options]) for _ in range(3)]
            made["runs"] += 6
            made["kind"] = "status" if len({one[:3] for one in plain}) > 1 else "whole"
            known = {outcome(one) for one in plain}
        made["runs"] += 1
        signals = {one.status for one in traced if type(one.status) is int and one.status < 0}
        if all(outcome(one) not in known for one in traced):
            made["differences"].append(f"{way}: {first_difference(plain[0], traced[0])}")
        elif died := signals - {one.status for one in plain}:
            made["differences"].append(f"{way}: died by signal {-min(died)} in one of {len(traced)} traced runs")
        elif len(traced) > 1:
            made["said"].append(f"{way}: first differed, then not: {first_difference(plain[0], traced[0])}")
        made["differences"] += [f"{way}: {problem}" for problem in sorted({one.problem for one in traced if one.problem})]
        made["said"] += [f"{way}: {line}" for line in sorted({line for one in traced for line in one.said})]
        if report := traced[0].report:
            made["via"].append(report["via"])
            made["declines"] += [f"{one['what']} of {one['command']}: {one['reason']}" for one in report["declines"]
                                 if one["pid"] or way != "sites"]
    shutil.rmtree(place, ignore_errors=True)
    return made


def programs(folders, only):
    """The executable files, links resolved, each once; and those that are not run."""
    found, left_out = {}, {}
    for name in sorted(path for folder in folders for path in pathlib.Path(folder).iterdir()):
        path = name.resolve()
        if not path.is_file() or not os.access(path, os.X_OK):
            continue
        reason = next((why for glob, why in NOT_RUN.items() if fnmatch.fnmatch(path.name, glob)), None)
        if reason:
            left_out[path.name] = reason
        elif any(fnmatch.fnmatch(one, glob) for one in (name.name, path.name) for glob in only or ["*"]):
            found[str(path)] = path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    return found, left_out


def compare_all(asked, clockscope, folder):
    for limit, most in [(resource.RLIMIT_FSIZE, FILE_LIMIT), (resource.RLIMIT_CORE, 0)]:
        resource.setrlimit(limit, (most, most))
    found, left_out = programs(asked.folders or ["/usr/bin", "/usr/sbin"], asked.only)
    for reason in dict.fromkeys(left_out.values()):
        print(f"not run, because {reason}: {', '.join(name for name in left_out if left_out[name] == reason)}", flush=True)
    start, lists, totals = time.monotonic(), collections.defaultdict(list), collections.Counter()
    subreaper = lambda: ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with concurrent.futures.ProcessPoolExecutor(2, initializer=subreaper) as pool:
        jobs = [pool.submit(sweep, clockscope, folder, asked.limit, path, option) for path in found for option in OPTIONS]
        for job in concurrent.futures.as_completed(jobs):
            made = job.result()
            totals["runs"] += made["runs"]
            totals.update(f"by {via}" for via in made["via"])
            lists[made["kind"]].append(made["name"])
            setuid = found[made["name"].split()[0]]
            lists["setuid"] += [f"{made['name']}: {one}" for one in made["declines"] or ["counted"]] if setuid else []
            lists["declines"] += [f"{made['name']}: {one}" for one in made["declines"] if not setuid]
            lists["differences"] += [made["name"]] if made["differences"] else []
            for one in made["said"] + [f"DIFFERENCE {one}" for one in made["differences"]]:
                print(f"{made['name']}: {one}", flush=True)
    titles = {"status": "plain runs differ, compared by status", "time limit": "plain runs reach the time limit, not compared",
              "setuid": "setuid or setgid", "declines": "not counted"}
    for line in (f"{title}: {one}" for kind, title in titles.items() for one in sorted(set(lists[kind]))):
        print(line)
    named = sorted(lists["differences"])
    print(f"{len(found)} programs, {totals.pop('runs')} runs in {time.monotonic() - start:.0f} s, {len(lists['whole'])} compared whole, "
          f"{len(lists['status'])} by status, system calls {dict(totals)}; {len(named)} differences" + ": " * bool(named) + ", ".join(named))
    return 1 if named else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clockscope")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--only", action="append", metavar="GLOB", help="names of files, or of links to them")
    parser.add_argument("--limit", type=float, default=20, metavar="SECONDS")
    asked = parser.parse_args()
    # An ordinary user may not be able to enter the folder of the build.
    with tempfile.TemporaryDirectory(prefix="clockscope-sweep-") as folder:
        os.chmod(folder, 0o755)
        sys.exit(compare_all(asked, shutil.copy(asked.clockscope, folder), pathlib.Path(folder)))


main()
