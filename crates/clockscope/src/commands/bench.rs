//! `clockscope bench`: chooses paths, lets launches measure them, and prints the report.

use std::ffi::OsStr;
use std::io::{self, BufWriter};

use anyhow::{Result, anyhow};

use super::program;
use crate::cli::measure::BenchArgs;
use crate::exit;
use crate::printing::replace_file::Prepared;
use crate::printing::report;
use crate::printing::spinner::Spinner;
use clockscope_measure::bench::measurement::Measurement;
use clockscope_measure::bench::{chosen, launch};
use clockscope_report::bench::text;
use clockscope_text::foreign::json_document;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When a name is no clock or system call, nothing can be measured, a launch fails, or the report cannot be
/// written.
pub fn run(args: &BenchArgs) -> Result<i32> {
    let request = &args.plan.request;
    let chosen = chosen::choose(request).map_err(|error| no_program(&request.names, error))?;
    let measurement = Measurement::new(args.plan.clone(), chosen)?;
    // The files are prepared before measuring, so a typo in a name does not cost that time.
    let output = Prepared::of_option(args.output.as_deref())?;
    let save = Prepared::of_option(args.save.as_deref())?;
    let (launches, spinner) = (measurement.launches(), Spinner::start());
    let measured = measurement.run(&mut |launch, share| {
        let percent = share * 100.0;
        spinner.tell(&format!("measuring: launch {} of {launches}, {percent:.0} %", launch + 1));
    });
    spinner.end();
    let report = measured?;
    let written = report::write(&report, args.format, output, text::render);
    if let Some(file) = save {
        file.write_text(&json_document(&report)?)?;
    }
    written.map(|()| exit::OK)
}

/// Measures as one of the launches that [`run`] starts; returns the exit status.
///
/// # Errors
///
/// When a path cannot be measured, or standard output cannot be written.
pub fn launch(args: &BenchArgs) -> Result<i32> {
    let out = BufWriter::new(io::stdout().lock());
    launch::run(&args.plan.request, args.plan.cpu, out)?;
    Ok(exit::OK)
}

/// The error for names of programs, as they are given to hyperfine: bench measures no programs.
fn no_program(names: &[String], error: anyhow::Error) -> anyhow::Error {
    let path = std::env::var_os("PATH");
    let is_program = names.iter().any(|name| {
        let program = name.split(' ').next().unwrap_or_default();
        program::find(OsStr::new(program), path.as_deref()).is_ok()
    });
    if is_program {
        anyhow!(
            "bench measures clocks and system calls, no programs; to trace one: clockscope trace {}",
            names.join(" ")
        )
    } else {
        error
    }
}
