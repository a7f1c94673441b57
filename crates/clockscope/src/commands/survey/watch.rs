//! `--watch`: one survey after another.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use crossterm::Command as _;
use crossterm::cursor::MoveTo;
use crossterm::terminal::{self, Clear, ClearType};

use crate::cli::survey::{SurveyArgs, SurveyFormat};
use crate::commands::{colour, streams};
use crate::exit;
use clockscope_measure::host;
use clockscope_model::survey::SurveyReport;
use clockscope_report::survey::text;
use clockscope_sys::access;

/// Surveys until the reader leaves, or a survey fails; gives the exit code.
///
/// # Errors
///
/// Those of a survey; when a format cannot be told again and again, or the file cannot be written.
pub(super) fn run(args: &SurveyArgs) -> Result<i32> {
    let is_whole = matches!(args.format, SurveyFormat::Html | SurveyFormat::Metrics);
    if is_whole && args.output.is_none() {
        bail!(
            "--watch: this format is a whole file; name one by -o FILE, which then has the newest survey"
        );
    }
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let mut spent = Duration::ZERO;
    loop {
        let mut report = super::survey(args, spent)?;
        spent = access::cpu_time(pid).unwrap_or(spent);
        report.host = Some(host::without_tsc_rate());
        if args.output.is_some() {
            super::write(args, &report)?;
            continue;
        }
        if !print(args, &report)? {
            return Ok(exit::OK);
        }
    }
}

/// Prints a survey; says whether somebody still reads.
fn print(args: &SurveyArgs, report: &SurveyReport) -> Result<bool> {
    let size = terminal::size().ok().filter(|_| io::stdout().is_terminal());
    let text = match (args.format, size) {
        (SurveyFormat::Text, Some((_, height))) if !args.all => {
            text::screen(report, usize::from(height))
        }
        (SurveyFormat::Json, _) => serde_json::to_string(report).context("cannot make JSON")?,
        _ => super::render(args, report)?,
    };
    if size.is_some() && args.format == SurveyFormat::Text {
        let mut screen = String::new();
        Clear(ClearType::All).write_ansi(&mut screen)?;
        MoveTo(0, 0).write_ansi(&mut screen)?;
        screen.push_str(&colour::for_stdout(&text, |_| false));
        streams::print_bytes(screen.as_bytes())?;
        return Ok(true);
    }
    match streams::print_line(&format!("{text}\n")) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        printed => printed.context("cannot write to standard output").map(|()| true),
    }
}
