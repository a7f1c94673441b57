//! `clockscope bench`: chooses paths, lets launches measure them, and prints the report.

mod output;
mod progress;

use std::ffi::OsStr;
use std::io::{self, BufWriter};

use anyhow::{Result, anyhow};

use super::program;
use crate::cli::measure::BenchArgs;
use crate::exit;
use clockscope_measure::bench::measurement::Measurement;
use clockscope_measure::bench::{chosen, launch};
use output::Outputs;
use progress::Progress;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When a name is no clock or system call, nothing can be measured, a launch fails, or the report cannot be
/// written.
pub fn run(args: &BenchArgs) -> Result<i32> {
    if let Some(number) = args.as_launch {
        let out = BufWriter::new(io::stdout().lock());
        launch::run(&args.plan().request, args.cpu, number, out)?;
        return Ok(exit::OK);
    }
    let plan = args.plan();
    let chosen = chosen::choose(&plan.request).map_err(|error| no_program(&args.names, error))?;
    let measurement = Measurement::new(plan, chosen)?;
    let outputs = Outputs::open(args)?;
    let mut progress = Progress::new(measurement.launches());
    let measured = measurement.run(&mut |launch, share| progress.show(launch, share));
    progress.end();
    let (report, collected) = measured?;
    outputs.write(args, &report, &collected)?;
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
