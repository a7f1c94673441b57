//! The first lines of the report: what clock reads cost the program here and elsewhere, and its system calls. With
//! `--all`, further lines below the table say how these figures were found.

use super::costs::{each, ratio, times_as_long, total, whole_on};
use super::options::TextOptions;
use super::{latency, what_if};
use clockscope_model::trace::{Clock, ClockReads, Missing, SyscallRow, TraceReport, Way};
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// Share of the CPU time from which on reads are worth a change of the program.
const WORTH: f64 = 0.01;
/// Share of same-tick reads from which on a coarse clock is recommended.
const COARSE_WORTH: f64 = 0.5;

/// Origin of the typical figures, and their limit: in a virtual machine each read leaves the guest.
const TYPICAL: &str = "typical on bare metal";
const IN_VM: &str = "; more in a virtual machine";

/// Where to read of which processes or functions no calls were counted.
const MISSING: &str = "some may be missing: see \"Not counted\"";

/// Limit for shares above 1 that timing explains on a busy machine: the cost of timing a read, which is
/// subtracted, is about as large as the read's own.
const UNCERTAIN: f64 = 1.25;

/// What the reads cost the program: their share of its CPU time, and what that would be on other hosts.
pub(super) fn clock(report: &TraceReport, options: &TextOptions) -> String {
    let reads = &report.clock_reads;
    let mut out = labelled("Clock", &cost(report));
    if reads.reads == 0 || !are_worth_a_change(report) {
        return out;
    }
    let slow = slow_clause(report, options);
    let second = slow.or_else(|| is_compared(report, options).then(|| on_other_clocks(report))?);
    out.extend(second.map(|second| labelled("", &second)));
    let because = report.slow_because.as_deref().map(printable);
    out.extend(because.map(|because| labelled("Why", &format!("{because} (clockscope doctor)"))));
    out
}

/// The answer to `--what-if`, and advice for reads that a coarse clock could answer.
pub(super) fn advice(report: &TraceReport, options: &TextOptions) -> String {
    let what_if = report.what_if.map(|what_if| what_if::sentence(report, &what_if));
    let out = told("What if", &what_if.unwrap_or_default());
    // If callers are known, each line to change has its own advice.
    let is_wanted = !options.all && report.callers.is_none() && are_worth_a_change(report);
    let share = same_tick_share(report, options).filter(|share| *share >= COARSE_WORTH);
    let tick_ns = report.clock_reads.tick_ns;
    match share.filter(|_| is_wanted) {
        Some(share) => out + &labelled("Same tick", &same_tick(share, tick_ns)),
        None => out,
    }
}

/// How to see which lines read the clock, if that is of use.
pub(super) fn how_to_see_who(report: &TraceReport) -> String {
    let is_of_use = report.clock_reads.reads > 0 && are_worth_a_change(report);
    let is_trace = report.verdict.is_none();
    let hint = if is_of_use && is_trace { "add --callers to see which lines read it" } else { "" };
    told("Who", hint)
}

/// Whether the reads take a share of the CPU time that is worth a change of the program; as long as none is timed,
/// whether they would on the slowest clock.
fn are_worth_a_change(report: &TraceReport) -> bool {
    let reads = &report.clock_reads;
    let time_ns = if reads.time_ns > 0 { reads.time_ns } else { reads.typical_acpi_pm_ns };
    report.cpu_ns == 0 || ratio(time_ns, report.cpu_ns) >= WORTH
}

/// [`clock`]'s first sentence.
pub(super) fn cost(report: &TraceReport) -> String {
    let reads = &report.clock_reads;
    let is_partial = report.declines.iter().any(|row| row.what == Missing::Vdso);
    let counted = format!(" counted, {MISSING}");
    if reads.reads == 0 {
        return "no reads".to_owned() + if is_partial { &counted } else { "" };
    }
    let mut text = units::counted(reads.reads, "read", "reads");
    let share = (reads.time_ns > 0 && report.cpu_ns > 0)
        .then(|| format!("{} of its CPU", part_of(reads.time_ns, report.cpu_ns)));
    if !are_worth_a_change(report) {
        text.extend(share.map(|share| format!(", {share}")));
        return text + if is_partial { &counted } else { ": not worth a thought" };
    }
    if let Some(rate) = units::brief_rate(reads.reads_per_second) {
        text += &format!(", {rate} a second");
    }
    if reads.time_ns > 0 {
        text += &format!(", {} each", each(reads.time_ns, reads.reads));
    }
    if reads.passed_on > 0 {
        let stops = if report.via == Some(Way::Ptrace) { ", ptrace's stops included" } else { "" };
        text += &format!("; {} of them by the kernel{stops}", units::count(reads.passed_on));
    }
    let mut text = match share {
        Some(share) => format!("{share}: {text}"),
        None if reads.time_ns > 0 => text,
        None if reads.too_few_timed => {
            format!("{text}; too few were timed to say what one costs")
        }
        None => format!("{text}; none of them was timed"),
    };
    if is_partial {
        text += &format!("; {MISSING}");
    }
    text
}

