#!/usr/bin/env python3
"""Runs other people's test suites plainly and under clockscope, and compares them name by name.

Exit status 0: every difference is explained in differences.md. 1: one is not, or one that is listed
no longer occurs. 2: a suite or a program of it is missing.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import building
import comparing
import modes
import processes
import reading
import suites

HERE = Path(__file__).parent
TRIES = 3


class Run:
    """One item in one mode: results by name, how it ended, and what attaching saw."""

    def __init__(self, results, end, seconds, attachments=None):
        self.results, self.end, self.seconds, self.attachments = results, end, seconds, attachments


class Driver:
    def __init__(self, clockscope, folder):
        self.clockscope, self.folder = clockscope, folder
        self.counter = 0

    def run(self, item, mode, names=None, again=False):
        """Runs an item once, all of it or the tests `names`; `again` keeps the first run's files."""
        self.counter += 1
        mark = f"{os.getpid()}-{self.counter}"
        scratch = self.folder / mode / item.suite / f"{item.name}{'-again' if again else ''}"
        scratch.mkdir(parents=True, exist_ok=True)
        scratch = scratch.resolve()
        report = scratch / "report.json"
        report.unlink(missing_ok=True)
        argv = modes.command(self.clockscope, mode, item.argv(names, scratch), str(report))
        attachments = beside = None
        if mode == "attach":
            attachments = modes.Attachments(self.clockscope, mark, scratch / "attachments")
            beside = attachments.beside
        # A traced program may be far slower without hanging.
        limit_s = item.limit_s * (1 if mode == modes.PLAIN else 2)
        ended = processes.run(argv, mark, limit_s, scratch / "output", item.cwd, item.env, beside)
        results = item.read(ended.output, scratch, names)
        end = reading.of_status(ended.status, skipped=())
        if end == "pass" and modes.has_report(mode) and not modes.report_is_whole(report):
            end = "fail: clockscope wrote no report"
        results[f"{item.name}: ends well"] = end
        if attachments:
            broken = "; ".join(sorted(set(attachments.broken)))
            results[f"{item.name}: attaching"] = f"fail: {broken}" if broken else "pass"
        return Run(results, end, ended.seconds, attachments)

    def run_all(self, items, mode, workers):
        """Runs items, those that stand alone after the others. Returns {item name: Run}."""
        together = [item for item in items if not item.alone]
        runs = {}
        with ThreadPoolExecutor(workers) as pool:
            for item, run in zip(together, pool.map(lambda i: self.run(i, mode), together)):
                runs[item.name] = run
        for item in items:
            if item.alone:
                runs[item.name] = self.run(item, mode)
        return runs

    def confirm(self, item, mode, differences):
        """Which differences stand: fatal ones at once, others if they fail 3 of 3 times in the mode
        and 0 of 3 plainly. Returns (standing, flaky).
        """
        standing = {n: d for n, d in differences.items() if comparing.is_fatal(d)}
        open_ones = {n: d for n, d in differences.items() if n not in standing}
        flaky = {}
        for number in range(2, TRIES + 1):
            for where in (mode, modes.PLAIN):
                if not open_ones:
                    return standing, flaky
                again = self.run(item, where, comparing.tests_to_repeat(item, open_ones), True)
                for name in list(open_ones):
                    # An entry that only the mode has, such as attaching, cannot fail plainly.
                    missing = "pass" if where == modes.PLAIN else "fail"
                    passed = again.results.get(name, missing) == "pass"
                    if where == mode and passed:
                        flaky[name] = f"{open_ones.pop(name)} (1 of {number} times)"
                    elif where == modes.PLAIN and not passed:
                        flaky[name] = f"{open_ones.pop(name)} (fails plainly too, 1 of {number} times)"
        return {**standing, **open_ones}, flaky


def collect(root, only, quick):
    """The items to run, and whether a suite is missing."""
    items, missing = [], False
    for suite in suites.SUITES:
        if only and suite.__name__ not in only:
            continue
        try:
            items += [i for i in suite(root) if i.quick == quick or (quick is False and is_whole(i))]
        except building.Missing as missed:
            print(f"foreign: {suite.__name__}: {missed}", file=sys.stderr)
            missing = True
    return items, missing


def is_whole(item):
    """Whether the full form runs this item: all but the batches that are there for the quick one."""
    return not item.name.endswith("-quick")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clockscope", help="the binary to test")
    parser.add_argument("folder", type=Path, help="where suites are built and results are kept")
    parser.add_argument("--quick", action="store_true", help="the most telling tests, within minutes")
    parser.add_argument("--suite", action="append", choices=[s.__name__ for s in suites.SUITES])
    parser.add_argument("--mode", action="append", choices=list(modes.MODES))
    parser.add_argument("--workers", type=int, default=3, help="items that run at the same time")
    return parser.parse_args()


def main():
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("foreign: run as root: eBPF, real-time priorities and time namespaces need it")
    processes.adopt_orphans()
    clockscope = str(Path(options.clockscope).resolve(strict=True))
    options.folder.mkdir(parents=True, exist_ok=True)
    items, missing = collect(options.folder, options.suite, options.quick)
    driver = Driver(clockscope, options.folder / "results")
    wanted = options.mode or list(modes.MODES)
    known = comparing.Known((HERE / "differences.md").read_text())
    started = time.monotonic()
    plain = driver.run_all(items, modes.PLAIN, options.workers)
    print(f"foreign: plainly: {time.monotonic() - started:.0f} s", flush=True)
    absent = comparing.absent(plain)
    for name in absent:
        print(f"foreign: {name}: its program was not built, or is not installed", file=sys.stderr)
    table = comparing.Table(items, plain)
    for mode in wanted:
        begun = time.monotonic()
        runs = driver.run_all(items, mode, options.workers)
        for item in items:
            run = runs[item.name]
            differences = comparing.differences(plain[item.name].results, run.results)
            # No row explains a death by SIGSEGV or a similar signal.
            listed = {
                n: d for n, d in differences.items()
                if not comparing.is_fatal(d) and known.explains(item.suite, n, mode)
            }
            others = {n: d for n, d in differences.items() if n not in listed}
            standing, flaky = driver.confirm(item, mode, others)
            table.add(item, mode, run, listed, standing, flaky)
        (options.folder / "table.md").write_text(table.text())
        print(f"foreign: {mode}: {time.monotonic() - begun:.0f} s", flush=True)
    stale = known.stale(plain, items, wanted)
    print(f"\n{table.text()}")
    for line in table.unexplained + stale:
        print(f"foreign: {line}")
    print(f"foreign: {time.monotonic() - started:.0f} s in all")
    sys.exit(1 if table.unexplained or stale else 2 if missing or absent else 0)


if __name__ == "__main__":
    main()
