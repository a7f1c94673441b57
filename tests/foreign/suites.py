"""The suites: where each comes from, what is run of it, and how its output is read.

An item is one program start: a suite that takes its tests as arguments, or a batch of programs.
To add a suite, write a function here that yields items, and a row in README.md.
"""

import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import building
import reading

HERE = Path(__file__).parent


@dataclass
class Item:
    """`argv(names, scratch)`: the command that runs the tests `names` (all if None) with files below
    `scratch`; `read(output, scratch, names)`: its results.
    """

    suite: str
    name: str
    argv: Callable
    read: Callable
    limit_s: int
    quick: bool = False
    # Depends on timing or real-time priorities, so no other item runs at the same time.
    alone: bool = False
    cwd: Path | None = None
    env: dict = field(default_factory=dict)


def batch(suite, name, programs, *, quick=(), alone=False, limit_s=30):
    """Programs of a suite, `{name: (folder, command, reader)}`, as one item by batch.sh; and a second
    one of those in `quick`.
    """

    def chosen(names):
        if names is None:
            return programs
        # A test within a program is retried together with its program.
        owners = {n: p for n, p in programs.items() if any(t == n or t.startswith(f"{n} ") for t in names)}
        return owners or programs

    def argv(names, scratch):
        lines = [
            f"{n}\t{folder}\t{limit_s}\t{command}\n" for n, (folder, command, _) in chosen(names).items()
        ]
        (scratch / "list").write_text("".join(lines))
        return [str(HERE / "batch.sh"), str(scratch / "list")]

    def read(output, _scratch, names):
        return reading.batch(output, {n: reader for n, (_, _, reader) in chosen(names).items()})

    limit = 60 + limit_s * len(programs)
    yield Item(suite, name, argv, read, limit, alone=alone)
    some = {n: p for n, p in programs.items() if n in quick}
    if some:
        item = next(batch(suite, f"{name}-quick", some, alone=alone, limit_s=limit_s))
        item.quick = True
        yield item


def cpython(_root):
    """CPython's regression tests (Debian: libpython3-testsuite)."""
    python = "/usr/bin/python3"
    library = list(Path("/usr/lib").glob("python3.*/test/test_time.py"))
    if not library:
        raise building.Missing("CPython's tests are missing: install libpython3.11-testsuite")

    def item(name, chosen, limit_s, quick=False):
        def argv(names, scratch):
            picks = [word for test in names or () for word in ("-m", test)]
            return [python, "-m", "test", "--junit-xml", str(scratch / "junit.xml"), *chosen, *picks]

        def read(_output, scratch, _names):
            path = scratch / "junit.xml"
            results = reading.junit(path.read_text()) if path.exists() else {}
            path.unlink(missing_ok=True)
            return results

        return Item("cpython", name, argv, read, limit_s, quick=quick)

    yield item("test_time", ["test_time"], 90, quick=True)
    yield item("test_datetime", ["test_datetime"], 240)
    yield item("test_threading", ["test_threading"], 300)
    yield item("test_signal", ["test_signal"], 300)


def go(root):
    """Go's own tests of `time` and `runtime` (an installed Go's tree), static and without a C library."""
    sources, folder = building.go(root, ["time", "runtime"])
    # Excluded: programs that compile, debug or profile for minutes, and heap leak detectors.
    left_out = "Cgo|Gdb|Pprof|FakeTime|FinalizerOrCleanup|MemmoveOverflow|LockRank|GoroutineLeakProfile"

    def item(package, limit_s, quick=False):
        def argv(names, _scratch):
            words = [str((folder / f"{package}.test").resolve()), "-test.v", "-test.short"]
            words += [f"-test.timeout={limit_s - 5}s"]
            if names:
                tops = sorted({name.split("/")[0] for name in names})
                return [*words, "-test.run", f"^({'|'.join(tops)})$"]
            return [*words, "-test.skip", left_out]

        def read(output, _scratch, _names):
            return reading.go(output)

        return Item("go", package, argv, read, limit_s, cwd=sources / package, quick=quick)

    yield item("time", 120)
    yield item("runtime", 300)


