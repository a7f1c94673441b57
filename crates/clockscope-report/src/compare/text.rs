//! The comparison for people: plain sets with their plot, or a table of paths.

use super::numbers::{general, number, sign};
use super::spelling::spelled;
use super::{plot, sentence};
use clockscope_model::compare::{CompareReport, Comparison, SetRow, Verdict};
use clockscope_text::foreign::printable;
use clockscope_text::units;

/// What the text is fitted to.
const WIDTH: usize = 80;

/// The whole text; `plot_width` columns for the plot between its borders; with `all` paths, or those that changed.
pub fn render(report: &CompareReport, plot_width: usize, all: bool) -> String {
    let is_table = report.sets.iter().any(|set| set.path.is_some())
        && (report.comparisons.len() != 1 || report.sets.len() != 2);
    let mut blocks = if is_table { vec![paths(report, all)] } else { sets(report, plot_width) };
    blocks.push(notes(report));
    blocks.push(match report.comparisons.as_slice() {
        [only] => paragraph(&report.conclusion) + &details(only, report),
        _ => paragraph(&report.conclusion),
    });
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// What stands between the figures and the conclusion.
fn notes(report: &CompareReport) -> String {
    const SHOWN: usize = 5;
    let mut lines: Vec<String> = Vec::new();
    lines.extend(report.host_changes.iter().map(|clause| format!("Host: {clause}.")));
    lines.extend(report.notes.iter().map(|note| format!("Note: {note}")));
    let only = |(file, path): &(String, String)| format!("Only in {file}: {}.", spelled(path));
    lines.extend(report.unmatched.iter().take(SHOWN).map(only));
    if report.unmatched.len() > SHOWN {
        lines.push(format!("And {} more in one file only.", report.unmatched.len() - SHOWN));
    }
    lines.iter().map(|line| paragraph(line)).collect()
}

/// The text in lines of at most [`WIDTH`] columns, those after the first indented. A percent sign
/// stays with its number.
pub(super) fn paragraph(words: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    let words = printable(words).replace(" %", "\u{a0}%");
    for word in words.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text.replace('\u{a0}', " ")
}

/// Names, figures, plot and comparisons of plain sets, or of one path.
fn sets(report: &CompareReport, plot_width: usize) -> Vec<String> {
    let mut names = String::new();
    for (index, set) in report.sets.iter().enumerate() {
        let name = if set.file == "-" { "standard input" } else { &printable(&set.file) };
        let path = set.path.as_ref().map(|path| format!(", {}", spelled(path))).unwrap_or_default();
        names.push_str(&format!("{} {name}{path}\n", sign(index)));
    }
    let mut blocks = vec![names, figures(report), plot::draw(report, plot_width)];
    if report.comparisons.len() > 1 {
        let each = |comparison| {
            let comparison: &Comparison = comparison;
            paragraph(&comparison.sentence) + &details(comparison, report)
        };
        blocks.extend(report.comparisons.iter().map(each));
    }
    blocks
}

/// The table of figures, with as many digits, and columns, as fit.
fn figures(report: &CompareReport) -> String {
    let wanted = digits_to_tell_apart(&report.sets);
    let mut table = draw_figures(report, wanted, true);
    for digits in (4..wanted).rev() {
        if width_of(&table) <= WIDTH {
            break;
        }
        // The extremes are in the plot too.
        table = draw_figures(report, wanted, false);
        if width_of(&table) > WIDTH {
            table = draw_figures(report, digits, false);
        }
    }
    table
}

/// Digits that show the spread of the sets, not only what their values have in common.
fn digits_to_tell_apart(sets: &[SetRow]) -> usize {
    let digits = |set: &SetRow| {
        let largest = set.min.abs().max(set.max.abs());
        let ratio = if set.sd > 0.0 { (largest / set.sd).log10() } else { 0.0 };
        (3..12).find(|digits| f64::from(*digits) >= ratio + 2.0).unwrap_or(12)
    };
    let digits = sets.iter().map(digits).max().unwrap_or(6).clamp(6, 12);
    usize::try_from(digits).unwrap_or(6)
}

fn draw_figures(report: &CompareReport, digits: usize, all: bool) -> String {
    let confidence = general(report.confidence_percent, 6);
    let mut head = vec!["n".to_owned()];
    let figure = |value: f64| number(value, if report.unit == "ps" { "ps" } else { "" }, digits);
    let mut rows: Vec<Vec<String>> =
        report.sets.iter().map(|set| vec![set.n.to_string()]).collect();
    let mut add = |name: &str, of: &dyn Fn(&SetRow) -> String| {
        head.push(name.to_owned());
        for (row, set) in rows.iter_mut().zip(&report.sets) {
            row.push(if set.n == 0 { "-".to_owned() } else { of(set) });
        }
    };
    if all {
        add("min", &|set| figure(set.min));
    }
    add("median", &|set| figure(set.median));
    add(&format!("{confidence} % interval"), &|set| {
        let range = format!("{} to {}", figure(set.median_ci_low), figure(set.median_ci_high));
        let is_short = set.median_ci_percent + 1e-9 < report.confidence_percent;
        // Too few values for the confidence that was asked for.
        if is_short { format!("{range} ({:.0} %)", set.median_ci_percent) } else { range }
    });
    if all {
        add("max", &|set| figure(set.max));
    }
    add("mean", &|set| figure(set.mean));
    add("sd", &|set| number(set.sd, if report.unit == "ps" { "ps" } else { "" }, digits.min(6)));
    let mut text = aligned(&head, &rows, |index| format!("{} ", sign(index)), &[]);
    let outliers: Vec<String> = report
        .sets
        .iter()
        .enumerate()
        .filter(|(_, set)| set.outliers > 0)
        .map(|(index, set)| {
            format!("{} {}", sign(index), units::counted(set.outliers, "outlier", "outliers"))
        })
        .collect();
    if !outliers.is_empty() {
        text.push_str(&format!("  (beyond 1.5 box lengths: {})\n", outliers.join(", ")));
    }
    text
}

fn width_of(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// A table with columns as wide as their widest cell: right-aligned, but those in `left`.
fn aligned(
    head: &[String],
    rows: &[Vec<String>],
    prefix: impl Fn(usize) -> String,
    left: &[usize],
) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |prefix: String, cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                // Not by the formatter, whose widths end at 65,535.
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                if left.contains(&column) { cell.clone() + &pad } else { pad + cell }
            })
            .collect();
        format!("{prefix}{}", cells.join("  ")).trim_end().to_owned() + "\n"
    };
    let indent = " ".repeat(prefix(0).chars().count());
    let mut text = line(indent, head);
    for (index, row) in rows.iter().enumerate() {
        text.push_str(&line(prefix(index), row));
    }
    text
}

