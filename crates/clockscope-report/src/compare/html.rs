//! The comparison as a page.

use crate::chart::axis::Wish;
use crate::chart::palette::Colour;
use crate::chart::quantity::{Unit, digits};
use crate::chart::rows::{Group, Mark, Row, Rows, Side};
use crate::page::{Page, Table, Tone};
use clockscope_model::compare::{CompareReport, Comparison, SetRow, Verdict};
use clockscope_text::units::{count, counted};

#[cfg(test)]
mod tests;

/// More sentences than this are a wall.
const SENTENCES_MAX: usize = 12;

/// The report as one HTML document that needs no network and no script.
#[must_use]
pub fn render(report: &CompareReport) -> String {
    let files = files(report);
    let title = match files.as_slice() {
        [] => "A comparison of nothing".to_owned(),
        [one] => format!("{one} by itself"),
        [base, others @ ..] => format!("{base} against {}", others.join(", ")),
    };
    let mut page = Page::new(&title, "clockscope compare");
    let conclusion: Vec<String> =
        [&report.conclusion].into_iter().filter(|text| !text.is_empty()).cloned().collect();
    page.say(Tone::Conclusion, "In short", &conclusion);
    page.say(Tone::Warning, "The machines differ", &report.host_changes);
    page.say(Tone::Warning, "Bear in mind", &report.notes);
    changes(&mut page, report);
    values(&mut page, report);
    unmatched(&mut page, report);
    page.section("How it was compared");
    page.paragraph(&method(report));
    page.paragraph("The same again, as a page:");
    page.command(&command(report, &files));
    page.finish()
}

/// The files, in the order in which they appear.
fn files(report: &CompareReport) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for set in &report.sets {
        if !files.contains(&set.file.as_str()) {
            files.push(&set.file);
        }
    }
    files
}

/// The unit of values on axes and in tables.
fn unit(report: &CompareReport) -> Unit {
    match report.unit.as_str() {
        "ps" => Unit::Picos,
        "ns" => Unit::Nanos,
        other => Unit::Plain(other.to_owned()),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "no change that matters",
        Verdict::NotProven => "no difference proven",
        Verdict::TooFew => "too few samples",
    }
}

/// Faster and slower are told apart by hue and by the side they are on; the rest is grey.
fn colour(verdict: Verdict) -> Colour {
    match verdict {
        Verdict::Faster => Colour::Blue,
        Verdict::Slower => Colour::Vermillion,
        Verdict::Same => Colour::Ink,
        Verdict::NotProven | Verdict::TooFew => Colour::Faint,
    }
}

/// What tells a comparison from the others: its path, its file, or both.
fn subject(report: &CompareReport, comparison: &Comparison) -> String {
    let other = other_file(report, comparison);
    let has_many = files(report).len() > 2;
    match &comparison.path {
        Some(path) if has_many => format!("{path} in {other}"),
        Some(path) => path.clone(),
        None => other.to_owned(),
    }
}

/// The same for a picture: what stands once beside a group of rows, and the label of the row.
fn group_and_label(report: &CompareReport, comparison: &Comparison) -> (String, String) {
    let other = other_file(report, comparison).to_owned();
    let has_many = files(report).len() > 2;
    match comparison.path.as_deref().map(|path| (path, path.rsplit_once(" by "))) {
        Some((path, _)) if has_many => (path.to_owned(), other),
        Some((_, Some((clock, "none")))) => (clock.to_owned(), String::new()),
        Some((_, Some((clock, route)))) => (clock.to_owned(), route.to_owned()),
        Some((path, None)) => (path.to_owned(), String::new()),
        None => (other, String::new()),
    }
}

fn other_file<'a>(report: &'a CompareReport, comparison: &Comparison) -> &'a str {
    report.sets.get(comparison.other).map_or("?", |set| set.file.as_str())
}

/// The section with the shift of each comparison.
fn changes(page: &mut Page, report: &CompareReport) {
    page.section("What changed");
    if report.comparisons.is_empty() {
        page.paragraph("There is nothing to compare.");
        return;
    }
    let mut groups: Vec<Group> = Vec::new();
    for comparison in &report.comparisons {
        let (name, label) = group_and_label(report, comparison);
        let Some((shift, low, high)) = comparison.change_with_interval() else { continue };
        let mut marks = Vec::new();
        if let Some((low, high)) = comparison.decision_percent {
            marks.push(Mark::Span(low, high, Colour::Faint));
        }
        marks.push(Mark::Interval(low, shift, high, colour(comparison.verdict)));
        let row = Row { label, value: Unit::Percent.signed(shift), marks };
        match groups.last_mut().filter(|group| group.name == name) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name, rows: vec![row] }),
        }
    }
    let better = if report.higher_is_better { "larger is better" } else { "smaller is better" };
    let rows = Rows {
        title: "Shift of each set against the first, in percent, with its interval".to_owned(),
        axis: format!("shift in percent; {better}"),
        unit: Unit::Percent,
        wish: Wish::FromZero,
        groups,
        band: Some((-report.min_effect_percent, report.min_effect_percent)),
        markers: vec![(0.0, "no change".to_owned())],
    };
    let reading = format!(
        "The dot is the Hodges-Lehmann shift, the line its {} % interval, the shaded band what is \
         too small to matter (\u{b1}{} %). A grey line is that interval widened to the changes between \
         any two launches. A change is proven to matter if all of it is outside the band.",
        digits(report.confidence_percent),
        digits(report.min_effect_percent)
    );
    page.figure(&rows.draw(), &tally(report), &reading);
    page.list(&sentences(report));
    page.table(&table(report));
}

