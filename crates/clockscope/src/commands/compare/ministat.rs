//! `compare --ministat`: the output of ministat for the same files.

use std::path::Path;

use anyhow::{Result, bail};

use crate::cli::measure::CompareArgs;
use crate::commands::view;
use crate::exit;
use crate::printing::streams;
use clockscope_report::compare::ministat::{self, MinistatOptions, SETS_MAX, WIDTH};
use clockscope_report::compare::plain::{self, PlainFormat};
use clockscope_stats::ministat::{LEVELS, Set};
use clockscope_sys::terminal;
use clockscope_text::foreign::printable;

/// Limit for the width of the plot, in columns.
const WIDTH_MAX: usize = 10_000;

/// ministat's fatal error: the text for standard error, exactly as ministat prints it.
struct Complaint(String);

/// Prints ministat's output; returns the exit status.
///
/// # Errors
///
/// Only clockscope's own: an output that cannot be written, a file that cannot be read.
pub(super) fn run(args: &CompareArgs) -> Result<i32> {
    super::check_standard_input(args)?;
    let (options, format) = match options(args) {
        Ok(options) => options,
        Err(complaint) => return Ok(warn_user(&complaint)),
    };
    if options.width > WIDTH_MAX {
        bail!("a plot of {} columns fits nowhere; use -w 74", options.width);
    }
    if options.width < 2 && options.plot && options.compare {
        bail!("a plot needs at least 2 columns; use -w 74, or -A for none");
    }
    let mut sets = Vec::new();
    for path in &args.files {
        match set(path, &format)? {
            Ok(set) => sets.push(set),
            Err(complaint) => return Ok(warn_user(&complaint)),
        }
    }
    super::write(args, &ministat::render(&sets, &options))?;
    Ok(exit::OK)
}

fn warn_user(complaint: &Complaint) -> i32 {
    streams::warn(&complaint.0);
    exit::FAILURE
}

fn options(args: &CompareArgs) -> Result<(MinistatOptions, PlainFormat), Complaint> {
    let usage = |complaint: &str| Complaint(ministat::usage(complaint));
    let level = match &args.confidence {
        None => LEVELS.iter().position(|level| *level == 95.0),
        Some(text) => {
            let level: f64 =
                text.trim_start().parse().map_err(|_| usage("Not a floating point number"))?;
            LEVELS.iter().position(|known| *known == level)
        }
    };
    let level = level.ok_or_else(|| usage("No support for confidence level"))?;
    let mut format = PlainFormat::default();
    if let Some(column) = args.column {
        if column == 0 {
            return Err(usage("Column number should be positive."));
        }
        format.column = column;
    }
    if let Some(delimiters) = &args.delimiters {
        if delimiters.is_empty() {
            return Err(usage("Can't use empty delimiter string"));
        }
        format.delimiters = delimiters.clone().into_bytes();
    }
    if args.files.len() > SETS_MAX {
        return Err(usage("Too many datasets."));
    }
    let width = args.width.or_else(|| terminal::columns().map(|columns| columns.saturating_sub(2)));
    let options = MinistatOptions {
        level,
        plot: !args.no_plot,
        compare: !args.numbers_only,
        separate_bars: args.separate_bars,
        width: width.unwrap_or(WIDTH),
    };
    Ok((options, format))
}

fn set(path: &Path, format: &PlainFormat) -> Result<Result<(String, Set), Complaint>> {
    let name = if path == Path::new("-") {
        "<stdin>".into()
    } else {
        printable(&path.display().to_string())
    };
    let (_, bytes) = view::read(path)?;
    let values = match plain::parse(&bytes, format) {
        Ok(values) => values,
        Err(line) => {
            let text = format!("ministat: Invalid data on line {line} in {name}\n");
            return Ok(Err(Complaint(text)));
        }
    };
    Ok(match Set::new(values) {
        Some(set) => Ok((name, set)),
        None => Err(Complaint(format!("Dataset {name} must contain at least 3 data points\n"))),
    })
}
