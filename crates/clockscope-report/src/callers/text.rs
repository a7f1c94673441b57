//! Callers as text: a tree of callers for each function, and the lines to change.

use clockscope_stats::order;
use std::mem::{Discriminant, discriminant};

use super::super::declines;
use super::sites::{self, Advice, Site};
use super::tree::{Classes, Tree};
use super::wrappers;
use crate::costs::{total, whole};
use crate::options::CallersOptions;
use clockscope_model::callers::{CalledRow, Callers, CutRow, Waits};
use clockscope_model::names;
use clockscope_model::trace::{DeclineRow, Missing, TraceReport};
use clockscope_text::foreign::{Foreign, printable};
use clockscope_text::lines::{cut_left, cut_middle, labelled_in, width as columns, wrapped};
use clockscope_text::names::listed as first_of;
use clockscope_text::units;

/// Number of trees in a short report.
const TREES: usize = 6;
/// Share of all calls from which on a function has a tree in a short report.
const TREE_WORTH: f64 = 0.01;
/// Largest number of call sites listed before the last one.
const SITES: usize = 9;
/// Number of call sites in the first lines, the share of the reads from which on a further one is there, and the column
/// where they begin.
const WHO: usize = 3;
const WHO_WORTH: f64 = 0.05;
const WHO_INDENT: usize = 14;
/// The limit of names in JavaScript.
const INLINED_BY_V8: &str = "of functions that V8 has inlined, the outermost is named; node \
     --no-turbo-inlining makes all of them seen, and the program slower";
/// Stands for the name of callers that are not known.
const UNKNOWN: &str = "callers not known";
/// Independent samples below which no order of the call sites is named.
const STACKS_LEAST: f64 = 20.0;
/// Share of the reads that the listed call sites have, if so few have it.
const SITES_NAMED: f64 = 0.95;
/// Number of reasons for cut stacks that are named.
const REASONS: usize = 4;
/// Number of functions without a tree that are named.
const OTHERS: usize = 6;
/// Columns in front of the text of a call site.
const INDENT: usize = 4;

/// The section on callers; empty if the report has none.
pub fn render(report: &TraceReport, options: CallersOptions) -> String {
    let Some(callers) = &report.callers else { return String::new() };
    let width = options.width;
    let mut out = labelled_in("Callers", &sampled(callers), width);
    if let Some(cut) = cut(callers) {
        out += &labelled_in("Cut stacks", &cut, width);
    }
    let (unnamed, unsampled): (Vec<DeclineRow>, Vec<DeclineRow>) =
        callers.declines.iter().cloned().partition(|row| row.what == Missing::Names);
    out += &declines::labelled("Not sampled", &unsampled, width);
    let languages = sites::unread_languages(callers);
    if !languages.is_empty() {
        let text =
            format!("lines of {}: clockscope does not know its frames", languages.join(", "));
        out += &labelled_in("Not known", &text, width);
    }
    out += &declines::labelled("Not named", &unnamed, width);
    if callers.frames.iter().any(|frame| wrappers::is_in(frame, "[javascript]")) {
        out += &labelled_in("Inlined", INLINED_BY_V8, width);
    }
    // Symbols of an interpreter would name none of the program's lines.
    let is_of_use = |sentence: &&String| {
        let file = sentence.split(' ').next().unwrap_or_default();
        wrappers::language_of(file).is_none()
    };
    for (index, sentence) in callers.stripped.iter().filter(is_of_use).enumerate() {
        let label = if index == 0 && unnamed.is_empty() { "Not named" } else { "" };
        out += &labelled_in(label, &printable(sentence), width);
    }
    let (trees, notes) = trees(report, callers, options);
    out + &trees + &notes
}

/// Number of stacks and calls, and the cost of sampling.
fn sampled(callers: &Callers) -> String {
    let calls = total(callers.called.iter().map(|row| row.calls));
    let calls = number_of(calls, callers.called.iter().any(|row| row.estimated));
    let lost = match callers.lost {
        0 => String::new(),
        lost => format!("; {} lost", units::counted(lost, "more was", "more were")),
    };
    if callers.samples == 0 {
        return format!("no stack was sampled, of {calls}{lost}");
    }
    /// Least cost that is told, as a share of the CPU time.
    const COST_LEAST: f64 = 1e-4;
    let mut text =
        format!("{} sampled of {calls}", units::counted(callers.samples, "stack", "stacks"),);
    if callers.freq > 0 {
        text += &format!(", at most {} a second", units::count(callers.freq.into()));
    }
    if callers.lost > 0 {
        text += &format!("{lost}, because they came too fast");
    }
    text += &rough(callers);
    if callers.cost_share.is_finite() && callers.cost_share >= COST_LEAST {
        text += &format!("; sampling took about {} of CPU", units::share(callers.cost_share));
    }
    if let Some(waits) = &callers.waits {
        text += &format!("; {}", waited(waits));
    }
    text
}

