//! The report as `clockscope trace` prints it: the table of `strace -c` with vDSO calls in it, and the cost
//! of the clock reads.

use super::answers::{self, told};
use super::callers::{intervals, sites, text as callers};
use super::costs::total;
use super::entries::{self, Calls};
use super::options::TextOptions;
use super::{counter_reads, declines, latency, overhead, page_answers, table, verdict};
use clockscope_model::trace::{Attached, Ended, ProcessDetail, ThreadDetail, TraceReport};
use clockscope_text::foreign::joined;
use clockscope_text::lines::{WIDTH, cut_middle, labelled, width};
use clockscope_text::units;

/// Stands for a program without a known name.
pub(super) const UNNAMED: &str = "program";

/// A shorter wait for a CPU is not worth a word.
const QUEUED_LEAST_NS: u64 = 1_000_000;

/// The report in lines of at most 80 columns. Only chosen columns make lines longer, and on a wide terminal
/// the first line, the tables of calls and the section on callers. The first lines have the answers: what the reads
/// cost, and who makes them.
pub fn render(report: &TraceReport, options: &TextOptions) -> String {
    let syscalls_timed = entries::were_timed(&report.syscalls);
    let all = Calls { vdso: &report.vdso, syscalls: &report.syscalls, syscalls_timed };
    let sites = sites::sites(report);
    let counter = counter_reads::counted(report, options.all);
    let counter = told("Counter", &counter.unwrap_or_default());
    let mut out = String::new();
    if !options.summary_only {
        out += &header(report, options);
        out += &beside(report);
        out += &answers::clock(report, options);
        out += &match &report.callers {
            Some(_) => callers::who(report, &sites, options.callers),
            None => answers::how_to_see_who(report),
        };
        out += &answers::advice(report, options);
        out += &counter;
        out += &answers::system_calls(report);
        out += &report.clock_page.as_ref().map(page_answers::render).unwrap_or_default();
        out += "\n";
    }
    out += &calls_table(all, options);
    out += legend(report);
    if options.latency || !options.summary_only {
        out += &latency::render(report, &all.entries(options.sort), options);
    }
    if options.per_process || options.per_thread {
        let tables = |process| process_tables(process, options, syscalls_timed);
        out.extend(report.processes_detail.iter().map(tables));
    }
    let mut below = declines::labelled("Not counted", &report.declines, WIDTH);
    if options.summary_only {
        below += &counter;
    }
    let counters = (report.counters.is_some(), report.counter_doubt.as_deref());
    let counters = counter_reads::sentence(&report.counter_reads, counters, options.all);
    below += &told("Can read the counter itself", &counters.unwrap_or_default());
    if !options.summary_only {
        if options.all {
            below += &answers::in_full(report, options);
            below += &told("Times", &overhead::how_timed(report));
        }
        below += &attached(report);
        below += &places(report);
        below += &overhead::compared(report);
        below += &told("Overhead", &overhead::what_it_cost(report));
        let verdict = report.verdict.as_ref().map(|of| verdict::sentence(report, of));
        below += &told("Verdict", &verdict.unwrap_or_default());
    }
    let lines = callers::lines_to_change(report, &sites, options.callers);
    let mut intervals = String::new();
    if options.intervals {
        intervals = intervals::render(report, options.callers);
    }
    let callers = callers::render(report, options.callers);
    for part in [lines, intervals, below, callers].iter().filter(|part| !part.is_empty()) {
        out.push('\n');
        out += part;
    }
    out
}

fn calls_table(calls: Calls<'_>, options: &TextOptions) -> String {
    let rows = calls.entries(options.sort);
    let shown = if options.all { rows.clone() } else { entries::shortened(&rows, options.sort) };
    table::render(&shown, options.callers.width, options.coloured)
}

/// The legend of the mark for calls that wait, if the table has one.
fn legend(report: &TraceReport) -> &'static str {
    let waits = report.syscalls.iter().any(|row| row.waits && row.calls > 0);
    if waits {
        "waits: time in which there was nothing to do; the total is without it\n"
    } else {
        ""
    }
}

/// One line: the command, its end, its duration.
fn header(report: &TraceReport, options: &TextOptions) -> String {
    let end = match (report.signal, report.exit_code) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) if !report.attached.is_empty() => "attached".to_owned(),
        (None, None) => "still running".to_owned(),
    };
    let (wall, cpu) = (units::nanos(report.wall_ns), units::nanos(report.cpu_ns));
    let (mut facts, mut below) = (format!(": {end}, {wall} (CPU {cpu}"), String::new());
    let is_apart = report.processes > 1 || report.threads > 1;
    if report.queued_ns >= QUEUED_LEAST_NS.max(report.cpu_ns / 10) {
        let waited = units::nanos(report.queued_ns);
        if is_apart {
            // Threads that end while a process is attached to are not in it.
            let least = if report.attached.is_empty() { "" } else { "at least " };
            // With the numbers of processes and threads, the first line has no room for it.
            let text = format!("{least}{waited} for CPUs on which something else ran");
            below = labelled("Waited", &text);
        } else {
            facts += &format!(", waited for a CPU {waited}");
        }
    }
    facts.push(')');
    if is_apart {
        let processes = units::counted(report.processes, "process", "processes");
        let threads = units::counted(report.threads, "thread", "threads");
        facts += &format!(", {processes}, {threads}");
    }
    if report.throttled_ns >= QUEUED_LEAST_NS.max(report.cpu_ns / 10) {
        let held = units::nanos(report.throttled_ns);
        let text = format!("for {held}, all CPUs together, by its control group's quota");
        below += &labelled("Throttled", &text);
    }
    one_line(&traced(report), &facts, options) + &below
}

