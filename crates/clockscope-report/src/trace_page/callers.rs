//! Who makes the calls: the flame graph, and how far it is to be trusted.

use std::collections::HashMap;

use super::super::answers::ratio;
use super::super::callers::sites::{Site, sites};
use super::super::chart::flame::{Bar, Flame};
use super::super::chart::palette::Colour;
use super::super::chart::quantity::Unit;
use super::super::declines;
use super::super::page::{Cell, FlameView, Page, Table};
use super::flame_tree::{FlameTree, UNKNOWN};
use super::{sentence, warn};
use clockscope_model::callers::Callers;
use clockscope_model::trace::TraceReport;
use clockscope_text::foreign::{Foreign, printable};
use clockscope_text::units::{count, counted, rate, share};

/// Places in the table.
const SITES_MAX: usize = 40;
/// Places of which the advice is given.
const ADVISED_MAX: usize = 10;
/// Colours by their number in the view; the style sheet has the same.
const COLOURS: [Colour; UNKNOWN + 1] = [
    Colour::Faint,
    Colour::Blue,
    Colour::Green,
    Colour::Purple,
    Colour::Orange,
    Colour::Sky,
    Colour::Faint,
    Colour::Vermillion,
    Colour::Grid,
];

/// The section; nothing if callers were not asked for.
pub(super) fn section(page: &mut Page, report: &TraceReport) {
    let Some(callers) = &report.callers else { return };
    page.section("Who makes the calls");
    if callers.stacks.is_empty() {
        page.paragraph("No stack was sampled, so that nothing is known of the callers.");
    } else {
        flame(page, report, callers);
        lines_to_change(page, &sites(report));
    }
    quality(page, callers);
}

fn flame(page: &mut Page, report: &TraceReport, callers: &Callers) {
    let names: HashMap<i32, &Foreign> =
        report.processes_detail.iter().map(|p| (p.pid, &p.command)).collect();
    let program = |pid: i32| match names.get(&pid).filter(|name| !name.is_empty()) {
        None => format!("process {pid}"),
        Some(name) => name.printable(),
    };
    let (view, modules) = FlameTree::new(callers, &program).view();
    let picture = picture(&view).draw();
    page.flame(&view, &picture, &conclusion(report), &reading(&modules));
}

/// The picture for readers without script.
fn picture(view: &FlameView) -> Flame {
    let whole = view.frames.first().map_or(1, |frame| frame.2.max(1));
    // Where the next frame of each level begins, in calls.
    let mut ends: Vec<u64> = Vec::new();
    let mut bars = Vec::with_capacity(view.frames.len());
    for (depth, name, calls) in &view.frames {
        let level = *depth as usize;
        let start = ends.get(level).copied().unwrap_or(0);
        ends.resize(level + 1, start);
        ends[level] = start.saturating_add(*calls);
        // Its first callee begins where it begins.
        ends.push(start);
        bars.push(Bar {
            level: *depth,
            start: ratio(start, whole),
            share: ratio(*calls, whole),
            name: view.names[*name].clone(),
            colour: COLOURS[view.colour_of[*name]],
        });
    }
    Flame { title: "Callers of the clock functions".to_owned(), bars }
}

/// The place that reads the clock most, if it is known.
fn conclusion(report: &TraceReport) -> String {
    let busiest = sites(report).into_iter().find_map(|site| Some((site.function?, site.share)));
    match busiest {
        Some((name, part)) => {
            format!("{} makes {} of the clock reads.", printable(&name), share(part))
        }
        None => "No caller that reads the clock is known by name.".to_owned(),
    }
}

/// How to read it, and what the colours mean.
fn reading(modules: &[String]) -> String {
    let colours = ["blue", "green", "purple", "orange", "light blue"];
    let mut legend: Vec<String> =
        modules.iter().zip(colours).map(|(module, colour)| format!("{colour}: {module}")).collect();
    legend.push("red: what is called".to_owned());
    format!(
        "Each bar is a function, as wide as its share of the calls; above it is its caller, below \
         it what it calls. Colours are files ({}).",
        legend.join(", ")
    )
}

/// The places of the program that read a clock, and what the figures advise for them.
fn lines_to_change(page: &mut Page, sites: &[Site]) {
    if sites.is_empty() {
        return;
    }
    page.subheading("The lines to change");
    let columns = ["function", "reads/s", "share", "time", "place", "calls"];
    let mut table = Table::new("Places that read a clock, most reads first", &columns);
    table = table.words(&[4, 5]).sorted_by(1);
    let name =
        |site: &Site| site.function.as_deref().map_or_else(|| "not known".to_owned(), printable);
    for site in sites.iter().take(SITES_MAX) {
        let per_second = rate(site.per_second).unwrap_or_else(|| "?".to_owned());
        let time = site.time_ns.filter(|ns| ns.is_finite());
        table.cells(vec![
            Cell::from(name(site)),
            Cell::number(per_second, site.per_second),
            Cell::number(share(site.share), site.share),
            time.map_or_else(
                || Cell::from("-".to_owned()),
                |ns| Cell::number(Unit::Nanos.text(ns), ns),
            ),
            Cell::from(printable(&site.place)),
            Cell::from(printable(&site.called.join(", "))),
        ]);
    }
    page.table(&table);
    let more = sites.len().saturating_sub(SITES_MAX);
    if more > 0 {
        page.paragraph(&format!("{more} more places are left out; --format json has all stacks."));
    }
    let advised = sites.iter().take(ADVISED_MAX).flat_map(|site| {
        let name = name(site);
        site.advice.iter().map(move |advice| printable(&format!("{name}: {}.", advice.sentence())))
    });
    page.list(&advised.collect::<Vec<_>>());
}

fn quality(page: &mut Page, callers: &Callers) {
    let calls: u64 = callers.called.iter().fold(0, |sum, row| sum.saturating_add(row.calls));
    let mut sentences = vec![format!(
        "{} were sampled ({} a second aimed at), and stand for {}; {}, \
         how they are shared among the callers is estimated.",
        counted(callers.samples, "stack", "stacks"),
        callers.freq,
        counted(calls, "call", "calls"),
        if callers.called.iter().any(|row| row.estimated) {
            "system calls were not counted, so that their numbers are estimates"
        } else {
            "the numbers of calls are exact"
        },
    )];
    if callers.cost_share > 0.0 && callers.cost_share.is_finite() {
        let cost = share(callers.cost_share);
        sentences
            .push(format!("Sampling cost {cost} of the program's processor time (estimated)."));
    }
    if callers.lost > 0 {
        let lost = counted(callers.lost, "sample was", "samples were");
        sentences.push(format!("{lost} lost, because clockscope did not read them in time."));
    }
    page.list(&sentences);
    let mut table = Table::new("Stacks that end early", &["why", "in", "samples"]).words(&[1]);
    for cut in &callers.cut {
        let module = cut.module.as_ref().map_or_else(|| "-".to_owned(), Foreign::printable);
        table.row(vec![printable(&cut.reason), module, count(cut.samples)]);
    }
    page.table(&table);
    let (unnamed, unsampled): (Vec<_>, Vec<_>) =
        callers.declines.iter().cloned().partition(|row| row.what == "names");
    for (heading, rows) in [("Callers not sampled", unsampled), ("Callers not named", unnamed)] {
        let said: Vec<String> =
            declines::sentences(&rows).iter().map(|said| sentence(said)).collect();
        warn(page, heading, &said);
    }
}
