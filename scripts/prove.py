#!/usr/bin/env python3
"""Proves the clock page's protocol and arithmetic, and shows that planted faults are found.

Usage: scripts/prove.py TARGET. `make prove` runs it. docs/PAGE.md says what is proved and what is assumed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(sys.argv[1]).resolve() / "prove"
PROOFS = ROOT / "crates/fastclock/proofs"
SOLVERS = {"z3": ["z3", "-t:3000"], "cvc5": ["cvc5", "--incremental", "--tlimit-per=20000"]}
PAGE = "crates/fastclock/src/page/"

# Name, model or module of unit tests that must find the fault, file, the right text, the wrong text.
PLANTED = [
    ("the reader does not look at the head again", "a_reader", "reader.rs",
     "let moved = (self.page.head.load(Relaxed) ^ head) | self.trust.moved(head);\n        if",
     "let moved = self.trust.moved(head);\n        if"),
    ("the reader's second look is not ordered behind the counter", "a_reader", "reader.rs",
     "fence(Acquire);\n        let moved", "let moved"),
    ("the slots are swapped", "a_reader", "writer.rs",
     "content.store(&self.page.slots[(count & 1) as usize]);",
     "content.store(&self.page.slots[(count & 1 ^ 1) as usize]);"),
    ("the head is stored without ordering", "a_reader", "writer.rs",
     "self.page.head.store(self.head, Release);\n        self.current",
     "self.page.head.store(self.head, Relaxed);\n        self.current"),
    ("the fence before a slot is written is left out", "three_publications", "writer.rs",
     "fence(Release);\n        content.store", "content.store"),
    ("the end of a line is not announced", "a_reader", "writer.rs",
     "self.publish(Content { span, grace: Ticks(0), ..*old });\n        if self.in_time", "if self.in_time"),
    ("the announcement is not verified", "a_reader", "writer.rs",
     "counter.ordered().0.saturating_add(lead.0 / 2) < tick.0", "{ counter.ordered(); true }"),
    ("the announcement is not fenced from the counter", "a_reader", "writer.rs",
     "fence(SeqCst);\n        if self.page", "if self.page"),
    ("the second writer does not know the line", "a_writer", "writer.rs",
     "head: head & 0xffff_ffff, current: Some(content) }", "head: head & 0xffff_ffff, current: None }"),
    ("the kernel's answer may be below what the page said", "a_withdrawal", "trust.rs",
     "if (1..limit).contains(&behind) { Nanos(floor) } else { kernel }", "kernel"),
    ("a thread in a hurry raises the floor to what was read before others stopped", "late_trust", "slow.rs",
     "rare.before = self.trust.withdraw();\n        rare.ticks = self.counter.ordered();\n        self.hold",
     "rare.before = self.trust.checked.load(Acquire);\n        rare.ticks = self.counter.ordered();\n        self.hold"),
    ("a thread that rejects the page does the same", "late_trust", "slow.rs",
     "rare.before = self.trust.withdraw();\n        rare.ticks = self.counter.ordered();\n        self.reach",
     "rare.before = self.trust.checked.load(Acquire);\n        rare.ticks = self.counter.ordered();\n        self.reach"),
    ("a line is overwritten while it is in use", "late_trust", "trust.rs",
     "if head != 0 && is_needed() {", "if head != 0 && is_needed() && false {"),
    ("what was compared late is trusted whatever happened meanwhile", "late_trust", "trust.rs",
     "if self.checked.compare_exchange(before, head, AcqRel, Relaxed).is_err() {",
     "self.checked.store(head, Release);\n            if before == head {"),
    ("a copy is overwritten while its head is trusted", "a_head", "trust.rs",
     "self.withdraw();\n", "\n"),
    ("the reader does not look again whether the head is trusted", "a_head", "reader.rs",
     "let moved = (self.page.head.load(Relaxed) ^ head) | self.trust.moved(head);\n        if",
     "let moved = self.page.head.load(Relaxed) ^ head;\n        if"),
    ("a reader does not wait for the copy whose head is trusted", "a_copy", "trust.rs",
     "let trusted = self.checked.load(Acquire) == head", "let trusted = self.checked.load(Relaxed) == head"),
    ("a head that was trusted is copied again", "a_head", "trust.rs",
     "head == furthest || Self::is_behind(head, furthest)", "false"),
]

# Name, file, the right definition, the wrong one.
PLANTED_IN_ARITHMETIC = [
    ("the shift is off by one", "conversion.smt2",
     "(define-fun SHIFT () Int 18446744073709551616)", "(define-fun SHIFT () Int 9223372036854775808)"),
    ("the bound is not rounded up", "conversion.smt2",
     "(+ at_base (div (* ticks growth) SHIFT) 1)", "(+ at_base (div (* ticks growth) SHIFT))"),
    ("the next line begins a nanosecond below", "conversion.smt2", "(<= lowest next)", "(<= (- lowest 1) next)"),
    ("a bound and its growth are limited apart", "conversion.smt2",
     "(assert (< (+ at_base (div (* ticks growth) SHIFT)) VAGUEST))",
     "(assert (and (< at_base VAGUEST) (< (div (* ticks growth) SHIFT) VAGUEST)))"),
    ("a line may be longer", "conversion.smt2",
     "(define-fun LONGEST () Int 72057594037927936)", "(define-fun LONGEST () Int 9223372036854775808)"),
    ("the overshoot is not in the bound", "steering.smt2",
     "(ite (< ratio bend) (- bend ratio) 0.0)", "0.0"),
    ("a line may be bent by more than its slope", "steering.smt2",
     "(define-fun LARGEST () Real (/ 1.0 2.0))", "(define-fun LARGEST () Real (/ 2.0 1.0))"),
]


def replaced(text, old, new, name):
    assert text.count(old) == 1, f"{name}: {text.count(old)} places have {old!r}"
    return text.replace(old, new)


def answers(text, title):
    """The answers of all solvers to each claim of a text."""
    file = TARGET / f"{re.sub('[^a-z]+', '-', title)}.smt2"
    file.write_text(text)
    claims = re.findall(r'\(echo "(.*)"\)', text)
    given = {claim: {} for claim in claims}
    for solver, command in SOLVERS.items():
        said = subprocess.run(command + [file], capture_output=True, text=True).stdout.splitlines()
        claim = None
        for line in said:
            if line.strip('"') in given:
                claim = line.strip('"')
            elif line in ("sat", "unsat", "unknown"):
                given[claim][solver] = line
    return given


def prove_arithmetic(text, title):
    for claim, given in answers(text, title).items():
        proved = [solver for solver, answer in given.items() if answer == "unsat"]
        assert proved and "sat" not in given.values(), f"{title}: {claim}: {given}"
        print(f"proved: {claim} ({', '.join(proved)})")


def cargo(root, *arguments, **variables):
    # One target folder for each tree: cargo would take the other tree's build output for this tree's.
    target = TARGET / ("target" if root == ROOT else "target-planted")
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)} | variables
    command = [os.environ.get("CARGO", "cargo"), *arguments, "--quiet", "--package", "fastclock"]
    return command, {"cwd": root, "env": environment, "capture_output": True, "text": True}


def model(root, name):
    """Runs the models whose names begin with `name`; gives whether all hold, and the output."""
    command, options = cargo(
        root, "test", "--release", "--no-default-features", "--test", "page", RUSTFLAGS="--cfg fastclock_model",
        RUST_BACKTRACE="0", CARGO_PROFILE_RELEASE_LTO="off", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16")
    built = subprocess.run(command + ["--no-run"], **options)
    assert built.returncode == 0, built.stderr
    run = subprocess.run(command + ["--", name], **options)
    assert "0 passed; 0 failed" not in run.stdout, f"there is no model {name}"
    return run.returncode == 0, run.stdout + run.stderr


def unit_tests(root, name):
    """As `model`, for the unit tests of the page's module of this name."""
    command, options = cargo(root, "test", "--lib", RUST_BACKTRACE="0")
    run = subprocess.run(command + ["--", f"page::tests::{name}"], **options)
    assert "test result" in run.stdout, run.stderr
    return run.returncode == 0, run.stdout + run.stderr