/// The traced command, or the title of the first of the attached processes.
pub(super) fn traced(report: &TraceReport) -> String {
    let named = |process: &Attached| {
        let title = process.title.printable();
        let name = if title.is_empty() { process.command.printable() } else { title };
        format!("{name} ({})", process.pid)
    };
    let command = match report.attached.as_slice() {
        [] => joined(&report.command, " "),
        [one] => named(one),
        [first, others @ ..] => format!("{} and {} more", named(first), others.len()),
    };
    if command.is_empty() { UNNAMED.to_owned() } else { command }
}

/// The pauses of the threads of attached processes, the longest of all, and the processes that have ended.
fn attached(report: &TraceReport) -> String {
    let processes = &report.attached;
    let longest = |of: fn(&Attached) -> u64| {
        processes.iter().map(of).max().filter(|ns| *ns > 0).map(units::nanos)
    };
    let Some(paused) = longest(|process| process.pause_ns) else { return String::new() };
    let threads = total(processes.iter().map(|process| process.threads));
    let who = match processes.as_slice() {
        [_] if threads == 1 => "its thread".to_owned(),
        [_] => format!("all {} threads", units::count(threads)),
        several => format!(
            "{} of {}",
            units::counted(threads, "thread", "threads"),
            units::counted(several.len() as u64, "process", "processes")
        ),
    };
    let mut text = format!("{who} stood still up to {paused} at the start");
    if let Some(paused) = longest(|process| process.detach_pause_ns) {
        text += &format!(" and {paused} at the end");
    }
    let number =
        |ended: Ended| processes.iter().filter(|process| process.ended == ended).count() as u64;
    for (ended, how) in [(Ended::Exited, "exited"), (Ended::Killed, "was killed")] {
        match number(ended) {
            0 => {}
            _ if processes.len() == 1 => text += &format!("; it {how}"),
            count => text += &format!("; {} {how}", units::count(count)),
        }
    }
    match number(Ended::Unknown) {
        0 => {}
        _ if processes.len() == 1 => text += "; why counting ended is not known",
        count => text += &format!("; why counting ended is not known of {}", units::count(count)),
    }
    labelled("Attached", &text)
}

/// The children of attached processes that are not traced, and how to trace them.
fn beside(report: &TraceReport) -> String {
    let sentence = |process: &Attached| {
        let children = units::counted(
            process.children.len() as u64,
            "child that runs is",
            "children that run are",
        );
        let pid = process.pid;
        labelled("Beside", &format!("{children} not traced: -p {pid},$(pgrep -d, -P {pid})"))
    };
    let parents = report.attached.iter().filter(|process| !process.children.is_empty());
    parents.map(sentence).collect()
}

/// Container, pod and unit of the attached processes: one line for each place.
fn places(report: &TraceReport) -> String {
    let mut told: Vec<(String, Vec<&Attached>)> = Vec::new();
    for process in &report.attached {
        let place = process.place.to_string();
        match told.iter_mut().find(|(other, _)| *other == place) {
            Some((_, processes)) => processes.push(process),
            None => told.push((place, vec![process])),
        }
    }
    let is_one = told.len() == 1;
    let line = |(place, processes): &(String, Vec<&Attached>)| {
        let named = |process: &&Attached| {
            format!("{} ({})", cut_middle(&process.command.printable(), WIDTH / 2), process.pid)
        };
        let who: Vec<String> = processes.iter().map(named).collect();
        let who = if is_one { String::new() } else { who.join(", ") + ": " };
        labelled("Runs in", &format!("{who}{place}"))
    };
    told.iter().filter(|(place, _)| !place.is_empty()).map(line).collect()
}

/// `name` and `facts` in one line; the name is cut first. A terminal narrower than 80 columns wraps the line.
fn one_line(name: &str, facts: &str, options: &TextOptions) -> String {
    let limit = options.callers.width.max(WIDTH);
    let name = cut_middle(name, limit.saturating_sub(width(facts)).max(16));
    cut_middle(&format!("{name}{facts}"), limit) + "\n"
}

fn process_tables(process: &ProcessDetail, options: &TextOptions, syscalls_timed: bool) -> String {
    let mut counts = format!(": {}", units::counted(process.vdso_calls, "vDSO call", "vDSO calls"));
    if let Some(calls) = process.syscall_calls {
        counts += &format!(", {}", units::counted(calls, "system call", "system calls"));
    }
    let own = if process.title.is_empty() { &process.command } else { &process.title };
    let name = format!("process {} {own}", process.pid);
    let calls = Calls { vdso: &process.vdso, syscalls: &process.syscalls, syscalls_timed };
    let mut out = format!("\n{}", one_line(name.trim_end(), &counts, options));
    if process.vdso_calls > 0 || process.syscall_calls > Some(0) {
        out += &calls_table(calls, options);
    }
    if options.per_thread {
        let table = |thread| thread_table(process.pid, thread, options, syscalls_timed);
        out.extend(process.threads.iter().map(table));
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
    let drawn = calls_table(calls, options);
    let name = format!("thread {} {}", thread.tid, thread.name);
    format!("\n{}{drawn}", one_line(name.trim_end(), &format!(" of process {pid}"), options))
}

/// Names of the signals that end programs (signal(7), x86-64 numbers).
fn signal_name(signal: i32) -> Option<&'static str> {
    const FIRST: [&str; 15] = [
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
        "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
    ];
    match signal {
        24 => Some("SIGXCPU"),
        25 => Some("SIGXFSZ"),
        31 => Some("SIGSYS"),
        _ => FIRST.get(usize::try_from(signal).ok()?.checked_sub(1)?).copied(),
    }
}

#[cfg(test)]
mod tests;
