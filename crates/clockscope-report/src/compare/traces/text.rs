//! The comparison of two traces for people: the answer, then what changed, then what is not certain.

use clockscope_model::names;
use clockscope_model::trace_compare::{
    CallChange, CallSide, CallerChange, CallerSide, Change, Cost, CostChange, TraceCompareReport,
    TraceSide,
};
use clockscope_text::foreign::printable;
use clockscope_text::lines::{WIDTH, cut_middle, labelled, width};
use clockscope_text::units;

/// Rows of calls that are shown, and callers.
const ROWS: usize = 6;
const CALLERS: usize = 4;
/// Columns of names.
const NAME: usize = 26;

/// The whole text, in lines of at most 80 columns; with `all` rows, those without a change among them.
pub fn render(report: &TraceCompareReport, all: bool) -> String {
    let mut out =
        format!("{} -> {}\n\n", printable(&report.before.file), printable(&report.after.file));
    out += &paragraph(&report.conclusion.join(" "));
    out.push('\n');
    out += &summary(&report.before, &report.after);
    if !report.host_changes.is_empty() {
        out.push('\n');
    }
    for clause in &report.host_changes {
        out += &paragraph(&format!("Host: {clause}."));
    }
    out += &calls(report, all);
    out += &callers(report, all);
    out.push('\n');
    out += &labelled("Certain", "the counts of calls of these two runs");
    out += &labelled(
        "Not certain",
        "that two more runs would differ likewise: rates, costs and shares change with the load, too, and \
         single runs cannot say by how much. +- covers how calls were timed and which stacks were sampled",
    );
    for note in &report.notes {
        out += &labelled("Note", &printable(note));
    }
    out
}

fn paragraph(words: &str) -> String {
    super::super::text::paragraph(words)
}

/// The figures of the whole runs.
fn summary(before: &TraceSide, after: &TraceSide) -> String {
    let mut rows = vec![["".to_owned(), "before".to_owned(), "after".to_owned()]];
    let mut add = |name: &str, of: &dyn Fn(&TraceSide) -> String| {
        rows.push([name.to_owned(), of(before), of(after)]);
    };
    add("a clock read", &|side| side.read_cost.as_ref().map_or("not known".to_owned(), cost));
    add("clock reads", &|side| units::count(side.reads));
    add("reads a second", &|side| rate(side.reads_per_second));
    add("share of CPU time", &|side| side.cpu_share.map_or("not known".to_owned(), units::share));
    add("CPU time", &|side| units::nanos(side.cpu_ns));
    add("wall time", &|side| units::nanos(side.wall_ns));
    aligned(&rows)
}

/// A cost and how far it may be off.
fn cost(cost: &Cost) -> String {
    match cost.within_ps {
        Some(0) | None => units::picos(cost.average_ps),
        Some(within) => format!("{} +- {}", units::picos(cost.average_ps), units::picos(within)),
    }
}

fn rate(per_second: f64) -> String {
    units::rate(per_second).unwrap_or_else(|| "-".to_owned())
}

/// Rows that changed, and how many others there are.
fn calls(report: &TraceCompareReport, all: bool) -> String {
    let is_changed = |row: &&CallChange| {
        row.change != Change::Same
            || matches!(row.cost_change, CostChange::Dearer | CostChange::Cheaper)
    };
    let (changed, same): (Vec<&CallChange>, Vec<&CallChange>) =
        report.rows.iter().partition(is_changed);
    let limit = if all { usize::MAX } else { ROWS };
    let mut shown: Vec<&CallChange> = changed.iter().copied().take(limit).collect();
    if all {
        shown.extend(&same);
    }
    let mut out = String::new();
    if !shown.is_empty() {
        let head = ["call", "calls", "then", "per s", "then", "a call", "then", ""];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(shown.into_iter().map(call));
        out += "\n";
        out += &aligned(&rows);
    }
    if !all {
        let matters = units::share(report.min_effect_percent / 100.0);
        let more = changed.len().saturating_sub(ROWS);
        out += &rest(more, same.len(), &format!("no change of {matters} found"));
    }
    out
}

/// `14 more changed, 21 others: no change found (--all shows them)`.
fn rest(more: usize, same: usize, no_change: &str) -> String {
    let more = (more > 0).then(|| format!("{more} more changed"));
    let same = match same {
        0 => None,
        1 => Some(format!("1 other: {no_change}")),
        same => Some(format!("{same} others: {no_change}")),
    };
    let parts: Vec<String> = more.into_iter().chain(same).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("{} (--all shows them)\n", parts.join("; "))
    }
}