def names_of_models():
    return re.findall(r"^pub fn (\w+)", (ROOT / PAGE / "model.rs").read_text(), re.MULTILINE)


def samples():
    path = TARGET / "samples.smt2"
    command, options = cargo(ROOT, "test", "--lib", FASTCLOCK_SAMPLES=str(path))
    run = subprocess.run(command + ["--", "page::tests::proofs"], **options)
    assert run.returncode == 0, run.stdout + run.stderr
    return path.read_text()


def plant():
    """A copy of the sources, in which faults are planted."""
    copy = TARGET / "planted"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ["Cargo.toml", "Cargo.lock", "crates", "docs", "tests/skips"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("target"))
        else:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy / name)
    return copy


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    for file in ["conversion.smt2", "steering.smt2"]:
        prove_arithmetic((PROOFS / file).read_text(), file)
    prove_arithmetic(samples(), "samples")
    for name, file, old, new in PLANTED_IN_ARITHMETIC:
        text = replaced((PROOFS / file).read_text(), old, new, name)
        found = [claim for claim, given in answers(text, name).items() if "sat" in given.values()]
        assert found, f"not found: {name}"
        print(f"found: {name}: not so any more: {found[0]}")
    for name in names_of_models():
        holds, said = model(ROOT, name)
        assert holds, said
        print(f"holds: {name}", flush=True)
    copy = plant()
    for name, finder, file, old, new in PLANTED:
        path = copy / PAGE / file
        text = path.read_text()
        path.write_text(replaced(text, old, new, name))
        holds, said = (unit_tests if finder == "late_trust" else model)(copy, finder)
        path.write_text(text)
        assert not holds, f"not found: {name}"
        reason = re.search(r"panicked at .*:\n(.*)", said)
        print(f"found: {name}: {reason.group(1) if reason else 'the model ends'}", flush=True)
    count = len(PLANTED) + len(PLANTED_IN_ARITHMETIC)
    print(f"everything is proved, and {count} of {count} planted faults are found")


main()
