//! Default output keeps to 80 columns for every report.

use crate::columns::{self, Column};
use crate::options::{CallersOptions, SortBy};
use clockscope_model::trace::Clock;
use clockscope_text::foreign::Foreign;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use clockscope_model::callers::{
    CalledRow, Callers, CutRow, FrameKind, FrameRow, PairRow, StackRow,
};
use clockscope_model::trace::{
    ByKernel, ClockPageReport, ClockReads, DeclineRow, Latency, Missing, Overhead, SyscallRow,
    VdsoRow, Verdict, Via, Way, WhatIf,
};
use clockscope_text::lines::width;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000_u64, 0..10_000_000_000_u64, any::<u64>()]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{1,20}", "[A-Z_]{1,60}", ".{0,30}", "\\PC{0,300}"]
}

prop_compose! {
    fn latencies()(
        (p50, p90, p99, max) in (number(), number(), number(), number()),
        buckets in vec((number(), number()), 0..6),
    ) -> Latency {
        Latency { p50, p90, p99, max, buckets }
    }
}

prop_compose! {
    fn vdso()(
        function in prop_oneof![Just("clock_gettime".to_owned()), word()],
        clock in option::of(prop_oneof![Just("CLOCK_MONOTONIC".to_owned()), word()]),
        (calls, timed, time_total_ns, time_avg_ps) in (number(), number(), number(), number()),
        latency_ns in option::of(latencies()),
        time_uncertain in any::<bool>(),
    ) -> VdsoRow {
        VdsoRow {
            function, clock, calls, timed, time_total_ns, time_avg_ps, time_uncertain, latency_ns,
            time_avg_within_ps: None,
        }
    }
}

prop_compose! {
    fn syscalls()(
        name in word(),
        (number, calls, errors) in (any::<u32>(), number(), option::of(number())),
        (time_total_ns, time_avg_ps) in (number(), number()),
        (latency_ns, waits) in (option::of(latencies()), any::<bool>()),
    ) -> SyscallRow {
        SyscallRow {
            name,
            number,
            calls,
            errors,
            time_total_ns,
            time_avg_ps,
            latency_ns,
            waits,
            ..SyscallRow::default()
        }
    }
}

prop_compose! {
    fn reads()(
        (reads, passed_on, time_ns, by_syscall_ns) in (number(), number(), number(), number()),
        (syscall_read_ps, typical_hpet_ns, typical_acpi_pm_ns) in (number(), number(), number()),
        reads_per_second in any::<f64>(),
        same_tick_share in option::of(any::<f64>()),
        tick_ns in number(),
        (clocksource_reads, clocksource_passed_on) in (number(), number()),
        too_few_timed in any::<bool>(),
    ) -> ClockReads {
        ClockReads {
            reads, passed_on, reads_per_second, time_ns, by_syscall_ns, syscall_read_ps, typical_hpet_ns,
            typical_acpi_pm_ns, same_tick_share, tick_ns, clocksource_reads, clocksource_passed_on, too_few_timed,
        }
    }
}

prop_compose! {
    fn decline()(
        (pid, command) in (any::<i32>(), word()),
        what in prop_oneof![Just(Missing::Vdso), Just(Missing::Syscalls), Just(Missing::Callers), Just(Missing::Names), Just(Missing::Unknown)],
        reason in word(),
    ) -> DeclineRow {
        DeclineRow { pid, command: command.into(), what, reason }
    }
}

prop_compose! {
    fn detail()(
        (pid, command) in (any::<i32>(), word()),
        (vdso_calls, syscall_calls) in (number(), number()),
        vdso in vec(vdso(), 0..3),
        syscalls in vec(syscalls(), 0..3),
        tids in vec(any::<i32>(), 0..2),
    ) -> ProcessDetail {
        let threads = tids.into_iter()
            .map(|tid| ThreadDetail { tid, name: command.clone().into(), vdso: vdso.clone(), syscalls: syscalls.clone() })
            .collect();
        ProcessDetail { pid, parent: None, command: command.clone().into(), title: command.into(), vdso_calls, syscall_calls: Some(syscall_calls), vdso, syscalls, threads, ..ProcessDetail::default() }
    }
}

