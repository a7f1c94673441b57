//! `compare` of two reports of `trace`.

use anyhow::{Result, bail};

use crate::cli::{
    Format,
    measure::{CompareArgs, FailIf},
};
use crate::exit;
use clockscope_model::trace_compare::{Change, CostChange, TraceCompareReport};
use clockscope_report::compare::traces::{self, TraceSource, sentences, text};
use clockscope_text::foreign::json_document;

/// The smallest change that matters, in percent: two runs of one program hardly ever differ by less.
const MIN_EFFECT: f64 = 10.0;

/// Prints the comparison; gives the exit status.
///
/// # Errors
///
/// One line, if an option is given that says nothing about traces, or the output cannot be written.
pub(super) fn compare(
    args: &CompareArgs,
    before: &TraceSource,
    after: &TraceSource,
) -> Result<i32> {
    check(args)?;
    let report = traces::compare(before, after, super::min_effect(args, MIN_EFFECT)?);
    let printed = match args.format {
        Format::Text => text::render(&report, args.all),
        Format::Json => json_document(&report)?,
    };
    super::write(args, &printed)?;
    Ok(if args.fail_if.is_some_and(|what| fails(what, &report)) { exit::FOUND } else { exit::OK })
}

/// Options for numbers mean nothing here; a wrong one is better said than ignored.
fn check(args: &CompareArgs) -> Result<()> {
    let given = [
        (args.confidence.is_some(), "-c"),
        (args.column.is_some(), "-C"),
        (args.delimiters.is_some(), "-d"),
        (args.unit.is_some(), "--unit"),
        (args.higher_is_better, "--higher-is-better"),
        (args.width.is_some(), "-w"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            bail!("{option} is not for reports of clockscope trace; leave it out")
        }
        None => Ok(()),
    }
}

fn fails(what: FailIf, report: &TraceCompareReport) -> bool {
    let is_changed = |cost| matches!(cost, CostChange::Dearer | CostChange::Cheaper);
    let cost = sentences::cost_change(report);
    match what {
        FailIf::Slower => cost == CostChange::Dearer,
        FailIf::Changed => {
            let of_calls = |row: &clockscope_model::trace_compare::CallChange| {
                row.is_read && (row.change != Change::Same || is_changed(row.cost_change))
            };
            let mut callers = report.callers.iter().flatten();
            is_changed(cost)
                || report.rows.iter().any(of_calls)
                || callers.any(|caller| caller.change != Change::Same)
        }
    }
}