/// The statistics behind a sentence, a line each.
fn details(comparison: &Comparison, report: &CompareReport) -> String {
    let sets = [comparison.base, comparison.other].map(|index| &report.sets[index]);
    if sets.iter().any(|set| set.n == 0) {
        return String::new();
    }
    let figure = |value: f64| number(value, &report.unit, if report.unit == "ps" { 4 } else { 6 });
    let mut text = format!(
        "  shift  {}, from {} to {} (Hodges-Lehmann)\n",
        figure(comparison.shift),
        figure(comparison.shift_ci_low),
        figure(comparison.shift_ci_high)
    );
    text.push_str(&format!(
        "  ranks  U = {}, p = {}{}, Cliff's delta {:.2} (Mann-Whitney)\n",
        general(comparison.u, 15),
        general(comparison.u_p, 3),
        if comparison.u_exact { " exactly" } else { "" },
        comparison.cliff_delta
    ));
    match (comparison.welch_t, comparison.welch_df, comparison.welch_p, comparison.welch_ci) {
        (Some(t), Some(df), Some(p), Some((low, high))) => text.push_str(&format!(
            "  means  {} to {}, t = {}, df = {}, p = {} (Welch)\n",
            figure(low),
            figure(high),
            general(t, 4),
            general(df, 4),
            general(p, 3)
        )),
        _ => text.push_str("  means  no test: the sets do not vary (Welch)\n"),
    }
    text
}