prop_compose! {
    fn page_answers()(
        ordered: bool,
        (reads, answered, lines) in (number(), number(), number()),
        (worst_bound_ns, answered_ns) in (number(), number()),
        (number, reason, by_kernel) in (any::<u32>(), word(), number()),
    ) -> ClockPageReport {
        let by_kernel = vec![ByKernel { number, reason, reads: by_kernel }];
        let withdrawals = Vec::new();
        ClockPageReport {
            ordered, reads, answered, by_kernel, lines, worst_bound_ns, answered_ns, withdrawals,
        }
    }
}

prop_compose! {
    fn what_if()(
        from_ratio: bool,
        (read_ps, cpu_ns) in (option::of(number()), option::of(number())),
        times_as_long in option::of(any::<f64>()),
    ) -> WhatIf {
        WhatIf { from_ratio, read_ps, cpu_ns, times_as_long }
    }
}

prop_compose! {
    fn verdict()(
        clock in prop_oneof!["kernel", "slow", "syscall", "coarse", "tsc", word()],
        (reads, time_ns, by_kernel_ns) in (number(), option::of(number()), number()),
        stale_ns in number(),
    ) -> Verdict {
        Verdict { clock, reads, time_ns, by_kernel_ns, stale_ns }
    }
}

prop_compose! {
    fn frame()(
        (function, module) in (option::of(word()), option::of(word())),
        (file, line) in (option::of(word()), option::of(any::<u32>())),
        address in number(),
    ) -> FrameRow {
        let foreign = |text: Option<String>| text.map(Foreign::from);
        FrameRow {
            function: foreign(function),
            module: foreign(module),
            address,
            file: foreign(file),
            line,
            start: None,
            kind: FrameKind::Native,
        }
    }
}

prop_compose! {
    fn stack()(
        (called, pid) in (0..3_usize, any::<i32>()),
        frames in vec(0..6_usize, 0..12),
        (samples, calls) in (number(), prop_oneof![any::<f64>(), 0.0..1e9_f64]),
        complete: bool,
    ) -> StackRow {
        StackRow { called, pid, frames, samples, calls, complete }
    }
}

prop_compose! {
    fn callers()(
        (samples, lost, freq) in (number(), number(), any::<u32>()),
        called in vec(
            (prop_oneof![Just(Via::Vdso), Just(Via::Syscall), Just(Via::Unknown)], prop_oneof!["clock_gettime", word()], option::of(word()), number(), number())
                .prop_map(|(via, name, clock, calls, samples)| {
                    let samples_effective = samples as f64 / 2.0;
                    let estimated = calls % 2 == 0;
                    CalledRow { via, name, clock, calls, samples, samples_effective, estimated }
                }),
            0..4,
        ),
        frames in vec(frame(), 0..6),
        stacks in vec(stack(), 0..12).boxed(),
        pairs in vec(
            (0..12_usize, 0..12_usize, number(), any::<f64>(), number()).prop_map(
                |(first, second, samples, share, gap_ns)| {
                    PairRow { first, second, samples, share, gap_ns }
                },
            ),
            0..4,
        ).boxed(),
        cut in vec(
            (word(), option::of(word()), number())
                .prop_map(|(reason, module, samples)| CutRow { reason, module: module.map(Foreign::from), samples }),
            0..6,
        ).boxed(),
        declines in vec(decline(), 0..3),
        cost_share in any::<f64>(),
    ) -> Callers {
        Callers { samples, lost, freq, called, frames, stacks, pairs, cut, declines, cost_share, waits: None, stripped: Vec::new() }
    }
}