/// The slow-down of the program on hosts whose clocksource is not the TSC; `None` if there is no typical figure.
fn on_other_clocks(report: &TraceReport) -> Option<String> {
    let mut sources = slow_sources(report).into_iter();
    let (ns, name) = sources.next()?;
    let times = |ns| Some(ratio(whole_on(report, ns)?, report.cpu_ns));
    let Some(first) = times(ns) else {
        let others = sources.map(|(ns, name)| format!(", {} on {name}", units::nanos(ns)));
        return Some(
            format!("its reads would take {} on {name}", units::nanos(ns))
                + &String::from_iter(others),
        );
    };
    let of_other = |(ns, name)| {
        Some(format!(", on {name} {}", times_as_long(times(ns)?).trim_end_matches(" as long")))
    };
    let others: String = sources.filter_map(of_other).collect();
    Some(format!("on {name} it would take {}{others}", times_as_long(first)))
}

/// The clocksources that a host may fall back to, with the typical time of the program's reads.
fn slow_sources(report: &TraceReport) -> Vec<(u64, &'static str)> {
    let reads = &report.clock_reads;
    let sources = [(reads.typical_hpet_ns, "hpet"), (reads.typical_acpi_pm_ns, "acpi_pm")];
    sources.into_iter().filter(|(ns, _)| *ns > 0).collect()
}

/// The lines of `--all` about reads: what the first lines compare with, unless the program's clock fulfils it already.
pub(super) fn in_full(report: &TraceReport, options: &TextOptions) -> String {
    let (reads, clock) = (&report.clock_reads, options.clock);
    let mut out = String::new();
    if !matches!(clock, Clock::Syscall | Clock::Slow) && is_answered_in_user_space(report) {
        out += &labelled("By syscall", &by_syscall(reads));
    }
    let is_compared = is_compared(report, options) && slow_clause(report, options).is_none();
    let each = |(ns, name)| format!("{} a read on {name}", each(ns, reads.clocksource_reads));
    let typical: Vec<String> = slow_sources(report).into_iter().map(each).collect();
    if is_compared && !typical.is_empty() {
        out += &labelled("Fallen back", &format!("{TYPICAL}: {}{IN_VM}", typical.join(", ")));
    }
    if let Some(share) = same_tick_share(report, options) {
        out += &labelled("Same tick", &same_tick(share, reads.tick_ns));
    }
    out
}

/// That reads are slow, where no option has made them so.
fn slow_clause(report: &TraceReport, options: &TextOptions) -> Option<String> {
    latency::slow_clause(report).filter(|_| options.clock == Clock::Kernel)
}

/// Whether the reads can be compared with those on a host that fell back.
fn is_compared(report: &TraceReport, options: &TextOptions) -> bool {
    options.clock != Clock::Slow && !has_fallen_back(&report.clock_reads)
}

fn same_tick_share(report: &TraceReport, options: &TextOptions) -> Option<f64> {
    let share = report.clock_reads.same_tick_share;
    share.filter(|share| share.is_finite() && options.clock != Clock::Coarse)
}

