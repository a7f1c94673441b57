//! `clockscope trace` counts the clock reads of every language exactly. The programs print their calls; see
//! `tests/tracees/README.md`.

use crate::support::builds::{self, Link};
use crate::support::compare::{
    assert_exact, assert_exact_and_nothing_else, assert_exact_by_difference,
};
use crate::support::running::{trace, trace_vdso};
use crate::support::{installed_or_skip, sources};

#[test]
fn c_with_every_library_and_way_of_linking() {
    for link in Link::EVERY {
        let Some(program) = builds::c("reads", link) else { continue };
        let traced = trace(&[], &words![program]);
        let printed = assert_exact_and_nothing_else(&traced);
        assert!(printed.vdso.len() >= 10, "reads makes many kinds of calls: {printed:?}");
        assert_eq!(traced.code(), 0, "{link:?}");
    }
}

/// The leak check traces the program at its end, and a process has one tracer, so with it clockscope must not follow.
#[test]
fn address_sanitizer_with_and_without_its_leak_check() {
    let Some(program) = builds::c("reads", Link::AddressSanitizer) else { return };
    let without = words!["env", "ASAN_OPTIONS=detect_leaks=0", program];
    let traced = [trace(&[], &without), trace(&["--via", "none", "--no-follow"], &words![program])];
    for traced in traced {
        assert_exact_and_nothing_else(&traced);
        assert_eq!(traced.code(), 0);
    }
}

/// Parsers of their own, by `DT_HASH` and by `DT_GNU_HASH`, Rust's standard library, and rustix, which trusts the image.
#[test]
fn programs_that_read_the_image_themselves() {
    for program in [
        builds::c("own_parser", Link::Dynamic),
        builds::c_with("own_parser", Link::Static, &["-DUSE_GNU_HASH"]),
        builds::rust_with("reads", &[]),
        builds::rustix(),
    ] {
        let Some(program) = program else { continue };
        assert_exact_and_nothing_else(&trace(&[], &words![program]));
    }
}

#[test]
fn go_without_cgo() {
    let Some(program) = builds::go_program("reads") else { return };
    for calls in ["1009", "100003"] {
        assert_exact(&trace(&[], &words![program, calls, "4"]));
    }
}

#[test]
fn cpython_and_perl() {
    for (interpreter, script) in [("/usr/bin/python3", "reads.py"), ("/usr/bin/perl", "reads.pl")] {
        let Some(interpreter) = installed_or_skip(&[interpreter]) else { continue };
        assert_exact(&trace(&[], &words![interpreter, sources().join(script)]));
    }
}

#[test]
fn node() {
    let Some(node) = installed_or_skip(&["/usr/bin/node", "/usr/local/bin/node"]) else { return };
    let script = sources().join("reads.js");
    let run =
        |calls: &str| trace(&[], &words![node, "--single-threaded", "--jitless", script, calls]);
    assert_exact_by_difference(&run("1009"), &run("2003"));
}

#[test]
fn java() {
    let Some(java) = installed_or_skip(&["/usr/bin/java"]) else { return };
    let Some(class_path) = builds::java_class("Reads") else { return };
    let run = |calls: &str| {
        trace(&[], &words![java, "-Xint", "-XX:+UseSerialGC", "-cp", class_path, "Reads", calls])
    };
    assert_exact_by_difference(&run("1009"), &run("2003"));
}

/// The shell and env execute the real program, whose calls are counted from the first one on. The shell makes system
/// calls of its own.
#[test]
fn python_through_a_shell_and_env() {
    let Some(python) = installed_or_skip(&["/usr/bin/python3"]) else { return };
    let script = "exec env \"$0\" \"$1\"";
    assert_exact(&trace_vdso(&words!["sh", "-c", script, python, sources().join("reads.py")]));
}