/// Cost of reading an interpreter's frames for its threads.
fn waited(waits: &Waits) -> String {
    let mut text =
        format!("Python's threads waited {}", units::counted(waits.count, "time", "times"));
    if let Some(mean) = waits.mean_ns {
        text += &format!(", {} each", units::nanos(mean));
    }
    if waits.missed > 0 {
        let one = "stack was not read in time and is left out";
        let many = "stacks were not read in time and are left out";
        text += &format!("; {}", units::counted(waits.missed, one, many));
    }
    text
}

/// The clause that shares are rough, if the most called function has too few effective samples.
fn rough(callers: &Callers) -> String {
    const ENOUGH: f64 = 30.0;
    const COST_MOST: f64 = 0.015;
    let most = callers.called.iter().filter(|row| row.samples > 0).max_by_key(|row| row.calls);
    let is_rough = |row: &&CalledRow| {
        row.samples < row.calls && row.samples_effective > 0.0 && row.samples_effective < ENOUGH
    };
    match most.filter(is_rough) {
        Some(row) => {
            // More samples would take more than sampling may.
            let more = if callers.cost_share < COST_MOST { ", or raise --freq" } else { "" };
            format!(
                "; shares are rough: those of {} say as much as {:.0} that stand for equally many \
                 calls (let it run longer{more})",
                names::called(row),
                row.samples_effective
            )
        }
        None => String::new(),
    }
}

/// A number of calls, with "about" if it is an estimate.
fn number_of(calls: u64, estimated: bool) -> String {
    let calls = units::counted(calls, "call", "calls");
    if estimated { format!("about {calls}") } else { calls }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.join(""),
    }
}

/// The number of stacks that do not reach the first function of their thread, with reasons; `None` if all do.
fn cut(callers: &Callers) -> Option<String> {
    let by_reason = total(callers.cut.iter().map(|row| row.samples));
    let short = callers.stacks.iter().filter(|stack| !stack.complete);
    let by_stack = total(short.map(|stack| stack.samples));
    let samples = by_reason.max(by_stack);
    if samples == 0 {
        return None;
    }
    let reason = |row: &CutRow| {
        let module = row.module.as_ref().map(Foreign::printable);
        let place = module.map(|module| format!(" in {}", names::file_name(&module)));
        let place = place.unwrap_or_default();
        format!("{}{place}: {}", units::count(row.samples), printable(&row.reason))
    };
    let mut reasons: Vec<String> = callers.cut.iter().take(REASONS).map(reason).collect();
    let named = total(callers.cut.iter().take(REASONS).map(|row| row.samples));
    if samples > named && named > 0 {
        reasons.push(format!("{} otherwise", units::count(samples - named)));
    }
    let reasons =
        if reasons.is_empty() { "no reason is known".to_owned() } else { reasons.join("; ") };
    let [cut, all] = [samples, callers.samples.max(samples)].map(units::count);
    Some(format!("{cut} of {all} end before the first function of their thread ({reasons})"))
}

/// The trees, and the notes on them.
fn trees(report: &TraceReport, callers: &Callers, options: CallersOptions) -> (String, String) {
    let classes = Classes::of(callers);
    let (mut out, mut others) = (String::new(), Vec::new());
    let (mut drawn, mut library, mut starters) = (0, Vec::new(), false);
    let all = total(callers.called.iter().map(|row| row.calls));
    let called = &callers.called;
    for index in order::places(called.len(), |a, b| called[b].calls.cmp(&called[a].calls)) {
        let row = &callers.called[index];
        let tree = Tree::of(callers, index, &classes);
        let is_worth = drawn == 0 || row.calls as f64 >= TREE_WORTH * all as f64;
        let is_drawn = options.whole || (is_worth && drawn < TREES);
        let lines = if is_drawn { tree.render(options) } else { String::new() };
        if lines.is_empty() {
            if row.calls > 0 {
                others.push(row);
            }
            continue;
        }
        drawn += 1;
        starters |= tree.without_starters;
        if tree.through_library > 0.0 && !library.contains(&row.name) {
            library.push(row.name.clone());
        }
        out += &format!("\n{}\n{lines}", head(row, report.wall_ns, options.width));
    }
    (out, notes(&library, starters, &others, options))
}