fn call(row: &CallChange) -> [String; 8] {
    let name = names::with_clock(&row.name, row.clock.as_deref());
    let name = if row.via == "syscall" { format!("{name} [syscall]") } else { name };
    let number = |side: &CallSide| match side.calls {
        0 => "-".to_owned(),
        calls => units::brief(calls),
    };
    let each = |side: &CallSide| match side.calls {
        0 => "-".to_owned(),
        _ => rate_in_brief(side.per_second),
    };
    let cost = |side: &CallSide| side.cost.map_or("-".to_owned(), |c| units::picos(c.average_ps));
    [
        cut_middle(&name, NAME),
        number(&row.before),
        number(&row.after),
        each(&row.before),
        each(&row.after),
        cost(&row.before),
        cost(&row.after),
        word(row.change, row.cost_change),
    ]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn rate_in_brief(per_second: f64) -> String {
    if per_second < 100.0 { rate(per_second) } else { units::brief(per_second.round() as u64) }
}

/// What changed, in a word: if the cost did, that, because numbers of calls can be seen.
fn word(change: Change, cost: CostChange) -> String {
    let word = match (cost, change) {
        (CostChange::Dearer, _) => "dearer",
        (CostChange::Cheaper, _) => "cheaper",
        (_, Change::Came) => "new",
        (_, Change::Went) => "gone",
        (_, Change::More) => "more",
        (_, Change::Fewer) => "fewer",
        (_, Change::Mixed | Change::Same) => "",
    };
    word.to_owned()
}

/// The places with most reads, those that changed first.
fn callers(report: &TraceCompareReport, all: bool) -> String {
    let Some(callers) = &report.callers else { return String::new() };
    let (changed, same): (Vec<&CallerChange>, Vec<&CallerChange>) =
        callers.iter().partition(|caller| caller.change != Change::Same);
    let limit = if all { usize::MAX } else { CALLERS };
    let mut shown: Vec<&CallerChange> = changed.iter().copied().take(limit).collect();
    let room = limit.saturating_sub(shown.len());
    shown.extend(same.iter().take(room));
    if shown.is_empty() {
        return String::new();
    }
    let head = ["reads by", "per s", "then", "of all reads", "then", ""];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(shown.iter().map(|caller| row_of(caller)));
    let more = changed.len().saturating_sub(CALLERS);
    let rest_same = if all { 0 } else { same.len().saturating_sub(room) };
    format!(
        "\n{}{}",
        aligned(&rows),
        rest(if all { 0 } else { more }, rest_same, "no change found")
    )
}

fn row_of(caller: &CallerChange) -> [String; 6] {
    let function = caller.function.as_deref().unwrap_or("callers not known");
    let file = names::file_name(&caller.place);
    // An offset says something only where there is no name.
    let name = match (function.starts_with('['), file.contains("+0x")) {
        (true, true) => file.to_owned(),
        (_, false) if !file.is_empty() => format!("{function} {file}"),
        _ => function.to_owned(),
    };
    let each = |side: &CallerSide| match side.is_seen {
        true => rate_in_brief(side.per_second.0),
        false => "-".to_owned(),
    };
    let share = |side: &CallerSide| {
        let (share, low, high) = side.share;
        let within = ((share - low).max(high - share) * 100.0).max(0.1);
        let digits = usize::from(within < 0.95);
        match side.is_seen {
            true => format!("{:.digits$} +- {within:.digits$} %", share * 100.0),
            false => format!("below {}", units::share(high)),
        }
    };
    [
        cut_middle(&printable(&name), NAME + 4),
        each(&caller.before),
        each(&caller.after),
        share(&caller.before),
        share(&caller.after),
        word(caller.change, CostChange::NotKnown),
    ]
}

/// Columns as wide as their widest cell, the first and the last from the left. The first is cut where the others leave
/// it too little.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widest = |column: usize| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..N).map(widest).collect();
    let others = widths[1..].iter().sum::<usize>() + 2 * (N - 1);
    widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(1));
    let line = |row: &[String; N]| {
        let cell = |(column, cell): (usize, &String)| {
            let cell = cut_middle(cell, widths[column]);
            let pad = " ".repeat(widths[column].saturating_sub(width(&cell)));
            let is_left = column == 0 || column + 1 == N && N > 3;
            if is_left { cell + &pad } else { pad + &cell }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
