//! What the reader is to see first.

use super::super::chart::quantity::Unit;
use super::super::page::{Page, Tile, Tone};
use super::super::{answers, latency};
use super::{sentence, warn};
use clockscope_model::trace::{ClockReads, TraceReport};
use clockscope_text::units::{count, counted, nanos, picos_wide, rate, share};

/// The figures on top, what follows from them, and what is wrong.
pub(super) fn section(page: &mut Page, report: &TraceReport) {
    page.tiles(&tiles(report));
    let slow = latency::slow_clause(report);
    page.say(Tone::Conclusion, "In short", &conclusions(report, slow.is_some()));
    warn(page, "Slow reads", &slow.map(|clause| sentence(&clause)).into_iter().collect::<Vec<_>>());
}

fn tiles(report: &TraceReport) -> Vec<Tile> {
    let reads = &report.clock_reads;
    let tile =
        |name: &str, value: String, note: String| Tile { name: name.to_owned(), value, note };
    let per_second = match reads.reads_per_second {
        // More digits find no room.
        many if many >= 1e6 => Unit::PerSecond.text(many).replace("/s", ""),
        few => rate(few).unwrap_or_else(|| "?".to_owned()),
    };
    let mut tiles = vec![tile(
        "clock reads a second",
        per_second,
        format!("{} in {}, counted", count(reads.reads), nanos(report.wall_ns)),
    )];
    if reads.reads == 0 {
        return tiles;
    }
    if reads.time_ns > 0 {
        let of =
            if report.cpu_ns > 0 { (report.cpu_ns, "CPU time") } else { (report.wall_ns, "time") };
        if of.0 > 0 {
            let note = format!("{} of {}, estimated", nanos(reads.time_ns), nanos(of.0));
            let part = match answers::ratio(reads.time_ns, of.0) {
                part if part > 1.0 => "all".to_owned(),
                part => share(part),
            };
            tiles.push(tile(&format!("of the {}", of.1), part, note));
        }
        let each = answers::each(reads.time_ns, reads.reads);
        tiles.push(tile("a read, here", each, "measured".to_owned()));
    }
    if reads.by_syscall_ns > 0 && answers::is_answered_in_user_space(report) {
        let note = format!("measured; {} in all", nanos(reads.by_syscall_ns));
        let each = answers::each(reads.by_syscall_ns, reads.reads);
        tiles.push(tile("a read by system call, here", each, note));
    }
    for (ns, source) in fallen_back(reads) {
        let note = format!("typical, not measured; {} in all", nanos(ns));
        let each = answers::each(ns, reads.clocksource_reads);
        tiles.push(tile(&format!("a read, fallen back to {source}"), each, note));
    }
    tiles
}

/// Typical times of the reads that ask the clocksource, by slow clocksource, where this host has not fallen back itself.
fn fallen_back(reads: &ClockReads) -> Vec<(u64, &'static str)> {
    if answers::has_fallen_back(reads) {
        return Vec::new();
    }
    [(reads.typical_hpet_ns, "hpet"), (reads.typical_acpi_pm_ns, "acpi_pm")]
        .into_iter()
        .filter(|(ns, _)| *ns > 0)
        .collect()
}

fn conclusions(report: &TraceReport, is_slow: bool) -> Vec<String> {
    let reads = &report.clock_reads;
    let mut sentences = vec![ending(report)];
    if reads.reads == 0 {
        sentences.push("It read no clock.".to_owned());
        return sentences;
    }
    sentences.push(format!("Clock reads: {}.", answers::how_many(reads)));
    sentences.push(format!("Here they took {}.", answers::how_long(report)));
    if !is_slow {
        sentences.extend(elsewhere(report));
    }
    if let Some(part) = reads.same_tick_share.filter(|share| share.is_finite()) {
        sentences.push(sentence(&answers::same_tick(part, reads.tick_ns)));
    }
    sentences
}

/// How the run ended.
fn ending(report: &TraceReport) -> String {
    let end = match (report.signal, report.exit_code) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "still running at the end".to_owned(),
    };
    format!(
        "{} with {}, watched for {} ({} of CPU time): {end}.",
        counted(report.processes, "process", "processes"),
        counted(report.threads, "thread", "threads"),
        nanos(report.wall_ns),
        nanos(report.cpu_ns),
    )
}

/// What the same reads would take on a host that fell back, and how much more that is.
fn elsewhere(report: &TraceReport) -> Option<String> {
    let reads = &report.clock_reads;
    let sources = fallen_back(reads);
    if sources.is_empty() {
        return None;
    }
    // What all reads took here is no measure for some of them.
    let is_all = reads.clocksource_reads == reads.reads;
    let times = |ns: u64| match reads.time_ns {
        0 => String::new(),
        _ if !is_all => String::new(),
        here => format!(", {:.0} times as much", answers::ratio(ns, here)),
    };
    let clauses: Vec<String> = sources
        .iter()
        .map(|(ns, name)| {
            let ns_ps = u128::from(*ns) * 1_000;
            format!("{} where it fell back to {name}{}", picos_wide(ns_ps), times(*ns))
        })
        .collect();
    let which = if is_all {
        "the same reads".to_owned()
    } else {
        format!(
            "the {} that ask the clocksource",
            counted(reads.clocksource_reads, "read", "reads")
        )
    };
    Some(format!("On another host {which} would typically take {}.", clauses.join(", and ")))
}
