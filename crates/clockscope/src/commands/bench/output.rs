//! Writes the report to standard output or `-o`, and to the file of `--save`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cli::measure::{BenchArgs, BenchFormat};
use crate::printing::replace_file::Prepared;
use crate::printing::{colour, streams};
use clockscope_measure::bench::launches::Collected;
use clockscope_model::bench::BenchReport;
use clockscope_report::bench::text;
use clockscope_report::pages;
use clockscope_text::foreign::{json_document, printable_lines};

/// Extension of files that get every batch.
const BATCHES: &str = "ndjson";

/// The files of the command line, checked to be writable before measuring.
#[derive(Debug)]
pub(crate) struct Outputs {
    output: Option<Target>,
    save: Option<Target>,
}

#[derive(Debug)]
struct Target {
    path: PathBuf,
    file: Prepared,
}

impl Target {
    /// Prepares the file without changing its content: the measurement may yet fail.
    fn open(path: Option<&Path>) -> Result<Option<Self>> {
        let file = Prepared::of_option(path)?;
        Ok(path.map(Path::to_owned).zip(file).map(|(path, file)| Self { path, file }))
    }

    fn write(self, text: &str) -> Result<()> {
        let written = self.file.write(printable_lines(text).as_bytes());
        written.with_context(|| format!("cannot write to {}", self.path.display()))
    }
}

impl Outputs {
    /// Prepares the files.
    ///
    /// # Errors
    ///
    /// When a file cannot be written to.
    pub(crate) fn open(args: &BenchArgs) -> Result<Self> {
        Ok(Self {
            output: Target::open(args.output.as_deref())?,
            save: Target::open(args.save.as_deref())?,
        })
    }

    /// Writes the report to all outputs. It is printed even if a file cannot be written.
    ///
    /// # Errors
    ///
    /// When the report cannot be printed, or a file cannot be written.
    pub(crate) fn write(
        self,
        args: &BenchArgs,
        report: &BenchReport,
        collected: &Collected,
    ) -> Result<()> {
        let printed = render(args.format, report, collected)?;
        let mut failed: Option<anyhow::Error> = None;
        match self.output {
            None => print(args.format, &printed)?,
            Some(target) => {
                if let Err(error) = target.write(&printed) {
                    print(args.format, &printed)?;
                    failed = Some(error);
                }
            }
        }
        if let Some(target) = self.save {
            let batches = target.path.extension().is_some_and(|extension| extension == BATCHES);
            let format = if batches { BenchFormat::Ndjson } else { BenchFormat::Json };
            if let Err(error) = target.write(&render(format, report, collected)?) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), |error| Err(error.context("measured and printed, but not saved")))
    }
}

fn print(format: BenchFormat, printed: &str) -> Result<()> {
    match format {
        BenchFormat::Text => colour::print_report(printed),
        _ => streams::print(printed),
    }
}

fn render(format: BenchFormat, report: &BenchReport, collected: &Collected) -> Result<String> {
    match format {
        BenchFormat::Text => Ok(text::render(report)),
        BenchFormat::Json => Ok(json_document(report)?),
        BenchFormat::Ndjson => collected.ndjson(report),
        BenchFormat::Html => pages::of_report(report, None),
    }
}
