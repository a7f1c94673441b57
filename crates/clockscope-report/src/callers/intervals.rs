//! What a program measures: the times between two reads of a clock, by the lines that make them.

use std::collections::{BTreeMap, BTreeSet};

use super::sites::{self, frames_of};
use super::wrappers;
use crate::options::CallersOptions;
use clockscope_model::callers::{Callers, FrameRow, StackRow};
use clockscope_model::names;
use clockscope_model::trace::TraceReport;
use clockscope_stats::order;
use clockscope_text::lines::{cut_middle, labelled_in};
use clockscope_text::units;

/// Number of rows in a short report, and the least share of all followed reads that a row has there.
const ROWS: usize = 9;
const WORTH: f64 = 0.01;
/// Share of a median time from which on the clock's part is marked.
const MUCH: f64 = 0.1;
/// Samples below which a row is marked.
const FEW: u64 = 20;

/// The reads of one line that are followed by reads of another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// The lines of the first and of the second read.
    pub lines: [String; 2],
    /// The clock that they read, without `CLOCK_`, or the function that reads it.
    pub clock: String,
    /// Number of reads of the first line that are followed by one of the second; estimated.
    pub reads: f64,
    /// Samples of the pair.
    pub samples: u64,
    /// Median, ninth decile and greatest sampled time between the two, in nanoseconds.
    pub gaps_ns: [u64; 3],
    /// Time of a read here, in nanoseconds; `None` if not timed.
    pub read_ns: Option<f64>,
    /// Times between the two, with the number of reads that each stands for.
    gaps: Vec<(u64, f64)>,
}

/// The pairs of lines, most reads first. A read of which the second is not known is left out.
pub fn intervals(report: &TraceReport) -> Vec<Interval> {
    let Some(callers) = &report.callers else { return Vec::new() };
    let mut found: BTreeMap<(usize, [Place; 2]), Interval> = BTreeMap::new();
    for pair in &callers.pairs {
        let stacks = [pair.first, pair.second].map(|index| callers.stacks.get(index));
        let [Some(first), Some(second)] = stacks else { continue };
        let [Some(from), Some(to)] = [first, second].map(|stack| place(stack, callers)) else {
            continue;
        };
        let Some(called) = callers.called.get(first.called) else { continue };
        if !sites::is_read(called, first, callers) {
            continue;
        }
        let reads = sites::calls(first) * pair.share.clamp(0.0, 1.0);
        let row = found.entry((first.called, [from, to])).or_default();
        row.clock = names::short_clock(called.clock.as_ref().unwrap_or(&called.name)).to_owned();
        row.reads += reads;
        row.samples += pair.samples;
        row.gaps.extend(pair.gaps_ns.iter().map(|gap| (*gap, reads)));
        row.read_ns = sites::average_ps(report, called).map(|ps| ps as f64 / 1e3);
    }
    // Several reads of one line are told apart by their addresses.
    let mut addresses: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (line, address) in found.keys().flat_map(|(_, places)| places) {
        addresses.entry(line).or_default().insert(*address);
    }
    let name = |(line, address): &Place| match addresses[line.as_str()].len() {
        1 => line.clone(),
        _ => format!("{line} at {address:#x}"),
    };
    let mut rows: Vec<Interval> = found
        .iter()
        .filter(|(_, row)| !row.gaps.is_empty())
        .map(|((_, places), row)| Interval {
            lines: [name(&places[0]), name(&places[1])],
            gaps_ns: [0.5, 0.9, 1.0].map(|part| sites::quantile(&row.gaps, part)),
            ..row.clone()
        })
        .collect();
    order::by(&mut rows, |a, b| b.reads.total_cmp(&a.reads).then_with(|| a.lines.cmp(&b.lines)));
    rows
}

/// Function and line, and the address of the call in the file.
type Place = (String, u64);

