"""Unpacks and compiles the suites that Debian ships as source, once, below target/foreign/."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

KERNEL_TAR = "/usr/src/linux-source-*.tar.xz"
GLIBC_TAR = "/usr/src/glibc/glibc-*.tar.xz"


class Missing(Exception):
    """A suite whose package is not installed: what to install."""


def newest(pattern, package):
    found = sorted(Path("/").glob(pattern.lstrip("/")))
    if not found:
        raise Missing(f"{pattern} is missing: install {package} (scripts/setup.sh foreign)")
    return found[-1]


def shell(argv, cwd=None):
    """Runs a step of building; its output appears only if it fails."""
    # These variables of an outer make would build the kernel's selftests into the root folder (their lib.mk).
    own = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS")}
    done = subprocess.run(
        argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own
    )
    if done.returncode != 0:
        sys.exit(f"foreign: {' '.join(map(str, argv))} failed:\n{done.stdout[-3000:]}")


def once(folder, stamp):
    """Whether `folder` has yet to be made from `stamp`, a text that names its sources; empties it then."""
    mark = folder / ".made"
    if mark.exists() and mark.read_text() == stamp:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return True


def made(folder, stamp):
    (folder / ".made").write_text(stamp)


def unpack(tar, patterns, folder):
    shell(["tar", "-xJf", str(tar), "--strip-components=1", "--wildcards", *patterns], cwd=folder)


def kernel(root, folders, x86):
    """The kernel's selftests: `folders` by their Makefiles, `x86` by the flags of theirs."""
    tar = newest(KERNEL_TAR, "linux-source")
    folder, stamp = root / "kernel", f"{tar} {folders} {x86}"
    if once(folder, stamp):
        unpack(tar, ["*/tools/testing/selftests/*", "*/tools/include/*"], folder)
        selftests = folder / "tools/testing/selftests"
        for name in folders:
            shell(["make", "-s", "-C", str(selftests / name)])
        for name, extra in x86.items():
            flags = ["-O2", "-g", "-std=gnu99", "-pthread", "-no-pie", "-w", "-o", name, f"{name}.c"]
            shell(["cc", *flags, *extra, "-lrt", "-ldl"], cwd=selftests / "x86")
        made(folder, stamp)
    return folder / "tools/testing/selftests"


GLIBC_FLAGS = (
    "-D_GNU_SOURCE -O2 -w -Isupport -I. -Ishim -idirafter include -DTIMEOUTFACTOR=4 -include limits.h"
).split()
# Tests that need glibc's internals are not built; the remaining ones use no paths.
NO_PATH = [
    f'-D{name}="/nonexistent"'
    for name in "SRCDIR_PATH OBJDIR_PATH OBJDIR_ELF_LDSO_PATH INSTDIR_PATH LIBDIR_PATH BINDIR_PATH"
    " SBINDIR_PATH SLIBDIR_PATH ROOTSBINDIR_PATH COMPLOCALEDIR_PATH".split()
]


def glibc(root, tests):
    """glibc's tests, given as paths without `.c`, against the installed C library: its support
    library is built as far as that goes without glibc's internals.
    """
    tar = newest(GLIBC_TAR, "glibc-source")
    folder, stamp = root / "glibc", f"{tar} {tests}"
    if once(folder, stamp):
        tops = ["support/*", "test-skeleton.c", "include/intprops.h", "include/verify.h"]
        tops += ["include/array_length.h", "time/*", "rt/*", "nptl/tst-*", "sysdeps/pthread/tst-*"]
        tops += ["sysdeps/unix/sysv/linux/tst-*"]
        unpack(tar, [f"*/{top}" for top in tops], folder)
        for made_up in ["shim", "objects", "tests"]:
            (folder / made_up).mkdir()
        (folder / "shim/config.h").write_text("")
        objects = []
        for source in sorted((folder / "support").glob("*.c")):
            name = source.stem
            if name.endswith(("_main", "-container")) and name != "support_test_main":
                continue
            flags = [*GLIBC_FLAGS, *(NO_PATH if name == "support_paths" else [])]
            one = subprocess.run(
                ["cc", *flags, "-c", f"support/{name}.c", "-o", f"objects/{name}.o"],
                cwd=folder, stderr=subprocess.DEVNULL,
            )
            # If a helper does not compile here, the linker fails for the tests that need it.
            if one.returncode == 0 and not name.startswith(("tst-", "links-", "echo-", "true-")):
                objects.append(f"objects/{name}.o")
        shell(["ar", "rcs", "libsupport.a", *objects], cwd=folder)
        for test in tests:
            output = f"tests/{os.path.basename(test)}"
            shell(["cc", *GLIBC_FLAGS, "-o", output, f"{test}.c", "libsupport.a", "-lm"], cwd=folder)
        made(folder, stamp)
    return folder / "tests"


def go(root, packages):
    """Go's own tests, compiled once; returns the folder of its sources, where they must run."""
    tool = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(tool):
        raise Missing("go is missing: install golang-go (scripts/setup.sh foreign)")
    asked = subprocess.run([tool, "env", "GOROOT", "GOVERSION"], capture_output=True, text=True)
    goroot, version = asked.stdout.split()
    if not list(Path(goroot, "src/time").glob("*_test.go")):
        raise Missing(f"{goroot}/src has no tests: install golang-src (scripts/setup.sh foreign)")
    folder, stamp = root / "go", f"{version} {packages}"
    if once(folder, stamp):
        for package in packages:
            test = str((folder / f"{package}.test").resolve())
            shell([tool, "test", "-c", "-o", test, "."], cwd=Path(goroot, "src", package))
        made(folder, stamp)
    return Path(goroot, "src"), folder


def perl(root):
    """Perl's sources, by apt's source packages; apt's own lists are left alone."""
    folder, stamp = root / "perl", "perl"
    if once(folder, stamp):
        script = Path(__file__).with_name("fetch-perl.sh")
        done = subprocess.run([script, folder], capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"perl's sources cannot be had: {(done.stderr or done.stdout)[-300:]}")
        made(folder, stamp)
    return folder