/// The called function with the number of calls; with fewer figures if they do not fit.
fn head(row: &CalledRow, wall_ns: u64, width: usize) -> String {
    let name = names::called(row);
    let calls = format!(": {}", number_of(row.calls, row.estimated));
    let rate = units::rate(per_second(row.calls, wall_ns)).filter(|_| wall_ns > 0);
    let rate = rate.map(|rate| format!(", {rate} a second")).unwrap_or_default();
    let stacks = format!(" ({})", units::counted(row.samples, "stack", "stacks"));
    let figures = [format!("{calls}{rate}{stacks}"), format!("{calls}{rate}"), calls];
    let fits = |figures: &&String| columns(&name) + columns(figures) <= width;
    let figures = figures.iter().find(fits).unwrap_or(&figures[2]);
    let room = width.saturating_sub(columns(figures)).max(16);
    cut_middle(&format!("{}{figures}", cut_middle(&name, room)), width)
}

fn per_second(calls: u64, wall_ns: u64) -> f64 {
    calls as f64 * 1e9 / wall_ns as f64
}

/// Notes: frames left out of the trees, and functions without a tree.
fn notes(
    library: &[String],
    starters: bool,
    others: &[&CalledRow],
    options: CallersOptions,
) -> String {
    let width = options.width;
    let mut out = String::new();
    let mut left_out = Vec::new();
    if !library.is_empty() {
        left_out.push(format!("the C library's own {}", printable(&listed(library))));
    }
    if starters {
        left_out.push("what starts programs and threads".to_owned());
    }
    if options.whole && !left_out.is_empty() {
        let what = left_out.join(", and ");
        let text = format!("{what}, in these trees; --format json, folded and pprof have them");
        out += &labelled_in("Left out", &text, width);
    }
    if !others.is_empty() {
        let named: Vec<String> = others
            .iter()
            .map(|row| {
                let stacks = units::counted(row.samples, "stack", "stacks");
                let calls = number_of(row.calls, row.estimated);
                format!("{} ({calls}, {stacks})", names::called(row))
            })
            .collect();
        out += &labelled_in("Without tree", &first_of(&named, OTHERS), width);
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// The call sites that read most, a line each; empty if the report has no callers.
pub fn who(report: &TraceReport, sites: &[Site], options: CallersOptions) -> String {
    let width = options.width;
    let stacks = sites::effective_samples(report);
    if has_no_order(sites, stacks) {
        let text = format!("too few stacks ({stacks:.0}) to say who reads most: run it longer");
        return labelled_in("Who", &text, width);
    }
    let is_shown = |(index, site): &(usize, &Site)| *index == 0 || site.share >= WHO_WORTH;
    let shown: Vec<&Site> =
        sites.iter().enumerate().take(WHO).take_while(is_shown).map(|(_, site)| site).collect();
    let shares: Vec<String> =
        shown.iter().map(|site| units::share(site.share) + &within(site)).collect();
    let column = shares.iter().map(|share| columns(share)).max().unwrap_or_default();
    let row = |(site, share): (&&Site, &String)| {
        let pad = column - columns(share);
        let room = width.saturating_sub(WHO_INDENT + column + 2);
        let place = match site.frame.as_ref().and_then(|frame| frame.line) {
            Some(_) => format!("  {}", printable(names::file_name(&site.place))),
            None => String::new(),
        };
        let name = printable(site.function.as_deref().unwrap_or(UNKNOWN));
        let name = wrappers::fitted(&name, room.saturating_sub(columns(&place)).max(room / 2));
        format!("{share}{:pad$}  {}\n", "", cut_middle((name + &place).trim_end(), room))
    };
    let rows: Vec<String> = shown.iter().zip(&shares).map(row).collect();
    let begins = |(index, row): (usize, String)| {
        let label = if index == 0 { "Who:" } else { "" };
        format!("{label:WHO_INDENT$}{row}")
    };
    rows.into_iter().enumerate().map(begins).collect()
}

/// Whether the samples are too few to say which of the call sites reads most.
fn has_no_order(sites: &[Site], stacks: f64) -> bool {
    sites.len() > 1 && stacks < STACKS_LEAST
}

/// The call sites with most reads, with advice; empty if the report has no callers.
pub fn lines_to_change(report: &TraceReport, sites: &[Site], options: CallersOptions) -> String {
    let CallersOptions { width, whole, .. } = options;
    if sites.is_empty() || has_no_order(sites, sites::effective_samples(report)) {
        return String::new();
    }
    let mut out = "The line to change, by clock reads a second:\n".to_owned();
    let mut said = Vec::new();
    let shown = listed_sites(sites, whole);
    for (index, site) in sites.iter().take(shown).enumerate() {
        out += &entry(index + 1, site, report, &mut said, width);
    }
    let rest = sites.get(shown..).unwrap_or_default();
    if !rest.is_empty() {
        let share: f64 = rest.iter().map(|site| site.share).sum();
        let more = units::counted(rest.len() as u64, "more call site", "more call sites");
        let more = format!("{more} with {} of the reads", units::share(share));
        out += &wrapped(String::new(), INDENT, &more, width);
    }
    out
}

/// Half of the 95 % interval of a site's share, in points; empty below half a point.
fn within(site: &Site) -> String {
    let (low, high) = site.reads_between;
    let points = (high - low) / 2.0 * 100.0 * site.share / site.reads;
    // The figures may be those of a damaged file.
    if points >= 0.5 { format!(" ±{:.0}", points.min(100.0)) } else { String::new() }
}

/// How many call sites are listed: until most of the reads are named. A line about a single other site is no shorter
/// than the site.
fn listed_sites(sites: &[Site], whole: bool) -> usize {
    let mut named = 0.0;
    let is_wanted = |site: &&Site| {
        let is_wanted = whole || named < SITES_NAMED;
        named += site.share;
        is_wanted
    };
    let listed = sites.iter().take(SITES).take_while(is_wanted).count();
    if listed + 1 == sites.len() { sites.len() } else { listed }
}

/// A call site; advice of a kind in `said` takes its short form.
fn entry(
    number: usize,
    site: &Site,
    report: &TraceReport,
    said: &mut Vec<Discriminant<Advice>>,
    width: usize,
) -> String {
    let function = site.function.as_deref().unwrap_or(UNKNOWN);
    let prefix = format!("{:INDENT$}", format!("{number}."));
    let room = width.saturating_sub(INDENT);
    let place = printable(&site.place);
    let function = wrappers::fitted(function, room);
    let mut out = prefix + &function;
    // Function and place share a line if they fit.
    if !place.trim_end().is_empty() {
        let is_short = columns(&function) + columns(&place) + 2 <= room;
        let gap = if is_short { "  ".to_owned() } else { format!("\n{:INDENT$}", "") };
        out += &format!("{gap}{}", cut_left(place.trim_end(), room));
    }
    out.push('\n');
    let rate = units::rate(site.per_second).filter(|_| report.wall_ns > 0);
    let share = units::share(site.share) + &within(site);
    let mut facts = match rate {
        Some(rate) => format!("{rate} reads a second, {share} of all"),
        None => format!("{share} of all reads"),
    };
    facts += &format!(", of {}", listed(&site.called));
    if !site.through.is_empty() {
        facts += &format!(" by {}", listed(&site.through));
    }
    if let Some(ns) = site.time_ns.filter(|ns| ns.is_finite()) {
        if ns < site.reads {
            facts += "; less than 1 ns each";
        } else {
            facts += &format!("; about {}", units::nanos(whole(ns)));
        }
        let whole = [(report.cpu_ns, "CPU"), (report.wall_ns, "wall")];
        if let Some((whole, name)) = whole.into_iter().find(|(whole, _)| *whole > 0) {
            facts += &format!(", {} of {name}", units::share(ns / whole as f64));
        }
    }
    out += &wrapped(String::new(), INDENT, &facts, width);
    for advice in &site.advice {
        let is_old = said.contains(&discriminant(advice));
        let sentence = if is_old { advice.again() } else { advice.sentence() };
        said.push(discriminant(advice));
        let arrow = format!("{:INDENT$}->", "");
        out += &wrapped(arrow, INDENT + 3, &printable(&sentence), width);
    }
    out
}

#[cfg(test)]
mod tests;