/// The program's own place that reads the clock; without lines, the function and the address.
fn place(stack: &StackRow, callers: &Callers) -> Option<Place> {
    let row = callers.called.get(stack.called)?;
    let own = wrappers::own_frame(&frames_of(stack, callers), row, stack.complete)?;
    let name = names::frame(own);
    Some(match own {
        FrameRow { file: Some(file), line: Some(line), address, .. } => {
            (format!("{name} ({}:{line})", names::file_name(&file.printable())), *address)
        }
        FrameRow { module: Some(module), address, .. } if *address > 0 => {
            (format!("{name} ({}+{address:#x})", names::file_name(&module.printable())), *address)
        }
        _ => (name, 0),
    })
}

impl Interval {
    /// The part (0 to 1) of the median time that is the clock's if a read takes this long; `None` if unknown.
    fn share_of_clock(&self, read_ns: Option<f64>) -> Option<f64> {
        let (here, there) = (self.read_ns?, read_ns?);
        let program = (self.gaps_ns[0] as f64 - here).max(0.0);
        (there > 0.0).then(|| there / (program + there))
    }

    fn figures(&self, report: &TraceReport, hpet_ns: Option<f64>) -> String {
        let rate = units::rate(self.reads * 1e9 / report.wall_ns as f64).unwrap_or_default();
        let [p50, p90, longest] = self.gaps_ns.map(units::nanos);
        let parts = [self.read_ns, hpet_ns].map(|ns| self.share_of_clock(ns));
        let [here, there] = parts.map(|part| part.map(units::share).unwrap_or_default());
        let mut marks = Vec::new();
        marks.extend(parts[0].filter(|share| *share >= MUCH).map(|_| "measures the clock"));
        marks.extend((self.samples < FEW).then_some("few samples"));
        let row = format!("{rate:>8} {p50:>9} {p90:>9} {longest:>9} {here:>8} {there:>8}");
        format!("{row}  {}", marks.join(", ")).trim_end().to_owned() + "\n"
    }
}

/// Columns in front of the lines of a pair.
const INDENT: usize = 4;
const HEAD: &str = "Times from one read of a clock to the next of the same thread, by lines:\n\
    a second       p50       p90   longest    clock  on hpet\n";