def kernel(root):
    """The kernel's selftests (Debian: linux-source). None sets the clock."""
    x86 = {
        "check_initial_reg_state": ["-Wl,-ereal_start", "-static"],
        "sysret_ss_attrs": ["thunks.S"],
        "test_vsyscall": [],
        **{
            name: []
            for name in "fsgsbase ldt_gdt ptrace_syscall sigaltstack sigtrap_loop single_step_syscall"
            " syscall_nt sysret_rip test_mremap_vdso".split()
        },
    }
    folders = ["vDSO", "timers", "timens", "sigaltstack", "syscall_user_dispatch", "ptrace"]
    built = building.kernel(root, folders, x86)

    def programs(folder, names, reader="tap"):
        return {f"{folder}/{n}": (built / folder, f"./{n}", reader) for n in names.split()}

    vdso = "vdso_test_abi vdso_test_clock_getres vdso_test_correctness vdso_test_getcpu"
    vdso += " vdso_test_gettimeofday vdso_standalone_test_x86"
    some = {
        **programs("vDSO", vdso),
        **programs("x86", " ".join(x86), "status"),
        **programs("sigaltstack", "sas"),
        **programs("syscall_user_dispatch", "sud_test"),
        **programs("ptrace", "get_syscall_info peeksiginfo"),
        **programs("timens", "timens timerfd timer clock_nanosleep procfs exec futex"),
    }
    yield from batch("kernel", "selftests", some, quick=list(some), limit_s=20)
    timers = {
        **programs("timers", "nanosleep mqueue-lat"),
        "timers/threadtest": (built / "timers", "./threadtest -t 4 -n 8", "tap"),
        "timers/inconsistency-check": (built / "timers", "./inconsistency-check -t 1", "tap"),
    }
    yield from batch("kernel", "timers", timers, limit_s=60)


# glibc's tests of clocks, timers, time limits, signals, fork and exec that need none of
# glibc's internals.
GLIBC = {
    "time": "clocktest tst-clock tst-clock_nanosleep tst-itimer tst-cpuclock1 tst-timespec_get"
    " tst-timespec_getres tst-mktime4 tst-gmtime tst-strftime4 tst-y2039",
    "rt": "tst-timer tst-timer2 tst-timer3 tst-timer4 tst-timer5 tst-cpuclock2 tst-aio6 tst-aio10 tst-mqueue1"
    " tst-mqueue2 tst-mqueue4 tst-mqueue5 tst-mqueue8 tst-shm",
    "nptl": "tst-cond22 tst-cond26 tst-sched1 tst-exec4 tst-exec5 tst-rwlock6 tst-rwlock7"
    " tst-mutexpi10 tst-rwlock10 tst-signal3",
    "sysdeps/pthread": "tst-clock1 tst-abstime tst-cnd-timedwait tst-mtx-timedlock tst-thrd-sleep tst-cond8"
    " tst-cond11 tst-cond14 tst-cond19 tst-cond25 tst-cond27 tst-join3 tst-join5 tst-join12 tst-join14 tst-sem5"
    " tst-rwlock14 tst-rwlock16 tst-fork1 tst-fork2 tst-fork3 tst-fork4 tst-exec1 tst-exec2 tst-exec3 tst-signal1"
    " tst-signal2 tst-signal4 tst-signal5 tst-signal6 tst-kill1 tst-kill2 tst-kill3 tst-kill6",
    "sysdeps/unix/sysv/linux": "tst-clock_gettime-clobber tst-gettimeofday-clobber tst-time-clobber"
    " tst-sigtimedwait tst-timerfd tst-clone",
}
GLIBC_QUICK = (
    "tst-clock_gettime-clobber tst-gettimeofday-clobber tst-time-clobber tst-sigtimedwait tst-timer4 tst-clock1"
    " tst-cond11 tst-exec1 tst-exec4 tst-fork1 tst-signal1 tst-clone tst-timespec_get"
).split()


