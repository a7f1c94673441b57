#!/usr/bin/env python3
"""Plants faults in a stand-in for clockscope and expects the driver to find each of them."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import comparing
import modes
import processes
import reading
from run import Driver
from suites import batch

# A stand-in for `clockscope trace|run OPTIONS -- CMD`: writes the report that -o names, then executes
# FAULT.
STAND_IN = """#!/bin/sh
mode=$1
while [ "$1" != -- ]; do
    [ "$1" != -o ] || echo '{{"calls": 1}}' >"$2"
    shift
done
shift
{fault}
exec "$@"
"""
PROGRAMS = {
    "passes": (Path("/tmp"), "true", "status"),
    "fails": (Path("/tmp"), "false", "status"),
    "skips": (Path("/tmp"), "sh -c 'exit 77'", "status"),
}


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        processes.adopt_orphans()

    def differences(self, fault, mode="trace", programs=None, limit_s=5):
        """Standing and flaky differences between a plain run and a run with this fault."""
        clockscope = self.folder / "clockscope"
        clockscope.write_text(STAND_IN.format(fault=fault.format(folder=self.folder)))
        clockscope.chmod(0o755)
        (item,) = batch("planted", "one", programs or PROGRAMS, limit_s=limit_s)
        driver = Driver(str(clockscope), self.folder / "results")
        plain = driver.run(item, modes.PLAIN)
        seen = driver.run(item, mode)
        found = comparing.differences(plain.results, seen.results)
        confirmed = driver.confirm(item, mode, found)
        marks = [f"{os.getpid()}-{number}" for number in range(1, driver.counter + 1)]
        self.assertEqual([pid for mark in marks for pid in processes.tree(mark)], [])
        return confirmed

    def test_nothing_is_found_where_nothing_was_planted(self):
        self.assertEqual(self.differences(""), ({}, {}))
        self.assertEqual(self.differences("", mode="run-tsc"), ({}, {}))

    def test_a_program_that_dies_of_a_signal_stands_at_once(self):
        fault = 'sed -i "/^passes/s/true/sh -c \'kill -SEGV \\$\\$\'/" "$2"'
        standing, flaky = self.differences(fault)
        self.assertEqual(standing, {"passes": "fail: died of SIGSEGV"})
        self.assertEqual(flaky, {})

    def test_a_changed_exit_status_stands_after_three_times(self):
        standing, _ = self.differences('sed -i "/^passes/s/true/false/" "$2"')
        self.assertEqual(standing, {"passes": "fail: exit status 1"})

    def test_a_test_that_is_skipped_under_clockscope_is_a_difference(self):
        standing, _ = self.differences("sed -i \"/^passes/s/true/sh -c 'exit 77'/\" \"$2\"")
        self.assertEqual(standing, {"passes": "skip"})

    def test_a_program_that_hangs_is_ended_and_found(self):
        standing, _ = self.differences('sed -i "/^passes/s/true/sleep 99/" "$2"', limit_s=1)
        self.assertEqual(standing, {"passes": "fail: hung"})

    def test_a_test_that_never_ran_is_found(self):
        standing, _ = self.differences('sed -i /^passes/d "$2"')
        self.assertEqual(standing, {"passes": "fail: did not run"})

    def test_a_stand_in_that_breaks_itself_is_found(self):
        standing, _ = self.differences("exit 125")
        self.assertEqual(standing["one: ends well"], "fail: exit status 125")

    def test_a_missing_report_is_found(self):
        fault = 'rm -f "{folder}"/results/trace/planted/*/report.json'
        standing, _ = self.differences(fault)
        self.assertEqual(standing, {"one: ends well": "fail: clockscope wrote no report"})

    def test_what_fails_once_of_three_times_is_flaky(self):
        fault = '[ -e "{folder}/once" ] || sed -i "/^passes/s/true/false/" "$2"; touch "{folder}/once"'
        standing, flaky = self.differences(fault)
        self.assertEqual(standing, {})
        self.assertEqual(flaky, {"passes": "fail: exit status 1 (1 of 2 times)"})

    def test_an_attachment_that_breaks_is_found(self):
        programs = {"sleeps": (Path("/tmp"), "sleep 1", "status")}
        standing, _ = self.differences("", mode="attach", programs=programs)
        self.assertEqual(standing, {"one: attaching": "fail: clockscope ended with 2"})

    def test_processes_that_leave_their_session_are_swept(self):
        output = self.folder / "output"
        ended = processes.run(["setsid", "-f", "sleep", "98765"], "swept", 5, output)
        self.assertEqual((ended.status, processes.tree("swept")), (0, []))


class Read(unittest.TestCase):
    def test_tap(self):
        text = "1..4\nok 1 - one\nnot ok 2 two\nok 3 # SKIP three\n# ok 9\n  ok 8\nnot ok 4 # TO" + "DO four\n"
        self.assertEqual(reading.tap(text), {"1": "pass", "2": "fail", "3": "skip", "4": "skip"})

    def test_go(self):
        text = "=== RUN TestA\n    --- FAIL: TestA/b (0.1s)\n--- FAIL: TestA (0.1s)\nx--- PASS: TestC (0s)\n"
        self.assertEqual(reading.go(text), {"TestA/b": "fail", "TestA": "fail", "TestC": "pass"})

    def test_junit(self):
        text = (
            '<a><testcase name="x" result="completed"/><testcase name="y" result="completed"><failure/>'
            '</testcase><testcase name="z" result="skipped"/></a>'
        )
        self.assertEqual(reading.junit(text), {"x": "pass", "y": "fail", "z": "skip"})
        self.assertEqual(reading.junit(text[:40]), {})

    def test_latencies(self):
        early = "T: 0 (9) P:80 I:1000 C:   2 Min:     -3 Act:   29 Avg:   47 Max:   12\n"
        late = "#1 -> #0, Min    2, Cur   16, Avg   22, Max 1497\n"
        self.assertEqual(
            reading.latencies(early + late),
            {
                "thread 0: no wake-up before the time": "fail",
                "thread 1: no wake-up before the time": "pass",
            },
        )

    def test_a_program_that_was_not_built_is_named(self):
        class Plain:
            results = {"there": "pass", "fails": reading.of_status(1), "absent": reading.of_status(127)}

        self.assertEqual(comparing.absent({"one": Plain}), ["absent"])

    def test_a_row_that_no_longer_differs_is_named(self):
        known = comparing.Known("| `s` | `a*` | `trace`, `attach` | always | because |\n")
        (item,) = batch("s", "one", PROGRAMS)

        class Plain:
            results = {"abc": "pass"}

        self.assertTrue(known.explains("s", "abc", "trace"))
        self.assertFalse(known.explains("s", "bc", "trace"))
        self.assertFalse(known.explains("s", "abc", "run-tsc"))
        stale = known.stale({"one": Plain}, [item], list(modes.MODES))
        self.assertEqual(stale, ["s: a*: no longer differs in attach: strike it from differences.md"])


if __name__ == "__main__":
    sys.exit(unittest.main())
