"""Compares results by name, knows which differences are explained, and draws the table. Pure."""

import fnmatch
from collections import Counter

import reading


def absent(plain):
    """Tests whose program is not there: they would count as tests that fail plainly too, for ever."""
    runs = plain.values()
    return sorted(n for run in runs for n, result in run.results.items() if result == reading.NOT_FOUND)


def differences(plain, mode):
    """Tests that pass plainly and do not in the mode, with how they end there."""
    different = {}
    for name, result in {**plain, **dict.fromkeys(mode.keys() - plain.keys(), "pass")}.items():
        if result != "pass":
            continue
        found = mode.get(name, "fail: missing")
        # A result that exists in the mode only (attaching, a test that got further) counts if it is a failure.
        if found != "pass" and not (name not in plain and found == "skip"):
            different[name] = found
    return different


def is_fatal(result):
    """Whether a program died in a way that no retry excuses."""
    return any(name in result for name in reading.FATAL)


def tests_to_repeat(item, names):
    """The tests to run again for these differences; None means the whole item."""
    if any(name.startswith(f"{item.name}: ") for name in names):
        return None
    return sorted(names)


class Known:
    """The rows of differences.md: suite, test, modes, occurs, reason; `*` stands for anything."""

    def __init__(self, text):
        self.rows, self.seen = [], set()
        for line in text.splitlines():
            cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
            if line.startswith("| `") and len(cells) == 5:
                suite, test, modes, occurs, reason = cells
                if occurs not in ("always", "sometimes") or not reason:
                    raise ValueError(f"differences.md: {line}")
                self.rows.append((suite, test, [m.strip(" `") for m in modes.split(",")], occurs))

    def explains(self, suite, name, mode):
        hits = [row for row in self.rows if self._fits(row, suite, name, mode)]
        self.seen.update((row[0], row[1], mode) for row in hits)
        return bool(hits)

    @staticmethod
    def _fits(row, suite, name, mode):
        pattern = row[1].replace("[", "[[]")
        return row[0] == suite and mode in row[2] and fnmatch.fnmatchcase(name, pattern)

    def stale(self, plain, items, modes):
        """Rows that should always occur, whose test was run and passed plainly, and that did not."""
        lines = []
        for row in self.rows:
            suite, test, in_modes, occurs = row
            ran = any(
                item.suite == suite and result == "pass" and self._fits(row, suite, name, in_modes[0])
                for item in items
                for name, result in plain[item.name].results.items()
            )
            for mode in in_modes:
                if ran and occurs == "always" and mode in modes and (suite, test, mode) not in self.seen:
                    lines.append(f"{suite}: {test}: no longer differs in {mode}: strike it from differences.md")
        return lines


class Table:
    """Suites by modes: tests run, passed, failed plainly too, differences; and the attachments."""

    def __init__(self, items, plain):
        self.plain, self.cells, self.unexplained = plain, {}, []
        self.explained, self.flaky = [], []
        self.attachments_s, self.words = [], Counter()
        for item in items:
            cell = self._cell(item.suite, "plain")
            for result in plain[item.name].results.values():
                cell["tests"] += 1
                cell["passed"] += result == "pass"
                cell["skipped"] += result == "skip"
                cell["failed plainly"] += result.startswith("fail")
            cell["seconds"] += plain[item.name].seconds

    def _cell(self, suite, mode):
        columns = ("tests", "passed", "skipped", "failed plainly", "explained", "flaky", "differences", "seconds")
        return self.cells.setdefault((suite, mode), dict.fromkeys(columns, 0))

    def add(self, item, mode, run, listed, standing, flaky):
        cell, plain = self._cell(item.suite, mode), self.plain[item.name].results
        cell["tests"] += len(run.results)
        cell["seconds"] += run.seconds
        for name, result in run.results.items():
            cell["passed"] += result == "pass"
            cell["skipped"] += result == "skip"
            cell["failed plainly"] += result.startswith("fail") and plain.get(name, "pass") != "pass"
        cell["explained"] += len(listed)
        cell["flaky"] += len(flaky)
        cell["differences"] += len(standing)
        for kind, found in ((self.explained, listed), (self.flaky, flaky), (self.unexplained, standing)):
            kind += [f"{item.suite}, {mode}: {name}: {result}" for name, result in found.items()]
        if run.attachments:
            self.attachments_s += run.attachments.seconds
            self.words += run.attachments.words

    def text(self):
        columns = ["suite", "mode", *next(iter(self.cells.values()), {})]
        lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        for (suite, mode), cell in sorted(self.cells.items(), key=lambda pair: pair[0][0]):
            values = [f"{value:.0f}" for value in cell.values()]
            lines.append(f"| {suite} | {mode} | {' | '.join(values)} |")
        if self.attachments_s:
            of = sorted(self.attachments_s)
            lines += ["", f"Attachments: {len(of)}; from start to end of the command, with 0.1 s attached:"
                      f" median {of[len(of) // 2]:.2f} s, slowest {of[-1]:.2f} s. Said of single processes:"]
            lines += [f"- {count} times: {words}" for words, count in self.words.most_common()]
        for head, found in (("Explained", self.explained), ("Flaky", self.flaky), ("Differences", self.unexplained)):
            lines += ["", f"{head}: {len(found)}", *(f"- {line}" for line in found)]
        return "\n".join(lines) + "\n"
