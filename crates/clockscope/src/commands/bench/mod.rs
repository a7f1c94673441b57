//! `clockscope bench`: chooses paths, lets launches measure them, and prints what follows.

mod output;
mod progress;

use std::ffi::OsStr;
use std::io::{self, BufWriter};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::program;
use crate::cli::measure::BenchArgs;
use crate::exit;
use clockscope_measure::bench::{chosen, evaluation, instructions, launch, launches};
use clockscope_report::bench::notes;
use clockscope_sys::affinity;
use output::{Outcome, Outputs};
use progress::Progress;

/// Runs the subcommand; gives the exit code.
pub fn run(args: &BenchArgs) -> i32 {
    let result = match args.as_launch {
        Some(number) => {
            let out = BufWriter::new(io::stdout().lock());
            launch::run(&args.request(), args.cpu, number, out).map(|()| Outcome::Complete)
        }
        None => bench(args),
    };
    match result {
        Ok(Outcome::Complete) => exit::OK,
        Ok(Outcome::NotSaved(error)) | Err(error) => {
            crate::printing::warn_user(&error);
            exit::FAILURE
        }
    }
}

fn bench(args: &BenchArgs) -> Result<Outcome> {
    let start = Instant::now();
    let request = args.request();
    let chosen = chosen::choose(&request).map_err(|error| no_program(&request.names, error))?;
    if chosen.paths.len() == 1 {
        let reasons: Vec<&str> = chosen.declined.iter().map(|one| one.reason.as_str()).collect();
        bail!("nothing can be measured: {}", reasons.first().unwrap_or(&"nothing was asked for"));
    }
    let cpu = cpu(args.cpu, affinity::allowed())?;
    let outputs = Outputs::open(args)?;
    let host = clockscope_measure::host::collect();
    let count = args.launches.unwrap_or(if args.quick { 1 } else { launch::LAUNCHES });
    let mut progress = Progress::new(count);
    let mut show = |launch, share| progress.show(launch, share);
    let collected = launches::run(&request, count, cpu, &mut show);
    progress.end();
    let mut collected = collected?;
    let mut report = evaluation::report(&mut collected, host, args.net);
    report.notes = notes::of(&report, collected.pinning_refused.as_deref());
    if args.instructions {
        let (instructions, notes) = instructions::of(&chosen.paths);
        report.instructions = Some(instructions);
        report.notes.extend(notes);
    }
    report.method.elapsed_ms = millis(start.elapsed());
    outputs.write(args, &report, &collected)
}

/// Says that programs are not measured, where one is named as for hyperfine.
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

/// The CPU to measure on: the one that was asked for, or the current one.
fn cpu(wanted: Option<u32>, allowed: io::Result<Vec<u32>>) -> Result<u32> {
    let Some(wanted) = wanted else { return Ok(affinity::current()) };
    match allowed {
        Ok(allowed) if !allowed.contains(&wanted) => {
            let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            bail!("cannot measure on CPU {wanted}; this process may use {}", list.join(", "))
        }
        // Where nobody knows what is allowed, the launch finds out.
        _ => Ok(wanted),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cpu_that_is_allowed_can_be_asked_for() {
        assert_eq!(cpu(Some(3), Ok(vec![0, 3])).unwrap(), 3);
        let error = cpu(Some(4), Ok(vec![0, 3])).unwrap_err().to_string();
        assert_eq!(error, "cannot measure on CPU 4; this process may use 0, 3");
        assert_eq!(cpu(Some(4), Err(io::ErrorKind::PermissionDenied.into())).unwrap(), 4);
    }
}
