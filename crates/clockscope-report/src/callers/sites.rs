//! The lines to change: the places of the program that read a clock, most reads first.

use std::collections::{BTreeMap, HashMap, HashSet};

pub use super::advice::Advice;

use super::super::latency;
use super::{interval, wrappers};
use clockscope_model::callers::{CalledRow, Callers, FrameRow, StackRow};
use clockscope_model::trace::{SyscallRow, TraceReport, VdsoRow, Via};
use clockscope_model::{names, reads};
use clockscope_stats::order;
use clockscope_stats::timed::TIMED_MIN;

/// Share of same-tick reads from which on a coarse clock is recommended.
const COARSE_WORTH: f64 = 0.5;
/// Least share of all reads for which a call site gets advice: below, the gain would be too small.
const ADVICE_WORTH: f64 = 0.01;
/// Functions of programs that have a setting against these reads, by the beginnings of their names, with the
/// advice.
const KNOWN: [(&str, &str); 3] = [
    ("InstrStartNode", EXPLAIN),
    ("InstrStopNode", EXPLAIN),
    (
        "ngx_time_update",
        "nginx reads the clock once for each turn of its loop: timer_resolution in nginx.conf makes it \
         fewer, and times in the log coarser",
    ),
];
/// The timers of PostgreSQL's nodes.
const EXPLAIN: &str = "these time each node of a query that is explained, twice a row: EXPLAIN (ANALYZE, TIMING \
     OFF) counts rows without them; a coarse clock would say 0 or a whole tick";
/// Share of all reads from which on a language is named whose functions are unknown.
const UNREAD_WORTH: f64 = 0.05;
/// Share of reads followed by another from which on the two are called a pair.
const PAIR_WORTH: f64 = 0.5;
/// Longest time within a pair, in nanoseconds: a hundred times the cost of a read by system call. A longer
/// one may be the very time that the program measures.
const PAIR_GAP_NS: u64 = 10_000;

/// A place that reads a clock: the innermost function of the program itself, past those of the C library and
/// a language's own clock (see `wrappers`).
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Name of the function, or the file in brackets if the name is unknown; `None` for reads without known
    /// callers.
    pub function: Option<String>,
    /// `file:line` if known, otherwise the program's file with the offset in it as `addr2line` takes it;
    /// empty for code made at run time.
    pub place: String,
    /// Called functions, most reads first: `clock_gettime(MONOTONIC)`.
    pub called: Vec<String>,
    /// The language's clock functions that the place calls: `time.perf_counter`, in the order of first sight.
    pub through: Vec<String>,
    /// Frame of the place; `None` if the callers are unknown.
    pub frame: Option<FrameRow>,
    /// Reads; estimated from the samples.
    pub reads: f64,
    /// The ends of the 95 % interval of `reads`.
    pub reads_between: (f64, f64),
    /// Reads a second of wall time.
    pub per_second: f64,
    /// Share (0 to 1) of all clock reads of the run.
    pub share: f64,
    /// Time of these reads in nanoseconds, by the average of the called functions; `None` if not timed.
    pub time_ns: Option<f64>,
    /// Advice from the figures.
    pub advice: Vec<Advice>,
}

