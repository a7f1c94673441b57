//! Stacks of real programs whose functions are known.
//!
//! This is a separate test binary because its tests are tracers: they wait for all children of
//! their process.

mod programs;
mod stopped;

use std::path::Path;

use clockscope_callers::frames::End;
use clockscope_model::callers::{FrameKind, FrameRow};
use stopped::{COPIED, alone, functions, stopped, unwound};

/// The names from the caller to `main`, and the reason for the end.
fn of_program(program: &Path, words: &[&str]) -> (Vec<FrameRow>, End) {
    let stopped = stopped(program, words, COPIED);
    let (unwound, names) = unwound(&stopped);
    (names, unwound.end)
}

/// The same of a program whose stack must be complete.
fn complete(program: &Path, words: &[&str]) -> Vec<FrameRow> {
    let (names, end) = of_program(program, words);
    assert_eq!(end, End::Complete, "{} {words:?}: {names:#?}", program.display());
    names
}

fn assert_stack(names: &[FrameRow], expected: &[&str]) {
    let found = functions(names);
    let found = &found[..expected.len().min(found.len())];
    assert_eq!(found, expected, "of {names:#?}");
}

#[test]
fn c_without_frame_pointers() {
    let _alone = alone();
    let Some(program) = programs::c("dynamic", &[]) else { return };
    let names = complete(&program, &["plain"]);
    assert_stack(&names[1..], &["innermost", "middle", "outermost", "main"]);
    assert!(names[1].file.as_ref().is_some_and(|file| file.verbatim().ends_with("stacks.c")));
    assert!(names[0].module.as_ref().is_some_and(|module| module.verbatim().contains("libc")));
}

#[test]
fn c_static() {
    let _alone = alone();
    for (name, options) in [("static", &["-static"][..]), ("static-pie", &["-static-pie"])] {
        let Some(program) = programs::c(name, options) else { return };
        let expected = ["__clock_gettime", "innermost", "middle", "outermost", "main"];
        assert_stack(&complete(&program, &["plain"]), &expected);
    }
}

/// With glibc, and with musl, which is built without unwind tables, except for a few functions.
#[test]
fn threads_signals_and_odd_frames() {
    let _alone = alone();
    let options = ["-O2", "-g", "-fomit-frame-pointer", "-pthread"];
    for (name, compiler) in [
        ("odd", &["gcc"][..]),
        ("musl-static", &["musl-gcc", "-static"]),
        ("musl-dynamic", &["musl-gcc"]),
    ] {
        let words = [compiler, &options].concat();
        let Some(program) = programs::built(name, "stacks.c", &words) else { continue };
        for (mode, outer) in [
            ("plain", &["main"][..]),
            ("thread", &["in_thread"]),
            ("realigned", &["realigned", "main"]),
        ] {
            let expected = [&["innermost", "middle", "outermost"], outer].concat();
            assert_stack(&complete(&program, &[mode])[1..], &expected);
        }
        let names = complete(&program, &["signal"]);
        assert_stack(&names[1..], &["innermost", "middle", "outermost", "handler"]);
        assert_eq!(names[5].kind, FrameKind::Signal, "{name}: {names:#?}");
        let signals = names.iter().filter(|name| name.kind == FrameKind::Signal);
        assert_eq!(signals.count(), 1, "{names:#?}");
        let found = functions(&names[6..]);
        assert_eq!(found.iter().filter(|name| **name == "interrupted").count(), 1, "{names:#?}");
        let at = found.iter().position(|name| *name == "interrupted");
        assert_eq!(at.map(|at| found.get(at + 1)), Some(Some(&"main")), "{name}: {names:#?}");
    }
}

#[test]
fn a_stack_larger_than_the_copy_is_cut() {
    let _alone = alone();
    let Some(program) = programs::c("deep", &[]) else { return };
    let stopped = stopped(&program, &["deep"], 8 << 10);
    let (unwound, names) = unwound(&stopped);
    assert_stack(&names[1..], &["innermost", "middle", "outermost", "recursive", "recursive"]);
    assert_eq!(unwound.end, End::StackTooShort);
    assert!(!functions(&names).contains(&"main"));
}

#[test]
fn rust_release() {
    let _alone = alone();
    let words = ["rustc", "--edition=2024", "-O", "-g"];
    let Some(program) = programs::built("rust", "stacks.rs", &words) else { return };
    let names = complete(&program, &[]);
    let found = functions(&names);
    let is_post = |name: &&str| name.ends_with("Queue>::post") || name.ends_with("Queue::post");
    let at = found.iter().position(is_post);
    let at = at.unwrap_or_else(|| panic!("{names:#?}"));
    assert!(found[at + 1].ends_with("serve"), "{names:#?}");
    assert!(found[at + 2].ends_with("main"), "{names:#?}");
}

