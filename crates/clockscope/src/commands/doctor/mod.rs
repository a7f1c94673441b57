//! `clockscope doctor`: collects facts, judges them, and prints.

mod filters;
mod many;
mod output;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::cli::explain::{DoctorArgs, DoctorFormat};
use crate::exit;
use crate::printing::streams;
use clock_doctor::facts::Facts;
use clock_doctor::report::model::DoctorReport;
use clock_doctor::report::{labels, metrics, plugins, text};
use clock_doctor::root::Root;
use clock_doctor::rules::catalogue;
use clock_doctor::utc::Proof;
use clock_doctor::{collect, rules};
use clockscope_measure::live;
use clockscope_text::foreign::{json_document, printable};

/// Runs the subcommand; returns the exit status.
pub fn run(args: &DoctorArgs) -> i32 {
    outcome(args).unwrap_or_else(|error| {
        // Monitoring programs read only standard output.
        let is_said = args.format == DoctorFormat::Nagios
            && output::write(None, &plugins::nagios_failure(&streams::clause(&error))).is_ok();
        if !is_said {
            crate::printing::warn_user(&error);
        }
        exit::UNKNOWN
    })
}

fn outcome(args: &DoctorArgs) -> Result<i32> {
    if args.list || args.explain.is_some() {
        let printed = pages(args.explain.as_deref(), args.format)?;
        output::write(args.output.as_deref(), &printed)?;
        return Ok(exit::NOTHING_TO_MEND);
    }
    if let Some(limit) = args.utc_within {
        return utc_within(args, limit);
    }
    if many::is_asked(args) {
        return many::run(args);
    }
    // Errors about filters are reported before measuring.
    let read_filters = filters::asked(args)?;
    let path = args.file.as_deref().or(args.root.first().map(PathBuf::as_path));
    let facts = Facts { read_filters, ..facts(path)? };
    let report = DoctorReport::new(&facts, &rules::examine(&facts));
    let status = report.exit_status();
    let printed = match args.format {
        DoctorFormat::Text if args.quiet => text::quiet(&report),
        DoctorFormat::Text => text::render(&report, &output::text_options(args)),
        DoctorFormat::Json => json_document(&report)?,
        DoctorFormat::JsonLines => many::line_of(path, &report)?,
        DoctorFormat::Metrics => metrics::render(&facts, &report, now()),
        DoctorFormat::Nagios => plugins::nagios(&report),
    };
    output::write(args.output.as_deref(), &printed)?;
    Ok(status)
}

/// Proves the time of day; how the clock is read does not matter.
fn utc_within(args: &DoctorArgs, limit: Duration) -> Result<i32> {
    let limit_ns = i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX);
    let (proof, sentence) = rules::utc::within(&live::time_of_day(), limit_ns);
    if proof != Proof::Within || !args.quiet {
        output::write(args.output.as_deref(), &(printable(&sentence) + "\n"))?;
    }
    Ok(match proof {
        Proof::Within => exit::NOTHING_TO_MEND,
        Proof::Outside => exit::WRONG_TIME,
        Proof::Open => exit::UNKNOWN,
    })
}

/// The time, in seconds since 1970; 0 for a clock before that.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The facts of this machine, or of the machine whose files or log are at `path`; `-` is standard input.
fn facts(path: Option<&Path>) -> Result<Facts> {
    let Some(path) = path else { return Ok(live::facts()) };
    let root = match path.to_str() {
        Some("-") => Root::from_archive(io::stdin().lock(), "-"),
        _ => Root::open(path),
    };
    let root = root.with_context(|| {
        format!("cannot read {}; try a log, a directory, a capture or a sosreport", path.display())
    })?;
    Ok(collect::facts(&root))
}

/// The page of one label, or the list of all.
fn pages(word: Option<&str>, format: DoctorFormat) -> Result<String> {
    match (word.map(labels::page), format) {
        (_, DoctorFormat::Metrics) => bail!("labels are no metrics; try --format text or json"),
        (_, DoctorFormat::Nagios) => bail!("labels are no checks; try --format text or json"),
        (_, DoctorFormat::JsonLines) => bail!("labels are no machines; try --format text or json"),
        (Some(Err(unknown)), _) => bail!("{unknown}"),
        (Some(Ok(page)), DoctorFormat::Text) => Ok(labels::text(page)),
        (Some(Ok(page)), DoctorFormat::Json) => Ok(json_document(page)?),
        (None, DoctorFormat::Text) => Ok(labels::list_text()),
        (None, DoctorFormat::Json) => Ok(json_document(&catalogue::pages())?),
    }
}