/// The places that read a clock, most reads first.
pub fn sites(report: &TraceReport) -> Vec<Site> {
    let Some(callers) = &report.callers else { return Vec::new() };
    let gathered = Gathered::of(callers);
    let follows = Follows::of(callers, &gathered);
    let all: f64 = gathered.sites.iter().map(|site| site.reads).sum();
    let all = all.max(report.clock_reads.reads as f64);
    let mut order = order::places(gathered.sites.len(), |a, b| {
        let (a, b) = (&gathered.sites[a], &gathered.sites[b]);
        b.reads.total_cmp(&a.reads).then_with(|| a.name.cmp(&b.name))
    });
    order.retain(|index| gathered.sites[*index].reads > 0.0);
    let site = |index: usize| {
        let place = &gathered.sites[index];
        let mut called: Vec<(usize, f64)> = place.rows.iter().map(|(r, n)| (*r, *n)).collect();
        order::by(&mut called, |a, b| b.1.total_cmp(&a.1));
        let seconds = report.wall_ns as f64 / 1e9;
        Site {
            function: place.name.0.clone(),
            place: place.name.1.clone(),
            called: called.iter().map(|(row, _)| names::called(&callers.called[*row])).collect(),
            through: place.through.clone(),
            frame: place.frame.clone(),
            reads: place.reads,
            reads_between: interval::of_reads(&place.rows, callers),
            per_second: if seconds > 0.0 { place.reads / seconds } else { 0.0 },
            share: place.reads / all,
            time_ns: time_ns(report, callers, &called),
            advice: if place.reads / all >= ADVICE_WORTH {
                advice(report, callers, &gathered, &follows, index)
            } else {
                Vec::new()
            },
        }
    };
    order.into_iter().map(site).collect()
}

/// Number of independent samples that the reads of the report have.
pub fn effective_samples(report: &TraceReport) -> f64 {
    let is_read = |row: &&CalledRow| reads::source(&row.name, row.clock.as_deref()).is_some();
    let called = report.callers.iter().flat_map(|callers| &callers.called);
    called.filter(is_read).map(|row| row.samples_effective).sum()
}

/// Share of the reads that are nearly all.
const NEARLY_ALL: f64 = 0.9;

/// Function and place; both empty if the callers are unknown.
type Name = (Option<String>, String);

/// A place and its reads.
#[derive(Debug)]
struct Place {
    name: Name,
    through: Vec<String>,
    frame: Option<FrameRow>,
    reads: f64,
    /// Reads by row of `called`.
    rows: BTreeMap<usize, f64>,
}

#[derive(Debug)]
struct Gathered {
    sites: Vec<Place>,
    /// Place of each stack; `None` if the stack is not one of a clock read.
    of_stacks: Vec<Option<usize>>,
}

impl Gathered {
    fn of(callers: &Callers) -> Gathered {
        let mut gathered = Gathered { sites: Vec::new(), of_stacks: Vec::new() };
        let mut known: HashMap<Name, usize> = HashMap::new();
        let wrapper = nameless_wrapper(callers);
        for stack in &callers.stacks {
            let row = callers.called.get(stack.called).filter(|row| is_read(row, stack, callers));
            let index = row.map(|row| {
                let frames = frames_of(stack, callers);
                let mut frame = wrappers::own_frame(&frames, row, stack.complete);
                let mut through = wrappers::asked_through(&frames, row);
                if let Some(wrapper) =
                    frame.filter(|_| wrapper.is_some() && wrapper == frame.map(name_of))
                {
                    frame = caller_of(&frames, wrapper).or(frame);
                    through = Some(name_of(wrapper).1);
                }
                let language = wrappers::unread_language(&frames, row);
                let code = language.map(|language| format!("{language} code"));
                let name = frame.map_or((code, String::new()), name_of);
                let calls = calls(stack);
                let index = *known.entry(name.clone()).or_insert(gathered.sites.len());
                if index == gathered.sites.len() {
                    let (frame, rows) = (frame.cloned(), BTreeMap::new());
                    let through = Vec::new();
                    gathered.sites.push(Place { name, through, frame, reads: 0.0, rows });
                }
                let place = &mut gathered.sites[index];
                place.reads += calls;
                place.through.extend(through.filter(|name| !place.through.contains(name)));
                *place.rows.entry(stack.called).or_default() += calls;
                index
            });
            gathered.of_stacks.push(index);
        }
        gathered
    }
}

