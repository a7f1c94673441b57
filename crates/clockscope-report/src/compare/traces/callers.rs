//! The places that read a clock, found again in another report.

use std::collections::{BTreeMap, BTreeSet};

use super::Matters;
use crate::answers;
use crate::callers::interval;
use crate::callers::sites::{Site, sites};
use clockscope_model::names::file_name;
use clockscope_model::trace::TraceReport;
use clockscope_model::trace_compare::{CallerChange, CallerSide, Change};

/// What makes a place the same in two reports. The machines, and the builds of the program, may differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Function, the file of the program or library without its folders, and the source file where both reports know
    /// it of every place of that name.
    Named(String, String, Option<String>),
    /// File, with its folders, and offset in it.
    Unnamed(String, u64),
    /// The callers are not known.
    Unknown,
}

/// Places of both reports, most reads first; `None` unless callers were sampled in both.
pub(super) fn compare(
    before: &TraceReport,
    after: &TraceReport,
    matters: Matters,
) -> Option<Vec<CallerChange>> {
    let unseen = [before, after].map(|report| report.callers.as_ref().map(interval::unseen));
    let [Some(unseen_before), Some(unseen_after)] = unseen else { return None };
    let (sites_before, sites_after) = (sites(before), sites(after));
    let vague = without_file(sites_before.iter().chain(&sites_after));
    let mut found: BTreeMap<Key, CallerChange> = BTreeMap::new();
    for (is_first, sites) in [(true, &sites_before), (false, &sites_after)] {
        for site in sites {
            let known = found.entry(key(site, &vague)).or_default();
            let side = if is_first { &mut known.before } else { &mut known.after };
            let is_most = !side.is_seen;
            add(side, site);
            if is_most {
                known.function.clone_from(&site.function);
                known.place.clone_from(&site.place);
            }
        }
    }
    let mut places: Vec<CallerChange> = found.into_values().collect();
    for place in &mut places {
        complete(&mut place.before, unseen_before, before);
        complete(&mut place.after, unseen_after, after);
        place.change = change(place, matters);
    }
    let share = |place: &CallerChange| place.before.share.0.max(place.after.share.0);
    places.sort_by(|a, b| share(b).total_cmp(&share(a)));
    Some(places)
}

/// Whether any place has no name: then it was found again by its offset.
pub(super) fn has_unnamed(report: &TraceReport) -> bool {
    let unnamed = |site: &Site| matches!(key(site, &BTreeSet::new()), Key::Unnamed(..));
    sites(report).iter().any(unnamed)
}

/// The function and the file of a frame that has a name.
fn name(site: &Site) -> Option<(String, String)> {
    let frame = site.frame.as_ref()?;
    let function = frame.function.as_ref()?.verbatim().trim();
    let module = frame.module.as_ref().map_or("", |module| module.verbatim());
    (!function.is_empty()).then(|| (function.to_owned(), file_name(module).to_owned()))
}

/// Names of which a source file is not known everywhere.
fn without_file<'a>(sites: impl Iterator<Item = &'a Site>) -> BTreeSet<(String, String)> {
    let is_vague = |site: &&Site| site.frame.as_ref().is_some_and(|frame| frame.file.is_none());
    sites.filter(is_vague).filter_map(name).collect()
}

fn key(site: &Site, vague: &BTreeSet<(String, String)>) -> Key {
    let Some(frame) = &site.frame else { return Key::Unknown };
    if let Some(name) = name(site) {
        let file = frame.file.as_ref().map(|file| file_name(file.verbatim()).to_owned());
        let file = file.filter(|_| !vague.contains(&name));
        return Key::Named(name.0, name.1, file);
    }
    let module = frame.module.as_ref().map_or("", |module| module.verbatim());
    // Where the function begins, if that is known: its calls are one place.
    Key::Unnamed(module.to_owned(), frame.start.unwrap_or(frame.address))
}

fn add(side: &mut CallerSide, site: &Site) {
    let (reads, low, high) = &mut side.reads;
    *reads += site.reads;
    *low += site.reads_between.0;
    *high += site.reads_between.1;
    side.is_seen = true;
}

/// Rates and shares from reads; `unseen` reads at most, if no stack was sampled there.
fn complete(side: &mut CallerSide, unseen: f64, report: &TraceReport) {
    if !side.is_seen {
        side.reads = (0.0, 0.0, unseen);
    }
    let all = answers::ratio(report.clock_reads.reads.max(1), 1).max(side.reads.0);
    let seconds = answers::ratio(report.wall_ns.max(1), 1) / 1e9;
    let each = |(value, low, high): (f64, f64, f64), whole: f64| {
        (value / whole, low / whole, high / whole)
    };
    side.per_second = each(side.reads, seconds);
    side.share = each(side.reads, all);
    side.share.2 = side.share.2.min(1.0);
}

/// How the reads of a place changed: as calls do, and beyond what the samples leave open.
fn change(place: &CallerChange, matters: Matters) -> Change {
    let (before, after) = (&place.before, &place.after);
    let apart = |a: (f64, f64, f64), b: (f64, f64, f64)| a.2 < b.1 || b.2 < a.1;
    if !apart(before.reads, after.reads) || !apart(before.per_second, after.per_second) {
        return Change::Same;
    }
    match (before.is_seen, after.is_seen) {
        (false, _) => Change::Came,
        (_, false) => Change::Went,
        _ => matters
            .change((before.reads.0, before.per_second.0), (after.reads.0, after.per_second.0)),
    }
}