/// The sentences of all comparisons; only those of changes and doubts if there are many.
fn sentences(report: &CompareReport) -> Vec<String> {
    let has_few = report.comparisons.len() <= SENTENCES_MAX;
    let all = report.comparisons.iter();
    let told = all.filter(|c| has_few || c.verdict != Verdict::Same);
    let mut sentences: Vec<String> = told.map(|c| c.sentence.clone()).collect();
    let untold = report.comparisons.len() - sentences.len();
    sentences.retain(|sentence| !sentence.is_empty());
    if untold > 0 {
        sentences.push(format!("{untold} others: {}.", word(Verdict::Same)));
    }
    sentences
}

/// How many comparisons have each verdict, and the largest change.
fn tally(report: &CompareReport) -> String {
    let verdicts =
        [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::NotProven, Verdict::TooFew];
    let parts = verdicts.iter().filter_map(|verdict| {
        let number = report.comparisons.iter().filter(|c| c.verdict == *verdict).count();
        (number > 0).then(|| format!("{number} {}", word(*verdict)))
    });
    let parts: Vec<String> = parts.collect();
    let number = u64::try_from(report.comparisons.len()).unwrap_or(u64::MAX);
    let proven = report
        .comparisons
        .iter()
        .filter(|c| matches!(c.verdict, Verdict::Slower | Verdict::Faster))
        .filter_map(|c| Some((c, c.change()?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let largest = proven.map_or_else(String::new, |(comparison, shift)| {
        let name = subject(report, comparison);
        format!(" The largest proven change is that of {name}: {}.", Unit::Percent.signed(shift))
    });
    format!("Of {}: {}.{largest}", counted(number, "comparison", "comparisons"), parts.join(", "))
}

fn table(report: &CompareReport) -> Table {
    let unit = unit(report);
    let mut table = Table::new(
        "Each set against the first",
        &[
            "what",
            "verdict",
            "shift",
            "in percent, with interval",
            "Mann-Whitney p",
            "Welch p",
            "Cliff's delta",
        ],
    )
    .words(&[1]);
    for comparison in &report.comparisons {
        let what = subject(report, comparison);
        let percent = comparison.change_with_interval().map_or_else(
            || {
                let (low, high) = (comparison.shift_ci_low, comparison.shift_ci_high);
                format!("- (in the unit: {})", interval(&unit.signed(low), &unit.signed(high)))
            },
            |(shift, low, high)| format!("{} ({} to {})", digits(shift), digits(low), digits(high)),
        );
        let exact = if comparison.u_exact { ", exact" } else { "" };
        table.row(vec![
            what,
            word(comparison.verdict).to_owned(),
            unit.signed(comparison.shift),
            percent,
            format!("{}{exact}", probability(comparison.u_p)),
            comparison.welch_p.map_or_else(|| "-".to_owned(), probability),
            digits(comparison.cliff_delta),
        ]);
    }
    table
}

/// Two values as an interval, with the unit once if it is the same.
fn interval(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn probability(p: f64) -> String {
    if !p.is_finite() {
        "-".to_owned()
    } else if p < 0.0001 {
        "< 0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

/// The section with the values themselves.
fn values(page: &mut Page, report: &CompareReport) {
    page.section("The values");
    if report.sets.is_empty() {
        page.paragraph("There are no values.");
        return;
    }
    let unit = unit(report);
    page.figure(&strips(report, &unit).draw(), &medians(report, &unit), reading(report));
    let mut table = Table::new(
        "Each set by itself",
        &["set", "n", "minimum", "median", "its interval", "maximum", "mean", "sd"],
    );
    for set in &report.sets {
        let interval = interval(&unit.text(set.median_ci_low), &unit.text(set.median_ci_high));
        table.row(vec![
            set_name(set),
            count(set.n),
            unit.text(set.min),
            unit.text(set.median),
            interval,
            unit.text(set.max),
            unit.text(set.mean),
            unit.text(set.sd),
        ]);
    }
    page.table(&table);
}

fn set_name(set: &SetRow) -> String {
    match &set.path {
        Some(path) => format!("{path}, {}", set.file),
        None => set.file.clone(),
    }
}

/// The values of plain sets on one axis; those of paths beside the median of their first set, so
/// that cheap and dear paths can be seen together.
fn strips(report: &CompareReport, unit: &Unit) -> Rows {
    let files = files(report);
    let mut groups: Vec<Group> = Vec::new();
    let mut first = 0.0;
    for set in &report.sets {
        let index = files.iter().position(|file| *file == set.file).unwrap_or(0);
        let name = set.path.clone().unwrap_or_default();
        if groups.last().is_none_or(|group| group.name != name) {
            groups.push(Group { name, rows: Vec::new() });
            first = set.median;
        }
        let base = set.path.as_ref().map(|_| first).filter(|base| *base != 0.0);
        let row = strip(set, unit, base, Colour::of_series(index));
        groups.last_mut().into_iter().for_each(|group| group.rows.push(row.clone()));
    }
    let has_paths = has_paths(report);
    let axis = if has_paths { "distance from the median of the first file" } else { "value" };
    Rows {
        title: "The values of each set, with the median".to_owned(),
        axis: axis.to_owned(),
        wish: Wish::Linear,
        unit: if has_paths { Unit::Percent } else { unit.clone() },
        groups,
        band: None,
        markers: Vec::new(),
    }
}

fn has_paths(report: &CompareReport) -> bool {
    report.sets.iter().any(|set| set.path.is_some())
}

/// A set, as it is or in percent of `base`.
fn strip(set: &SetRow, unit: &Unit, base: Option<f64>, colour: Colour) -> Row {
    let place = |value: f64| base.map_or(value, |base| (value / base - 1.0) * 100.0);
    let (low, high) = (place(set.median_ci_low), place(set.median_ci_high));
    let median = Mark::Interval(low, place(set.median), high, colour);
    let values = set.values.iter().map(|value| place(*value)).collect();
    let marks = vec![Mark::Lane(values, Side::Above, colour), median];
    Row { label: set.file.clone(), value: unit.text(set.median), marks }
}

fn reading(report: &CompareReport) -> &'static str {
    if has_paths(report) {
        "Each row is a file: the higher the hill, the more values are there. The dot is the \
         median, with the ends of its interval; its value stands at the end of the row."
    } else {
        "Each row is a set: the higher the hill, the more values are there. The dot is the \
         median, with the ends of its interval."
    }
}

/// The medians of the first set and of the one furthest from it.
fn medians(report: &CompareReport, unit: &Unit) -> String {
    let furthest = report.comparisons.iter().max_by(|a, b| {
        let size = |c: &Comparison| c.change().map_or(0.0, f64::abs);
        size(a).total_cmp(&size(b))
    });
    let sets = furthest.and_then(|c| Some((report.sets.get(c.base)?, report.sets.get(c.other)?)));
    match (sets, report.sets.first()) {
        (Some((base, other)), _) => format!(
            "Furthest apart: the median of {} is {}, that of {} is {}.",
            set_name(base),
            unit.text(base.median),
            set_name(other),
            unit.text(other.median)
        ),
        (None, Some(set)) => {
            format!("The median of {} is {}.", set_name(set), unit.text(set.median))
        }
        (None, None) => String::new(),
    }
}

fn unmatched(page: &mut Page, report: &CompareReport) {
    if report.unmatched.is_empty() {
        return;
    }
    page.section("In one file only");
    let mut table = Table::new("Paths without a partner", &["file", "path"]).words(&[1]);
    for (file, path) in &report.unmatched {
        table.row(vec![file.clone(), path.clone()]);
    }
    page.table(&table);
}

fn method(report: &CompareReport) -> String {
    format!(
        "The shift is the median of all differences between a value of the other set and one of \
         the first (Hodges-Lehmann). Whether there is one is tested by Mann-Whitney's U, which \
         assumes nothing about the distribution; Welch's t stands beside it. Confidence {} %; the \
         smallest change that matters is {} % of the first set's median.",
        digits(report.confidence_percent),
        digits(report.min_effect_percent)
    )
}

/// The command that makes such a page.
fn command(report: &CompareReport, files: &[&str]) -> String {
    let mut command = "clockscope compare".to_owned();
    if report.higher_is_better {
        command.push_str(" --higher-is-better");
    }
    for (option, value, default) in [
        ("--confidence", report.confidence_percent, 95.0),
        ("--min-effect", report.min_effect_percent, 1.0),
    ] {
        if (value - default).abs() > 1e-9 {
            command.push_str(&format!(" {option} {value}"));
        }
    }
    for file in files {
        command.push(' ');
        command.push_str(&quoted(file));
    }
    command + " --format html -o compare.html"
}

/// A file name as a shell wants it.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/+,:=@%".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}