/// The place of a function without a name that makes nearly all reads for several others: in a stripped static program,
/// the C library's or Rust's own function.
fn nameless_wrapper(callers: &Callers) -> Option<Name> {
    let mut reads: HashMap<Name, (f64, HashSet<Name>)> = HashMap::new();
    let mut all = 0.0;
    for stack in &callers.stacks {
        let Some(row) = callers.called.get(stack.called) else { continue };
        let frames = frames_of(stack, callers);
        let own = wrappers::own_frame(&frames, row, stack.complete);
        if let Some(own) = own.filter(|_| is_read(row, stack, callers)) {
            all += calls(stack);
            // Only of machine code in a file is it known where a function without a name begins.
            if own.function.is_none() && own.start.is_some() {
                let known = reads.entry(name_of(own)).or_default();
                known.0 += calls(stack);
                // A stack that is cut there tells no caller.
                known.1.extend(caller_of(&frames, own).map(name_of));
            }
        }
    }
    let is_one = |(calls, by): &(f64, HashSet<_>)| *calls > NEARLY_ALL * all && by.len() > 1;
    reads.into_iter().find(|(_, found)| is_one(found)).map(|(name, _)| name)
}

fn caller_of<'a>(frames: &[&'a FrameRow], of: &FrameRow) -> Option<&'a FrameRow> {
    frames.iter().skip_while(|frame| !std::ptr::eq(**frame, of)).nth(1).copied()
}

/// Whether a stack is one of a clock read. A system call made by the vDSO is a read already counted as a vDSO call.
pub(super) fn is_read(row: &CalledRow, stack: &StackRow, callers: &Callers) -> bool {
    let first = stack.frames.first().and_then(|index| callers.frames.get(*index));
    let by_vdso =
        first.is_some_and(|frame| frame.module.as_ref().is_some_and(|module| *module == "[vdso]"));
    reads::source(&row.name, row.clock.as_deref()).is_some()
        && !(row.via == Via::Syscall && by_vdso)
}

pub(super) fn frames_of<'a>(stack: &StackRow, callers: &'a Callers) -> Vec<&'a FrameRow> {
    stack.frames.iter().filter_map(|index| callers.frames.get(*index)).collect()
}

/// Languages of interpreters whose functions are not in the stacks of [`UNREAD_WORTH`] of the reads: fewer are those of an
/// interpreter that starts.
pub(super) fn unread_languages(callers: &Callers) -> Vec<&'static str> {
    let (mut all, mut unread) = (0.0, BTreeMap::<&str, f64>::new());
    for stack in &callers.stacks {
        let row = callers.called.get(stack.called).filter(|row| is_read(row, stack, callers));
        let Some(row) = row else { continue };
        all += stack.calls;
        if let Some(language) = wrappers::unread_language(&frames_of(stack, callers), row) {
            *unread.entry(language).or_default() += stack.calls;
        }
    }
    unread.retain(|_, calls| *calls > UNREAD_WORTH * all);
    unread.into_keys().collect()
}

fn name_of(frame: &FrameRow) -> Name {
    (Some(names::frame(frame)), place(frame))
}

fn place(frame: &FrameRow) -> String {
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => format!("{file}:{line}"),
        (Some(file), None, _) => file.printable(),
        // All reads of a function are one place where its lines are not known.
        (None, _, Some(module)) if frame.address > 0 && frame.function.is_none() => {
            format!("{module}+{:#x}", frame.start.unwrap_or(frame.address))
        }
        (None, _, Some(module)) if !module.verbatim().starts_with('[') => module.printable(),
        _ => String::new(),
    }
}

/// Reads followed by other reads, by the first and the second place.
#[derive(Debug)]
struct Follows {
    pairs: BTreeMap<(usize, usize), Followed>,
}

/// Reads of a place that are followed by reads of another.
#[derive(Debug, Default)]
struct Followed {
    reads: f64,
    /// Times between the two in nanoseconds, with the number of reads that each stands for.
    gaps: Vec<(u64, f64)>,
}

impl Follows {
    fn of(callers: &Callers, gathered: &Gathered) -> Follows {
        let mut follows = Follows { pairs: BTreeMap::new() };
        for pair in &callers.pairs {
            let place = |index: usize| gathered.of_stacks.get(index).copied().flatten();
            let (Some(first), Some(second)) = (place(pair.first), place(pair.second)) else {
                continue;
            };
            let (of_first, of_second) = (&callers.stacks[pair.first], &callers.stacks[pair.second]);
            let clock = |stack: &StackRow| clock_of(&callers.called[stack.called]);
            if clock(of_first).is_none() || clock(of_first) != clock(of_second) {
                continue;
            }
            let followed = calls(of_first) * pair.share.clamp(0.0, 1.0);
            let known = follows.pairs.entry((first, second)).or_default();
            known.reads += followed;
            known.gaps.push((pair.gap_ns, followed));
        }
        follows
    }

