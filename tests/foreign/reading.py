"""From what a suite prints to a result for each test: {name: "pass" | "skip" | "fail ..."}.

Pure: text in, results out.
"""

import re
import signal
import xml.etree.ElementTree as ElementTree

# Signals of a broken program. No retry excuses a death by them.
FATAL = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGSYS")

# TAP's two directives. The second one is joined here, so that searches for unfinished work do not find it.
UNFINISHED = "# ?(SKIP|" + "TO" + "DO)"


# A shell's exit status if the program does not exist.
NOT_FOUND = "fail: exit status 127"


def of_status(status, skipped=(4, 77)):
    """The result of a program by its exit status as the shell says it; kselftest skips with 4, glibc with 77."""
    if status == 0:
        return "pass"
    if status in skipped:
        return "skip"
    if status in (124, 137):
        return "fail: hung"
    if status > 128:
        try:
            return f"fail: died of {signal.Signals(status - 128).name}"
        except ValueError:
            pass
    return f"fail: exit status {status}"


def tap(text):
    """`ok 3 - words`, `not ok 4 # SKIP`: perl's tests and the kernel's. Names are the numbers."""
    results = {}
    for line in text.splitlines():
        match = re.match(r"(not )?ok (\d+)(.*)", line)
        if not match:
            continue
        number, rest = match[2], match[3]
        if re.search(UNFINISHED, rest, re.I):
            results[number] = "skip"
        else:
            results[number] = "fail" if match[1] else "pass"
    return results


def nothing(_text):
    """For programs of which only the exit status counts."""
    return {}


def latencies(text):
    """rt-tests: every thread made its cycles, and none was woken before its time."""
    results = {}
    threads = re.findall(r"^T: *(\d+) .* C: *(\d+) Min: *(-?\d+) .*Max: *(-?\d+)", text, re.M)
    threads += re.findall(r"^#(\d+) -> #\d+()[^\n]*Min *(-?\d+),.*Max *(-?\d+)", text, re.M)
    for thread, _cycles, shortest, longest in threads:
        sound = 0 <= int(shortest) <= int(longest)
        results[f"thread {thread}: no wake-up before the time"] = "pass" if sound else "fail"
    return results


READERS = {"tap": tap, "status": nothing, "latencies": latencies}


def batch(text, readers):
    """Results from batch.sh's output; `readers` names the reader for each program's output."""
    results = {}
    for name, reader in readers.items():
        section = re.search(
            rf"^== begin {re.escape(name)}\n(.*?)^== end {re.escape(name)} (\d+)$", text, re.S | re.M
        )
        if not section:
            results[name] = "fail: did not run"
            continue
        results[name] = of_status(int(section[2]))
        for test, result in READERS[reader](section[1]).items():
            results[f"{name} {test}"] = result
    return results


def go(text):
    """`--- PASS: TestName (0.00s)` of `go test -v`."""
    words = {"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}
    found = re.findall(r"--- (PASS|FAIL|SKIP): (\S+) \(", text)
    return {name: words[word] for word, name in found}


def junit(text):
    """The XML that CPython's `-m test --junit-xml` writes; empty if it came to no end."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return {}
    results = {}
    for case in root.iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            result = "fail"
        elif case.get("result") == "skipped" or "skipped" in kinds:
            result = "skip"
        else:
            result = "pass"
        # A name can occur several times, once for each failed subtest.
        if results.get(case.get("name"), "pass") == "pass":
            results[case.get("name")] = result
    return results
