//! The report as `clockscope trace` prints it: the table of `strace -c` with vDSO calls in it, and
//! below it what the clock reads cost.

use super::callers::text as callers;
use super::entries::{self, Calls};
use super::options::TextOptions;
use super::{answers, declines, latency, overhead, page_answers, table};
use clockscope_model::trace::{Attached, ProcessDetail, ThreadDetail, TraceReport};
use clockscope_text::foreign::joined;
use clockscope_text::lines::{WIDTH, cut_middle, width};
use clockscope_text::units;

/// The report in lines of at most 80 columns; only chosen columns can make them longer, and the
/// width given for callers those about callers.
pub fn render(report: &TraceReport, options: &TextOptions) -> String {
    let syscalls_timed = entries::were_timed(&report.syscalls);
    let all = Calls { vdso: &report.vdso, syscalls: &report.syscalls, syscalls_timed };
    let rows = all.entries(options.sort);

    let mut out = String::new();
    if !options.summary_only {
        out += &header(report);
        out += &attached(report);
    }
    out += &table::render(&rows, &options.columns);
    if options.latency || !options.summary_only {
        out += &latency::render(report, &rows, options);
    }
    if options.per_process || options.per_thread {
        for process in &report.processes_detail {
            out += &process_tables(process, options, syscalls_timed);
        }
    }
    let uncounted = declines::render(&report.declines);
    let below = if options.summary_only {
        uncounted
    } else {
        [
            answers::render(report, options.clock),
            report.clock_page.as_ref().map(page_answers::render).unwrap_or_default(),
            overhead::notes(report),
            uncounted,
            overhead::render(report),
        ]
        .concat()
    };
    if !below.is_empty() {
        out.push('\n');
        out += &below;
    }
    // Last, because it is what was asked for and may be long.
    let callers = callers::render(report, options.callers);
    if !callers.is_empty() {
        out.push('\n');
        out += &callers;
    }
    out
}

/// One line: the command, how it ended, how long it took.
fn header(report: &TraceReport) -> String {
    let end = match (report.signal, report.exit_code) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) if !report.attached.is_empty() => "attached".to_owned(),
        (None, None) => "still running".to_owned(),
    };
    let mut end =
        format!(": {end}, {} (CPU {})", units::nanos(report.wall_ns), units::nanos(report.cpu_ns));
    if report.processes > 1 || report.threads > 1 {
        let processes = units::counted(report.processes, "process", "processes");
        let threads = units::counted(report.threads, "thread", "threads");
        end += &format!(", {processes}, {threads}");
    }
    let command = joined(&report.command, " ");
    let command = if command.is_empty() { "program" } else { &command };
    one_line(command, &end)
}

/// One line a process that was attached to: how long it stood still.
fn attached(report: &TraceReport) -> String {
    let line = |process: &Attached| {
        let detached = match process.ended.as_str() {
            "exited" => "exited".to_owned(),
            "killed" => "was killed".to_owned(),
            _ => format!("detached in {}", units::nanos(process.detach_pause_ns)),
        };
        let threads = units::counted(process.threads, "thread", "threads");
        let name = format!("Attached to {} ({})", process.command, process.pid);
        let paused = units::nanos(process.pause_ns);
        one_line(&name, &format!(", {threads}: paused {paused}, {detached}"))
    };
    report.attached.iter().map(line).collect()
}

/// `name` and `facts` in one line; the name is cut first.
fn one_line(name: &str, facts: &str) -> String {
    let name = cut_middle(name, WIDTH.saturating_sub(width(facts)).max(16));
    cut_middle(&format!("{name}{facts}"), WIDTH) + "\n"
}

fn process_tables(process: &ProcessDetail, options: &TextOptions, syscalls_timed: bool) -> String {
    let mut counts = format!(": {}", units::counted(process.vdso_calls, "vDSO call", "vDSO calls"));
    if let Some(calls) = process.syscall_calls {
        counts += &format!(", {}", units::counted(calls, "system call", "system calls"));
    }
    let name = format!("process {} {}", process.pid, process.command);
    let calls = Calls { vdso: &process.vdso, syscalls: &process.syscalls, syscalls_timed };
    let mut out = format!("\n{}", one_line(name.trim_end(), &counts));
    if process.vdso_calls > 0 || process.syscall_calls > Some(0) {
        out += &table::render(&calls.entries(options.sort), &options.columns);
    }
    if options.per_thread {
        for thread in &process.threads {
            out += &thread_table(process.pid, thread, options, syscalls_timed);
        }
    }
    out
}

fn thread_table(
    pid: i32,
    thread: &ThreadDetail,
    options: &TextOptions,
    syscalls_timed: bool,
) -> String {
    let calls = Calls { vdso: &thread.vdso, syscalls: &thread.syscalls, syscalls_timed };
    let drawn = table::render(&calls.entries(options.sort), &options.columns);
    format!("\nthread {} of process {pid}\n{drawn}", thread.tid)
}

/// Names of the signals that end programs (signal(7), x86-64 numbers).
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