    /// The place that most often follows `first`: the number of followed reads, the median time between, and
    /// the place.
    fn most_often(&self, first: usize) -> Option<(f64, u64, usize)> {
        let of_first = self.pairs.range((first, 0)..=(first, usize::MAX));
        of_first
            .max_by(|a, b| a.1.reads.total_cmp(&b.1.reads))
            .map(|((_, second), known)| (known.reads, median(&known.gaps), *second))
    }

    /// Whether most of the `reads` of a place directly follow those of one other place.
    fn is_mostly_second(&self, second: usize, reads: f64) -> bool {
        self.pairs.iter().any(|((_, place), known)| {
            *place == second
                && known.reads >= PAIR_WORTH * reads
                && median(&known.gaps) <= PAIR_GAP_NS
        })
    }

    /// Reads of a place that came within the same tick as the previous read, by the known pairs.
    fn within_tick(&self, second: usize, tick_ns: u64) -> f64 {
        let before = self.pairs.iter().filter(|((_, place), _)| *place == second);
        before
            .flat_map(|(_, known)| &known.gaps)
            .map(|(gap, reads)| reads * (1.0 - *gap as f64 / tick_ns as f64).max(0.0))
            .sum()
    }
}

/// The clock that a row reads; `None` if unknown.
fn clock_of(row: &CalledRow) -> Option<&str> {
    match row.name.as_str() {
        "gettimeofday" | "time" => Some("CLOCK_REALTIME"),
        _ => row.clock.as_deref(),
    }
}

/// Whether a coarse clock could answer instead.
fn is_precise(row: &CalledRow) -> bool {
    reads::has_coarse_form(&row.name, row.clock.as_deref())
}

fn advice(
    report: &TraceReport,
    callers: &Callers,
    gathered: &Gathered,
    follows: &Follows,
    index: usize,
) -> Vec<Advice> {
    let place = &gathered.sites[index];
    if place.name.0.is_none() {
        return Vec::new();
    }
    let mut advice = Vec::new();
    let function = place.name.0.as_deref().unwrap_or_default();
    if let Some((_, known)) = KNOWN.iter().find(|(start, _)| function.starts_with(start)) {
        advice.push(Advice::Known { advice: known });
        return advice;
    }
    let most = place.rows.iter().max_by(|a, b| a.1.total_cmp(b.1));
    advice.extend(most.and_then(|(row, _)| by_kernel(report, &callers.called[*row])));
    let tick_ns = report.clock_reads.tick_ns;
    let share = same_tick(report, callers, place).max(if tick_ns > 0 {
        (follows.within_tick(index, tick_ns) / place.reads).min(1.0)
    } else {
        0.0
    });
    let precise: f64 = precise_reads(callers, place);
    // The program may measure the time between two successive reads: a coarse clock would then return 0.
    if let Some((followed, gap_ns, second)) = follows.most_often(index) {
        let share = (followed / place.reads).min(1.0);
        if share >= PAIR_WORTH && gap_ns <= PAIR_GAP_NS {
            let with = (second != index).then(|| described(&gathered.sites[second].name));
            advice.push(Advice::Merge { share, gap_ns, with });
            return advice;
        }
    }
    if follows.is_mostly_second(index, place.reads) {
        return advice;
    }
    if share >= COARSE_WORTH && precise >= place.reads / 2.0 && tick_ns > 0 {
        advice.push(Advice::Coarse { share, tick_ns });
    }
    advice
}

fn described((function, place): &Name) -> String {
    let function = function.as_deref().unwrap_or("a caller that is not known");
    match names::file_name(place) {
        "" => function.to_owned(),
        place => format!("{function} ({place})"),
    }
}

