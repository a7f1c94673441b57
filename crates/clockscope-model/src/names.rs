//! Names of called functions, frames and processes, the same wherever stacks are printed.

use crate::callers::{CalledRow, FrameKind, FrameRow};
use crate::trace::{TraceReport, Via};
use clockscope_text::foreign::{Foreign, printable};

/// First element of a stack that ends early, where its outermost functions would stand.
pub const CUT: &str = "[cut]";

/// The called function or system call: `clock_gettime(MONOTONIC)`, or `read [syscall]`. The mark keeps a
/// system call apart from the C function of the same name.
pub fn called(row: &CalledRow) -> String {
    let name = with_clock(&row.name, row.clock.as_deref());
    if row.via == Via::Syscall { format!("{name} [syscall]") } else { name }
}

/// A function, with its clock where it takes one: `clock_gettime(MONOTONIC)`.
pub fn with_clock(function: &str, clock: Option<&str>) -> String {
    let function = printable(function);
    match clock {
        Some(clock) => format!("{function}({})", printable(short_clock(clock))),
        None => function,
    }
}

/// A clock's name without `CLOCK_` and `_ID`.
pub fn short_clock(clock: &str) -> &str {
    let clock = clock.strip_prefix("CLOCK_").unwrap_or(clock);
    clock.strip_suffix("_ID").unwrap_or(clock)
}

/// Frame name between a signal handler and the interrupted function, in gdb's words.
const SIGNAL: &str = "<signal handler called>";

/// Name of the frame's function. Without a name: the file and the offset of the function's start, or else of
/// the call (`postgres+0x3139a0`). Without an offset: the file in brackets, as perf's tools write it.
pub fn frame(row: &FrameRow) -> String {
    if row.kind == FrameKind::Signal {
        return SIGNAL.to_owned();
    }
    let known = |text: &Option<Foreign>| {
        let text = text.as_ref()?.verbatim().trim();
        (!text.is_empty()).then(|| printable(text))
    };
    match (known(&row.function), known(&row.module)) {
        (Some(function), _) => function,
        (None, Some(module)) => {
            let name = file_name(&module).trim();
            match row.start.unwrap_or(row.address) {
                _ if name.starts_with('[') => name.to_owned(),
                0 => format!("[{name}]"),
                at => format!("{name}+{at:#x}"),
            }
        }
        (None, None) => "[unknown]".to_owned(),
    }
}

/// A path without its folders.
pub fn file_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => path,
    }
}

/// Name of the program of a process; `process N` if it has none.
pub fn process(report: &TraceReport, pid: i32) -> String {
    let found = report.processes_detail.iter().find(|process| process.pid == pid);
    match found.map(|process| process.command.printable()) {
        Some(command) if !command.trim().is_empty() => command.trim().to_owned(),
        _ => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ProcessDetail;

    #[test]
    fn frames_are_named_by_what_is_known() {
        let row = |function: Option<&str>, module: Option<&str>| FrameRow {
            function: function.map(Foreign::from),
            module: module.map(Foreign::from),
            ..FrameRow::default()
        };
        for (function, module, name) in [
            (Some("main"), Some("/bin/a"), "main"),
            (Some("a\nb\u{1b}[1m"), None, "a?b?[1m"),
            (None, Some("/usr/lib/libfoo.so.1"), "[libfoo.so.1]"),
            (Some(" "), Some("[jit]"), "[jit]"),
            (Some("f() "), Some(" "), "f()"),
            (None, Some("/"), "[/]"),
            (None, None, "[unknown]"),
        ] {
            assert_eq!(frame(&row(function, module)), name);
        }
        let plain = FrameRow { address: 0x31_39f2, ..row(None, Some("/usr/bin/postgres")) };
        assert_eq!(frame(&plain), "postgres+0x3139f2");
        assert_eq!(frame(&FrameRow { start: Some(0x31_39a0), ..plain }), "postgres+0x3139a0");
        let vdso = FrameRow { address: 0x900, ..row(None, Some("[vdso]")) };
        assert_eq!(frame(&vdso), "[vdso]");
        let signal = FrameRow {
            kind: FrameKind::Signal,
            ..row(Some("__restore_rt"), Some("/lib/libc.so.6"))
        };
        assert_eq!(frame(&signal), "<signal handler called>");
    }

    #[test]
    fn a_process_without_a_name_has_its_number() {
        let detail = |pid, command: &str| ProcessDetail {
            pid,
            command: command.into(),
            ..ProcessDetail::default()
        };
        let report = TraceReport {
            processes_detail: vec![detail(1, "sh"), detail(2, " ")],
            ..TraceReport::default()
        };
        assert_eq!(process(&report, 1), "sh");
        assert_eq!(process(&report, 2), "process 2");
        assert_eq!(process(&report, 3), "process 3");
    }

    #[test]
    fn system_calls_are_told_from_functions() {
        let row = |via, clock: Option<&str>| CalledRow {
            via,
            name: "clock_gettime".to_owned(),
            clock: clock.map(str::to_owned),
            ..CalledRow::default()
        };
        assert_eq!(called(&row(Via::Vdso, Some("CLOCK_TAI"))), "clock_gettime(TAI)");
        assert_eq!(called(&row(Via::Syscall, None)), "clock_gettime [syscall]");
    }
}
