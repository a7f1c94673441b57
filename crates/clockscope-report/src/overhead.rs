//! The line about the cost of counting, and the notes on how the times were taken.

use super::costs::total;
use super::entries;
use clockscope_model::trace::{BySites, TraceReport, Way};
use clockscope_stats::timed::TIMED_MIN;
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// How times were taken; empty if there are no notes.
pub(super) fn how_timed(report: &TraceReport) -> String {
    let mut notes = Vec::new();
    let calls = total(report.vdso.iter().map(|row| row.calls));
    let timed = total(report.vdso.iter().map(|row| row.timed));
    if calls > 0 && timed == 0 {
        notes.push("no vDSO call was timed".to_owned());
    } else if calls > timed {
        let [timed, calls] = [timed, calls].map(units::count);
        notes.push(format!("of vDSO calls estimated: {timed} of {calls} were timed"));
    }
    let uncertain = report.vdso.iter().filter(|row| row.time_uncertain).count() as u64;
    if uncertain > 0 {
        notes.push(format!(
            "too few calls of {} were timed to say what one costs ({TIMED_MIN} alike are needed)",
            units::counted(uncertain, "function", "functions")
        ));
    }
    notes.extend(how_syscalls_were_timed(report));
    let subtracted = [
        (report.overhead.vdso_bracket_ps, "vDSO call"),
        (report.overhead.syscall_subtracted_ps, "system call"),
    ];
    notes.extend(subtracted.iter().filter(|(ps, _)| *ps > 0).map(|(ps, of)| {
        format!("{}, the cost of timing a {of}, is subtracted from its time", units::picos(*ps))
    }));
    notes.join("; ")
}

/// How times of system calls were taken; `None` if all were timed.
fn how_syscalls_were_timed(report: &TraceReport) -> Option<String> {
    let calls = total(report.syscalls.iter().map(|row| row.calls));
    let by_sites = report.via == Some(Way::Sites);
    let timed = total(report.syscalls.iter().filter_map(|row| row.timed));
    if calls == 0 || !by_sites && entries::were_timed(&report.syscalls) {
        None
    } else if by_sites && timed > 0 {
        let [timed, calls] = [timed, calls].map(units::count);
        Some(format!("of system calls estimated: {timed} of {calls} were timed"))
    } else if by_sites {
        Some("system calls were counted without time".to_owned())
    } else {
        Some("system calls were counted without time and errors".to_owned())
    }
}

/// The counts by code in the program compared with the kernel's; empty without both.
pub(super) fn compared(report: &TraceReport) -> String {
    let rows = &report.by_sites;
    if rows.is_empty() {
        return String::new();
    }
    let sites = total(rows.iter().map(|row| row.sites));
    let kernel = total(rows.iter().map(|row| row.kernel));
    let of = |row: &BySites, part: u64, whole: u64| {
        format!("{} {} of {}", printable(&row.name), units::count(part), units::count(whole))
    };
    let differ = rows.iter().filter(|row| row.sites != row.kernel);
    let differ: Vec<String> = differ.map(|row| of(row, row.sites, row.kernel)).collect();
    let [sites, kernel] = [sites, kernel].map(units::count);
    let calls = format!("{sites} of {kernel} calls are counted by code in the program");
    let mut text = if differ.is_empty() {
        format!("{calls}, each number as the kernel counts it")
    } else {
        format!("{calls}; not equal: {}", differ.join(", "))
    };
    let errors: Vec<String> = rows
        .iter()
        .filter_map(|row| Some((row, row.errors?)))
        .filter(|(row, errors)| row.sites == row.kernel && *errors != row.kernel_errors)
        .map(|(row, errors)| of(row, errors, row.kernel_errors))
        .collect();
    if !errors.is_empty() {
        text += &format!("; errors not equal: {}", errors.join(", "));
    }
    labelled("By sites", &text)
}

/// The cost of counting system calls, as a clause without a label.
pub(super) fn what_it_cost(report: &TraceReport) -> String {
    let overhead = &report.overhead;
    let syscalls = total(report.syscalls.iter().map(|row| row.calls));
    match report.via {
        Some(Way::Bpf) if overhead.syscall_probe_ps > 0 => {
            let all = u128::from(overhead.syscall_probe_ps) * u128::from(syscalls);
            format!(
                "{} a system call by eBPF, {} in all; {} on each of every other process of this host",
                units::picos(overhead.syscall_probe_ps),
                units::picos_wide(all),
                units::picos(overhead.bystander_tax_ps)
            )
        }
        Some(Way::Bpf) => {
            "system calls were counted by eBPF, which every process of this host paid for"
                .to_owned()
        }
        Some(Way::Ptrace) => "system calls were counted by ptrace, which stops the program twice \
             for each and costs it tens of microseconds"
            .to_owned(),
        Some(Way::Sites) => {
            let is_known = report.syscalls.iter().all(|row| row.errors.is_some());
            let errors =
                if is_known { "" } else { ", which did not see what all of them returned" };
            format!("system calls were counted by code in the program{errors}")
        }
        Some(Way::None) | None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::SyscallRow;

    fn by_sites(timed: u64) -> TraceReport {
        let row = SyscallRow {
            name: "read".to_owned(),
            calls: 5000,
            errors: Some(0),
            time_total_ns: 2 * timed,
            timed: Some(timed),
            ..SyscallRow::default()
        };
        TraceReport { via: Some(Way::Sites), syscalls: vec![row], ..TraceReport::default() }
    }

    #[test]
    fn it_is_said_how_many_calls_estimates_are_made_from() {
        let notes = how_timed(&by_sites(80));
        assert_eq!(notes, "of system calls estimated: 80 of 5,000 were timed");
        assert_eq!(how_timed(&by_sites(0)), "system calls were counted without time");
        let by_kernel = TraceReport { via: Some(Way::Bpf), ..by_sites(80) };
        assert_eq!(how_timed(&by_kernel), "");
        let untimed = TraceReport { via: Some(Way::Bpf), ..by_sites(0) };
        assert_eq!(how_timed(&untimed), "system calls were counted without time and errors");
    }
}