/// Advice on reads answered by the kernel.
fn by_kernel(report: &TraceReport, row: &CalledRow) -> Option<Advice> {
    match row.via {
        Via::Syscall => {
            let enough = syscall_row(report, row).filter(|found| found.calls >= TIMED_MIN);
            let each_ps = enough.map_or(0, |found| found.time_avg_ps);
            return Some(Advice::PastVdso { each_ps });
        }
        Via::Vdso => {}
        Via::Unknown => return None,
    }
    let found = vdso_row(report, row)?;
    let each_ps = if found.has_time() { found.time_avg_ps } else { 0 };
    if latency::is_by_syscall(found, report) {
        return Some(Advice::FallenBack { each_ps });
    }
    let clock = found.clock.clone().filter(|clock| clock.starts_with("CLOCK_"))?;
    let never = found.timed > 0 && !latency::stays_in_user_space(found);
    never.then_some(Advice::AlwaysKernel { clock, each_ps })
}

/// Least share of a place's precise reads that came within the same tick as the previous read. The share is
/// known for all precise reads together only; in the worst case all reads of other places are in it.
fn same_tick(report: &TraceReport, callers: &Callers, place: &Place) -> f64 {
    let precise_rows = callers.called.iter().filter(|row| row.via == Via::Vdso && is_precise(row));
    let all: f64 = precise_rows.map(|row| row.calls as f64).sum();
    let own = precise_reads(callers, place);
    match report.clock_reads.same_tick_share {
        Some(known) if known.is_finite() && own > 0.0 => {
            let part = (own / all.max(own)).min(1.0);
            ((known - (1.0 - part)) / part).clamp(0.0, 1.0)
        }
        _ => 0.0,
    }
}

fn precise_reads(callers: &Callers, place: &Place) -> f64 {
    let precise = place.rows.iter().filter(|(row, _)| is_precise(&callers.called[**row]));
    precise.map(|(_, reads)| reads).sum()
}

fn time_ns(report: &TraceReport, callers: &Callers, rows: &[(usize, f64)]) -> Option<f64> {
    rows.iter().try_fold(0.0, |sum, (row, reads)| {
        let average = average_ps(report, &callers.called[*row])?;
        Some(sum + reads * average as f64 / 1e3)
    })
}

/// Average time of a call in picoseconds; `None` if no call was timed.
pub(super) fn average_ps(report: &TraceReport, row: &CalledRow) -> Option<u64> {
    match row.via {
        Via::Syscall => {
            syscall_row(report, row).map(|found| found.time_avg_ps).filter(|ps| *ps > 0)
        }
        Via::Vdso => {
            vdso_row(report, row).filter(|found| found.has_time()).map(|found| found.time_avg_ps)
        }
        Via::Unknown => None,
    }
}

fn vdso_row<'a>(report: &'a TraceReport, row: &CalledRow) -> Option<&'a VdsoRow> {
    report.vdso.iter().find(|found| found.function == row.name && found.clock == row.clock)
}

fn syscall_row<'a>(report: &'a TraceReport, row: &CalledRow) -> Option<&'a SyscallRow> {
    report.syscalls.iter().find(|found| found.name == row.name)
}

pub(super) fn calls(stack: &StackRow) -> f64 {
    if stack.calls.is_finite() { stack.calls.max(0.0) } else { 0.0 }
}

fn median(values: &[(u64, f64)]) -> u64 {
    quantile(values, 0.5)
}

/// The value below which this part (0 to 1) of the weights lies; 0 if there are no values.
pub(super) fn quantile(values: &[(u64, f64)], part: f64) -> u64 {
    let mut sorted = values.to_vec();
    order::by_key(&mut sorted, |(value, _)| *value);
    let wanted = part * sorted.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut passed = 0.0;
    let reaches = |(_, weight): &&(u64, f64)| {
        passed += weight;
        passed >= wanted
    };
    sorted.iter().find(reaches).or(sorted.last()).map_or(0, |(value, _)| *value)
}

#[cfg(test)]
mod tests;