/// The table; a sentence if there are no pairs.
pub fn render(report: &TraceReport, options: CallersOptions) -> String {
    let rows = intervals(report);
    let all: f64 = rows.iter().map(|row| row.reads).sum();
    let is_shown = |(index, row): &(usize, &Interval)| {
        options.whole || *index == 0 || *index < ROWS && row.reads >= WORTH * all
    };
    let shown: Vec<&Interval> =
        rows.iter().enumerate().filter(is_shown).map(|(_, row)| row).collect();
    if shown.is_empty() {
        let text = "no two reads of one thread and clock were sampled: run it longer";
        return labelled_in("Intervals", text, options.width);
    }
    let reads = &report.clock_reads;
    let hpet_ns = (reads.clocksource_reads > 0)
        .then(|| reads.typical_hpet_ns as f64 / reads.clocksource_reads as f64);
    let mut out = HEAD.to_owned();
    for row in &shown {
        out += &row.figures(report, hpet_ns);
        let lines = format!("{} -> {}, {}", row.lines[0], row.lines[1], row.clock);
        out += &format!(
            "{:INDENT$}{}\n",
            "",
            cut_middle(&lines, options.width.saturating_sub(INDENT))
        );
    }
    let rest = rows.len() - shown.len();
    if rest > 0 {
        let more = units::counted(rest as u64, "more pair", "more pairs");
        out += &format!("{:INDENT$}{more} (--all)\n", "");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{frame, server, stack};
    use clockscope_model::callers::PairRow;

    /// A server whose two lines follow one another.
    fn pairs(pairs: &[PairRow]) -> TraceReport {
        let mut report = server();
        let callers = report.callers.as_mut().unwrap();
        let line = |at: u64, line| frame("serve", "/opt/app", at, Some(("/src/app.c", line)));
        callers.frames = vec![line(0x10, 7), line(0x20, 9), frame("lib", "/opt/app", 0x30, None)];
        callers.stacks = vec![
            stack(0, &[0], 100, 200_000.0),
            stack(0, &[1], 100, 200_000.0),
            stack(0, &[2], 1, 1.0),
        ];
        callers.pairs = pairs.to_vec();
        report
    }

    fn pair(first: usize, second: usize, share: f64, gaps_ns: &[u64]) -> PairRow {
        let gap_ns = gaps_ns.get(gaps_ns.len() / 2).copied().unwrap_or(0);
        PairRow { first, second, samples: 90, share, gap_ns, gaps_ns: gaps_ns.to_vec() }
    }

    #[test]
    fn a_pair_of_lines_has_its_reads_and_times() {
        let gaps: Vec<u64> = (0..=10).map(|tenth| 1000 + 100 * tenth).collect();
        let report = pairs(&[pair(0, 1, 0.75, &gaps), pair(1, 2, 0.5, &[30; 11])]);
        let rows = intervals(&report);
        let first = &rows[0];
        assert_eq!(first.lines, ["serve (app.c:7)", "serve (app.c:9)"]);
        assert_eq!(first.clock, "MONOTONIC");
        assert_eq!(
            (first.reads, first.samples, first.gaps_ns),
            (150_000.0, 90, [1500, 1900, 2000])
        );
        assert_eq!(first.read_ns, Some(24.0), "by the average of the called function");
        assert!((first.share_of_clock(first.read_ns).unwrap() - 24.0 / 1500.0).abs() < 1e-9);
        // The program's own part stays the same where a read takes longer.
        assert!((first.share_of_clock(Some(1476.0)).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(rows[1].lines, ["serve (app.c:9)", "lib (app+0x30)"]);
    }

    #[test]
    fn stacks_of_the_same_lines_are_one_pair_in_which_each_has_its_weight() {
        let report = pairs(&[pair(0, 1, 0.8, &[100; 11]), pair(0, 1, 0.2, &[900; 11])]);
        let rows = intervals(&report);
        assert_eq!((rows.len(), rows[0].gaps_ns), (1, [100, 900, 900]));
    }

    #[test]
    fn two_reads_of_one_line_are_two_places() {
        let mut report = pairs(&[pair(0, 1, 1.0, &[100; 11])]);
        let frames = &mut report.callers.as_mut().unwrap().frames;
        frames[1] = FrameRow { address: 0x20, ..frames[0].clone() };
        let lines = &intervals(&report)[0].lines;
        assert_eq!(lines, &["serve (app.c:7) at 0x10", "serve (app.c:7) at 0x20"]);
    }

    #[test]
    fn what_is_not_known_is_no_pair() {
        let unknown = pair(0, 1, 0.9, &[]);
        let absent = pair(0, 77, 0.9, &[5; 11]);
        assert_eq!(intervals(&pairs(&[unknown, absent])), []);
        assert_eq!(intervals(&TraceReport::default()), []);
        let mut no_clock = pairs(&[pair(0, 1, 1.0, &[5; 11])]);
        no_clock.callers.as_mut().unwrap().called[0].name = "getcpu".to_owned();
        no_clock.callers.as_mut().unwrap().called[0].clock = None;
        assert_eq!(intervals(&no_clock), []);
        let text = render(&pairs(&[]), CallersOptions::default());
        assert!(text.starts_with("Intervals:") && text.contains("run it longer"), "{text}");
    }

    #[test]
    fn the_table_marks_what_measures_the_clock() {
        let few = PairRow { samples: 3, ..pair(1, 0, 1.0, &[40; 11]) };
        let mut report = pairs(&[pair(0, 1, 1.0, &[5_000; 11]), few]);
        (report.clock_reads.clocksource_reads, report.clock_reads.typical_hpet_ns) = (100, 120_000);
        insta::assert_snapshot!(render(&report, CallersOptions::default()));
    }
}