def glibc(root):
    """glibc's tests (Debian: glibc-source), built against the installed C library."""
    paths = [f"{folder}/{name}" for folder, names in GLIBC.items() for name in names.split()]
    built = building.glibc(root, paths)
    halves = [paths[0::2], paths[1::2]]
    for number, half in enumerate(halves, 1):
        programs = {p.rpartition("/")[2]: (built, f"./{p.rpartition('/')[2]}", "status") for p in half}
        yield from batch("glibc", f"part-{number}", programs, quick=GLIBC_QUICK)


def perl(root):
    """Perl's core tests of time, signals and fork (source package of perl) with the installed perl."""
    if not shutil.which("perl"):
        raise building.Missing("perl is missing: install perl")
    source = building.perl(root)
    tests = {
        "t": "op/time.t op/time_loop.t op/sleep.t op/sigdispatch.t op/sigsystem.t",
        "dist/Time-HiRes": "t/alarm.t t/clock.t t/gettimeofday.t t/itimer.t t/nanosleep.t t/sleep.t t/stat.t"
        " t/time.t t/tv_interval.t t/ualarm.t t/usleep.t t/utime.t",
        "ext/POSIX": "t/time.t t/sigaction.t t/waitpid.t",
        "cpan/Time-Piece": "t/01base.t t/02core.t t/07arith.t",
        "cpan/Time-Local": "t/Local.t",
    }
    programs = {
        f"{folder}/{test}": (source / folder, f"perl -I. -I{shlex.quote(str(source.resolve() / 't'))} {test}", "tap")
        for folder, names in tests.items()
        for test in names.split()
    }
    yield from batch("perl", "core", programs, limit_s=60)


def stress_ng(_root):
    """stress-ng's stressors that verify what they get."""
    if not shutil.which("stress-ng"):
        raise building.Missing("stress-ng is missing: install stress-ng")
    names = "clock vdso timer clone sigq itimer timerfd nanosleep vfork sigsuspend"
    programs = {
        name: (Path("/tmp"), f"stress-ng --{name} 1 --verify --timeout 2", "status") for name in names.split()
    }
    yield from batch("stress-ng", "verify", programs, quick=["vdso", "sigq", "clone"])


def rt_tests(_root):
    """rt-tests: real-time threads, priority inheritance, latencies from our clock to the kernel's timers."""
    if not shutil.which("cyclictest", path="/usr/bin:/usr/sbin"):
        raise building.Missing("cyclictest is missing: install rt-tests")
    commands = {
        "cyclictest": "cyclictest -q -D 3 -m -t 2 -p 80 -i 1000",
        "signaltest": "signaltest -q -l 2000 -t 2 -p 80",
        "ptsematest": "ptsematest -q -l 1500 -t 1 -p 80 -i 1000",
        "pmqtest": "pmqtest -q -l 1500 -t 1 -p 80 -i 1000",
        "sigwaittest": "sigwaittest -q -l 1500 -t 1 -p 80 -i 1000",
        "svsematest": "svsematest -q -l 1500 -t 1 -p 80 -i 1000",
        "pip_stress": "pip_stress",
    }
    programs = {name: (Path("/tmp"), command, "latencies") for name, command in commands.items()}
    yield from batch("rt-tests", "latencies", programs, quick=["cyclictest", "pip_stress"], alone=True, limit_s=20)


def postgresql(_root):
    """pg_test_timing, which ends with an error if time goes backwards."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_test_timing"))
    if not found:
        raise building.Missing("pg_test_timing is missing: install postgresql")
    programs = {"pg_test_timing": (Path("/tmp"), f"{found[-1]} -d 3", "status")}
    yield from batch("postgresql", "timing", programs, quick=["pg_test_timing"])


SUITES = [kernel, glibc, cpython, go, perl, stress_ng, rt_tests, postgresql]