#[test]
fn cpp_with_inlining_and_exceptions() {
    let _alone = alone();
    let words = ["g++", "-O2", "-g", "-fomit-frame-pointer"];
    let Some(program) = programs::built("cpp", "stacks.cpp", &words) else { return };
    let names = complete(&program, &["plain"]);
    let inner =
        ["long app::read_clock<long>(long)", "app::inlined(long)", "app::Caller(char const*)"];
    assert_stack(&names[1..], &[&inner[..], &["main"]].concat());
    assert_eq!(names[2].kind, FrameKind::Inlined);
    let outer = ["app::Guard::~Guard()", "app::thrower(int)", "main"];
    assert_stack(&complete(&program, &["exception"])[1..], &[inner, outer].concat());
}

#[test]
fn go_on_the_main_and_another_goroutine() {
    let _alone = alone();
    for (name, options) in [("go", &[][..]), ("go-stripped", &["-ldflags=-s -w"])] {
        let words = [&["go", "build"], options].concat();
        let Some(program) = programs::built(name, "stacks.go", &words) else { return };
        for (mode, root) in [("plain", "runtime.main"), ("goroutine", "runtime.goexit")] {
            assert_stack_of_go(&program, mode, root);
        }
    }
}

/// The goroutine's time slice may run out while the program is stopped; then the scheduler may read
/// the clock first. Such samples are right too, but the test needs another one.
fn assert_stack_of_go(program: &Path, mode: &str, root: &str) {
    for _ in 0..50 {
        let (names, end) = of_program(program, &[mode]);
        let found = functions(&names);
        if found.contains(&"runtime.schedule") || found.last() == Some(&"runtime.morestack") {
            continue;
        }
        let at = found.iter().position(|name| name.ends_with("(*queue).post"));
        let at = at.unwrap_or_else(|| panic!("{mode}: {end:?} {names:#?}"));
        assert_eq!(found[at + 1], "main.serve", "{names:#?}");
        assert!(found.iter().any(|name| name.starts_with(root)), "{names:#?}");
        assert_eq!(end, End::Complete, "{names:#?}");
        return;
    }
    panic!("the scheduler was always first");
}

/// `innermost` waits for code behind a jump to a computed address; there is no way to know whether
/// that returns.
#[test]
fn code_without_unwind_information_is_followed_only_where_it_surely_returns() {
    let _alone = alone();
    let options = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g0"];
    let Some(program) = programs::c("bare", &options) else { return };
    let stopped = stopped(&program, &["plain"], COPIED);
    let (unwound, names) = unwound(&stopped);
    assert_stack(&names[1..], &["innermost"]);
    assert_eq!(names.len(), 2, "{names:#?}");
    assert!(matches!(unwound.end, End::NoInformation(_)), "{:?}", unwound.end);
}

#[test]
fn stripped_and_deleted_programs_are_unwound() {
    let _alone = alone();
    let Some(program) = programs::c("stripped", &["-s", "-static"]) else { return };
    let stopped = stopped(&program, &["plain"], COPIED);
    std::fs::remove_file(&program).expect("delete the program");
    let (unwound, names) = unwound(&stopped);
    // clock_gettime, four functions of the program, three of the C library.
    assert_eq!(functions(&names), ["?"; 8]);
    assert_eq!(unwound.end, End::Complete);
    assert!(
        names[0].module.as_ref().is_some_and(|module| module.verbatim().ends_with("/stripped"))
    );
    assert!(names.iter().all(|name| name.address != 0 && name.kind == FrameKind::Native));
    // The unwind tables give the functions' first addresses, except for `_start`.
    let starts: Vec<Option<u64>> = names.iter().map(|name| name.start).collect();
    assert!(starts[..7].iter().flatten().count() == 7, "{names:#?}");
    let is_before = |name: &FrameRow| name.start.is_none_or(|start| start <= name.address);
    assert!(names.iter().all(is_before), "{names:#?}");
}

/// In such a file the symbolizer finds no symbol, not even the exported ones.
#[test]
fn a_stripped_file_with_a_packed_symbol_table_has_names() {
    let _alone = alone();
    let Some(program) = programs::c_with_packed_names("packed") else { return };
    let names = complete(&program, &["plain"]);
    assert_stack(&names[1..], &["innermost", "middle", "outermost", "main"]);
    assert!(names[1..5].iter().all(|name| name.line.is_none()), "{names:#?}");
}