/// Number of system calls, their time, and the one that took most of it; empty if they were not counted.
pub(super) fn system_calls(report: &TraceReport) -> String {
    let sum = |of: fn(&SyscallRow) -> u64, waits: bool| {
        total(report.syscalls.iter().filter(|row| row.waits == waits).map(of))
    };
    let calls = |waits| sum(|row| row.calls, waits);
    let time_ns = sum(|row| row.time_total_ns, false);
    let unknown = sum(|row| if row.has_time() { 0 } else { row.calls }, false);
    let all = calls(false).saturating_add(calls(true));
    if all == 0 {
        // `run --stats` never counts them.
        let is_missed = report.via == Some(Way::None) && report.verdict.is_none();
        return told("Calls", if is_missed { "system calls were not counted" } else { "" });
    }
    let mut text = units::counted(all, "system call", "system calls");
    if report.wall_ns > 0
        && let Some(rate) = units::brief_rate(ratio(all, report.wall_ns) * 1e9)
    {
        text += &format!(", {rate} a second");
    }
    if time_ns > 0 {
        text += &format!("; {}", units::nanos(time_ns));
        let mut without = Vec::new();
        if unknown > 0 {
            let calls = units::counted(unknown, "call whose time", "calls whose time");
            without.push(format!("{calls} is not known"));
        }
        if calls(true) > 0 {
            without.push(units::counted(calls(true), "call that waits", "calls that wait"));
        }
        if !without.is_empty() {
            text += &format!(" without {}", without.join(" and "));
        }
        let most = report.syscalls.iter().filter(|row| !row.waits);
        if let Some(most) = most.max_by_key(|row| row.time_total_ns) {
            let share = units::share(ratio(most.time_total_ns, time_ns));
            text += &format!("; most: {} {share}", printable(&most.name));
        }
    }
    labelled("Calls", &text)
}

fn by_syscall(reads: &ClockReads) -> String {
    match reads.syscall_read_ps {
        0 => "not measured".to_owned(),
        ps => {
            let each = match reads.by_syscall_ns {
                0 => units::picos(ps),
                all => each(all, reads.reads),
            };
            format!("{}, {each} a read (measured)", units::nanos(reads.by_syscall_ns))
        }
    }
}

/// Whether any read was of a clock that the vDSO can answer in user space; all other reads are system calls
/// on every host, at the same cost as here.
pub(super) fn is_answered_in_user_space(report: &TraceReport) -> bool {
    report.vdso.iter().any(latency::stays_in_user_space)
}

/// Whether user space cannot read this host's clocksource.
fn has_fallen_back(reads: &ClockReads) -> bool {
    reads.clocksource_passed_on > reads.clocksource_reads / 2
}

/// Whether the host answers many of the program's reads slowly, so that `clockscope doctor` knows more.
pub fn is_slow_host(report: &TraceReport) -> bool {
    let is_slow = has_fallen_back(&report.clock_reads) || latency::slow_clause(report).is_some();
    is_slow && are_worth_a_change(report)
}

pub(super) fn same_tick(share: f64, tick_ns: u64) -> String {
    let tick = match tick_ns {
        0 => "timer tick".to_owned(),
        ns => format!("{} tick", units::nanos(ns)),
    };
    let fact = format!(
        "{} of the precise reads came within the same {tick} as the thread's read before",
        units::share(share)
    );
    if share >= COARSE_WORTH {
        format!(
            "{fact}: a coarse clock would have returned the same, and shorter times as 0 \
             (for time stamps try: clockscope run --clock coarse)"
        )
    } else {
        format!("{fact}: for the others a coarse clock would have returned a new value")
    }
}

/// A share of wall time or CPU time. The time of reads is elapsed time and may exceed the whole: by the
/// uncertainty of timing, and by the time that a hypervisor took the CPU away.
fn part_of(time_ns: u64, whole_ns: u64) -> String {
    let part = ratio(time_ns, whole_ns);
    if part <= 1.0 {
        units::share(part)
    } else if part <= UNCERTAIN {
        "about all".to_owned()
    } else {
        "more than all".to_owned()
    }
}

/// A labelled line; empty if `text` is empty.
pub(super) fn told(label: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { labelled(label, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_whose_time_is_not_known_are_not_in_the_time() {
        let row = |name: &str, calls, ns, timed| SyscallRow {
            name: name.to_owned(),
            calls,
            time_total_ns: ns,
            timed: Some(timed),
            time_avg_within_ps: (ns > 0).then_some(1),
            ..SyscallRow::default()
        };
        let syscalls = vec![row("read", 1_000, 70_000, 40), row("getppid", 3_000_000, 0, 40)];
        let report = TraceReport { syscalls, ..TraceReport::default() };
        let text = system_calls(&report);
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>().join(" "),
            "Calls: 3,001,000 system calls; 70 us without 3,000,000 calls whose time is not known; most: read 100 %"
        );
    }
}
