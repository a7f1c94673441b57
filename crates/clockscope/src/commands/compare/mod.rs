//! `clockscope compare`: reads two reports, compares them, and prints the changes.

mod ministat;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::cli::Format;
use crate::cli::measure::{CompareArgs, FailIf};
use crate::commands::view;
use crate::exit;
use crate::printing::{colour, replace_file, streams};
use clockscope_model::compare::{CompareReport, Verdict};
use clockscope_report::compare::{self, Source, text};
use clockscope_text::foreign::json_document;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the files are not two that can be compared, or the comparison cannot be written.
pub fn run(args: &CompareArgs) -> Result<i32> {
    if args.ministat {
        return ministat::run(args);
    }
    check_standard_input(args)?;
    let [before, after] = args.files.as_slice() else {
        bail!("two files are compared, not {}; with --ministat up to seven", args.files.len());
    };
    if let Some(percent) = args.min_effect.filter(|percent| !percent.is_finite() || *percent < 0.0)
    {
        bail!("--min-effect {percent} is not a share in percent; try 1");
    }
    let report = compare::compare(&source(before)?, &source(after)?, args.min_effect)?;
    let printed = match args.format {
        Format::Text => text::render(&report, args.all),
        Format::Json => json_document(&report)?,
    };
    write(args, &printed)?;
    Ok(if args.fail_if.is_some_and(|what| fails(what, &report)) { exit::FOUND } else { exit::OK })
}

/// Standard input can be read only once.
fn check_standard_input(args: &CompareArgs) -> Result<()> {
    if args.files.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        bail!("standard input (-) is named twice and can be read once; save it to a file first");
    }
    Ok(())
}

fn source(path: &Path) -> Result<Source> {
    let (name, bytes) = view::read(path)?;
    if !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[' | b'\xef')) {
        bail!("{name} has no report as JSON; numbers in columns are compared with --ministat");
    }
    let content = compare::parse(&bytes).with_context(|| format!("cannot use {name}"))?;
    Ok(Source { file: path.display().to_string(), content })
}

/// Whether a line is a row of the table with a proven change.
fn has_changed(line: &str) -> bool {
    line.ends_with("  slower") || line.ends_with("  faster")
}

/// Prints to standard output, or writes the file of `--output`.
fn write(args: &CompareArgs, text: &str) -> Result<()> {
    match &args.output {
        Some(path) => replace_file::replace_text(path, text),
        None if args.format == Format::Text && !args.ministat => {
            streams::print_bytes(colour::for_stdout(text, has_changed).as_bytes())
        }
        None => streams::print(text),
    }
}

fn fails(what: FailIf, report: &CompareReport) -> bool {
    report.rows.iter().any(|row| match what {
        FailIf::Slower => row.verdict == Verdict::Slower,
        FailIf::Changed => matches!(row.verdict, Verdict::Slower | Verdict::Faster),
    })
}