/// The table of paths, what changed on top.
fn paths(report: &CompareReport, all: bool) -> String {
    if report.comparisons.is_empty() {
        return single_file(report);
    }
    let mut comparisons: Vec<&Comparison> = report.comparisons.iter().collect();
    comparisons.sort_by(|a, b| {
        let key = |c: &Comparison| rank(c.verdict);
        key(a).cmp(&key(b)).then(sentence::size(b).total_cmp(&sentence::size(a)))
    });
    let mut files: Vec<&str> = Vec::new();
    for comparison in &report.comparisons {
        let file = report.sets[comparison.other].file.as_str();
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let base = &report.sets[report.comparisons[0].base].file;
    let mut text = String::new();
    for file in &files {
        let rows: Vec<&Comparison> = comparisons
            .iter()
            .copied()
            .filter(|comparison| report.sets[comparison.other].file == *file)
            .collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{} -> {}\n\n", printable(base), printable(file)));
        let (shown, rest): (Vec<&Comparison>, Vec<&Comparison>) =
            rows.into_iter().partition(|row| all || rank(row.verdict) == 0);
        if !shown.is_empty() {
            text.push_str(&path_table(&shown, report));
        }
        text.push_str(&unchanged(&rest, shown.is_empty()));
    }
    text
}

/// One line for the paths that are not in the table.
fn unchanged(rest: &[&Comparison], are_all: bool) -> String {
    let others = if are_all {
        units::counted(rest.len() as u64, "path", "paths")
    } else {
        units::counted(rest.len() as u64, "other", "others")
    };
    match rest {
        [] => String::new(),
        _ => format!("{others}: no change found (--all shows them)\n"),
    }
}

/// Order of verdicts in the table.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Slower | Verdict::Faster => 0,
        Verdict::NotProven => 1,
        Verdict::Same => 2,
        Verdict::TooFew => 3,
    }
}

fn path_table(comparisons: &[&Comparison], report: &CompareReport) -> String {
    let confidence = general(report.confidence_percent, 6);
    let head =
        ["path", "before", "after", "change", &format!("{confidence} % interval"), "verdict"]
            .map(str::to_owned);
    let rows: Vec<Vec<String>> =
        comparisons.iter().map(|comparison| path_row(comparison, report)).collect();
    let table = |rows: &[Vec<String>]| aligned(&head, rows, |_| String::new(), &[0, 5]);
    let whole = table(&rows);
    if width_of(&whole) <= WIDTH {
        return whole;
    }
    let short = rows.into_iter().map(|mut row| {
        row[0] = row[0].replacen(" by ", " ", 1);
        row
    });
    table(&short.collect::<Vec<_>>())
}

fn path_row(comparison: &Comparison, report: &CompareReport) -> Vec<String> {
    let cost = |index: usize| {
        let set = &report.sets[index];
        if set.n == 0 { "-".to_owned() } else { number(set.median, &report.unit, 3) }
    };
    let (change, interval) = match (comparison.change(), comparison.decision_percent) {
        (Some(shift), Some((low, high))) => {
            let bare = |value: f64| sentence::percent(value).trim_end_matches(" %").to_owned();
            (sentence::percent(shift), format!("{} to {}", bare(low), bare(high)))
        }
        _ => ("-".to_owned(), "-".to_owned()),
    };
    vec![
        comparison.path.as_deref().map(spelled).unwrap_or_default(),
        cost(comparison.base),
        cost(comparison.other),
        change,
        interval,
        sentence::word(comparison.verdict, report).to_owned(),
    ]
}

/// One bench file: its paths and what they cost.
fn single_file(report: &CompareReport) -> String {
    let confidence = general(report.confidence_percent, 6);
    let head = ["path", "n", "median", &format!("{confidence} % interval")].map(str::to_owned);
    let figure = |value: f64| number(value, &report.unit, 4);
    let rows: Vec<Vec<String>> = report
        .sets
        .iter()
        .map(|set| {
            vec![
                set.path.as_deref().map(spelled).unwrap_or_default(),
                set.n.to_string(),
                figure(set.median),
                format!("{} to {}", figure(set.median_ci_low), figure(set.median_ci_high)),
            ]
        })
        .collect();
    aligned(&head, &rows, |_| String::new(), &[0])
}