prop_compose! {
    fn reports()(
        command in vec(word(), 0..4),
        (exit_code, signal) in (any::<Option<i32>>(), any::<Option<i32>>()),
        (wall_ns, cpu_ns, processes, threads) in (number(), number(), number(), number()),
        via in option::of(prop_oneof![Just(Way::Bpf), Just(Way::Ptrace), Just(Way::Sites), Just(Way::None)]),
        vdso in vec(vdso(), 0..5),
        syscalls in vec(syscalls(), 0..5),
        clock_reads in reads().boxed(),
        processes_detail in vec(detail(), 0..3).boxed(),
        declines in vec(decline(), 0..12),
        (syscall_probe_ps, bystander_tax_ps, syscall_subtracted_ps, vdso_bracket_ps)
            in (number(), number(), number(), number()),
        (clock_page, what_if, verdict) in
            (option::of(page_answers()), option::of(what_if()), option::of(verdict())).boxed(),
        callers in option::of(callers()).boxed(),
    ) -> TraceReport {
        TraceReport {
            timeline: Vec::new(),
            by_sites: Vec::new(),
            callers,
            attached: Vec::new(),
            clock_page,
            host: None,
            queued_ns: wall_ns,
            throttled_ns: wall_ns,
            slow_because: Some("hpet".repeat(50)),
            what_if,
            verdict,
            schema: 1, command: command.into_iter().map(Foreign::from).collect(), exit_code, signal, wall_ns, cpu_ns, processes, threads, via, vdso,
            syscalls, clock_reads, processes_detail, declines,
            overhead: Overhead {
                syscall_probe_ps, bystander_tax_ps, syscall_subtracted_ps, vdso_bracket_ps,
            },
        }
    }
}

fn options() -> impl Strategy<Value = TextOptions> {
    let sort = prop_oneof![
        Just(SortBy::Time),
        Just(SortBy::Calls),
        Just(SortBy::Errors),
        Just(SortBy::Name)
    ];
    let clocks =
        [Clock::Kernel, Clock::Syscall, Clock::Coarse, Clock::Slow, Clock::Tsc, Clock::TscFast];
    let clock = proptest::sample::select(clocks.to_vec());
    (sort, clock, any::<[bool; 4]>()).prop_map(|(sort, clock, flags)| {
        let [per_process, per_thread, summary_only, latency] = flags;
        let columns = columns::DEFAULT.to_vec();
        TextOptions {
            sort,
            columns,
            per_process,
            per_thread,
            summary_only,
            latency,
            clock,
            ..TextOptions::default()
        }
    })
}

proptest! {
    #[test]
    fn no_line_is_wider_than_80_columns(report in reports(), options in options()) {
        let text = render(&report, &options);
        prop_assert!(text.ends_with('\n'));
        for line in text.lines() {
            prop_assert!(width(line) <= WIDTH, "{} columns: {line:?}", width(line));
            prop_assert!(!line.ends_with(' '), "{line:?}");
            prop_assert!(!line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn any_choice_of_columns_prints_every_row(
        report in reports(),
        columns in proptest::sample::subsequence(
            [&columns::DEFAULT[..], &[Column::P50, Column::P90, Column::P99, Column::Max]].concat(),
            1..=11,
        ).prop_shuffle(),
    ) {
        let has_shares = columns.contains(&Column::TimePercent);
        let options =
            TextOptions { columns, all: true, summary_only: true, ..TextOptions::default() };
        let mut bare = report;
        bare.declines.clear();
        bare.callers = None;
        let rows = bare.vdso.iter().filter(|row| row.calls > 0).count()
            + bare.syscalls.iter().filter(|row| row.calls > 0).count();
        let waits = bare.syscalls.iter().any(|row| row.calls > 0 && row.waits);
        let legend = usize::from(has_shares && waits);
        let expected = if rows == 0 { 1 } else { rows + 4 + legend };
        prop_assert_eq!(render(&bare, &options).lines().count(), expected);
    }
}

#[test]
fn names_are_cut_only_where_the_terminal_is_too_narrow() {
    let name = "a_call_with_a_name_of_sixty_columns_which_no_kernel_has_so_f";
    let mut row = samples::vdso("clock_gettime", None, 7, 7, 20_000);
    row.function = name.into();
    let report = TraceReport {
        command: vec![Foreign::from("program ".repeat(12).trim_end())],
        vdso: vec![row],
        ..TraceReport::default()
    };
    for (columns, is_whole) in [(60, false), (80, false), (109, true), (160, true)] {
        let defaults = TextOptions::default();
        let callers = CallersOptions { width: columns, ..defaults.callers };
        let text = render(&report, &TextOptions { callers, ..defaults });
        assert_eq!(text.contains(name), is_whole, "{columns}: {text}");
        let longest = text.lines().map(width).max();
        assert!(longest <= Some(columns.max(80)), "{columns}: {text}");
        let is_row = |line: &&str| line.contains(" vdso ");
        let rows: Vec<&str> = text.lines().filter(is_row).collect();
        assert!(rows.len() == 1 && width(rows[0]) <= columns, "{columns}: {text}");
    }
}
