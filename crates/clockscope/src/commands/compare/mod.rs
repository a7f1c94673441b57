//! `clockscope compare`: reads sets of numbers, compares them, and says what changed.

mod inputs;
mod ministat;
mod traces;

use anyhow::{Context as _, Result, bail};

use crate::cli::{
    Format,
    measure::{CompareArgs, FailIf},
};
use crate::commands::{colour, replace_file, streams};
use crate::exit;
use clockscope_model::compare::{CompareReport, Verdict};
use clockscope_report::compare::judge::{self, JudgeOptions};
use clockscope_report::compare::plot::WIDTH_MIN;
use clockscope_report::compare::text;
use clockscope_sys::terminal;
use clockscope_text::foreign::json_document;
use clockscope_text::foreign::printable_lines;
use inputs::Inputs;

/// The smallest change of a measurement that matters, in percent.
const MIN_EFFECT: f64 = 1.0;
/// Width of the plot where there is no terminal.
const PLOT_WIDTH: usize = 74;
/// Columns of a line of the plot that are not plot.
const PLOT_BORDER: usize = 4;
/// The widest plot without `-w`.
const PLOT_WIDTH_MAX: usize = 116;

/// More columns than this are no plot.
const WIDTH_MAX: usize = 10_000;

/// Runs the subcommand; gives the exit code.
pub fn run(args: &CompareArgs) -> i32 {
    let done = if args.ministat { ministat::run(args) } else { compare(args) };
    done.unwrap_or_else(|error| {
        super::warn_user(&error);
        exit::FAILURE
    })
}

fn compare(args: &CompareArgs) -> Result<i32> {
    let sources = match inputs::sources(args)? {
        Inputs::Measurements(sources) => sources,
        Inputs::Traces(before, after) => return traces::compare(args, &before, &after),
    };
    let options = options(args)?;
    let plot_width = plot_width(args)?;
    let report = judge::compare(sources, &options);
    let printed = match args.format {
        Format::Text => text::render(&report, plot_width, args.all),
        Format::Json => json_document(&report)?,
    };
    write(args, &printed)?;
    Ok(if args.fail_if.is_some_and(|what| fails(what, &report)) { exit::FOUND } else { exit::OK })
}

fn options(args: &CompareArgs) -> Result<JudgeOptions> {
    Ok(JudgeOptions {
        confidence_percent: confidence(args.confidence.as_deref())?,
        min_effect_percent: min_effect(args, MIN_EFFECT)?,
        higher_is_better: args.higher_is_better,
        unit: args.unit.clone().unwrap_or_default(),
    })
}

/// The smallest change that matters, in percent.
fn min_effect(args: &CompareArgs, default: f64) -> Result<f64> {
    let percent = args.min_effect.unwrap_or(default);
    if !percent.is_finite() || percent < 0.0 {
        bail!("--min-effect {percent} is not a share in percent; try {default}");
    }
    Ok(percent)
}

fn confidence(text: Option<&str>) -> Result<f64> {
    let Some(text) = text else { return Ok(95.0) };
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (50.0..=99.9999).contains(&percent) => Ok(percent),
        _ => bail!("-c {text} is no confidence; it is a number from 50 to 99.9999 percent"),
    }
}

fn plot_width(args: &CompareArgs) -> Result<usize> {
    match args.width {
        Some(width) if width < WIDTH_MIN => {
            bail!("a plot of {width} columns shows nothing; use -w {WIDTH_MIN} or more")
        }
        Some(width) if width > WIDTH_MAX => {
            bail!("a plot of {width} columns fits nowhere; use -w {WIDTH_MAX} or less")
        }
        Some(width) => Ok(width),
        None => Ok(terminal::columns().map_or(PLOT_WIDTH, |columns| {
            columns.saturating_sub(PLOT_BORDER).clamp(WIDTH_MIN, PLOT_WIDTH_MAX)
        })),
    }
}

/// Whether a line is a row of a table about something that has changed.
fn has_changed(line: &str) -> bool {
    line.ends_with("  slower") || line.ends_with("  faster")
}

/// Prints to standard output, or to the file that was named.
fn write(args: &CompareArgs, text: &str) -> Result<()> {
    let Some(path) = &args.output else {
        let is_report = args.format == Format::Text && !args.ministat;
        return if is_report {
            streams::print_bytes(colour::for_stdout(text, has_changed).as_bytes())
        } else {
            streams::print(text)
        };
    };
    let bytes = printable_lines(text);
    replace_file::replace(path, bytes.as_bytes())
        .with_context(|| format!("cannot write to {}; try -o elsewhere", path.display()))
}

fn fails(what: FailIf, report: &CompareReport) -> bool {
    report.comparisons.iter().any(|comparison| match what {
        FailIf::Slower => comparison.verdict == Verdict::Slower,
        FailIf::Changed => matches!(comparison.verdict, Verdict::Slower | Verdict::Faster),
    })
}
