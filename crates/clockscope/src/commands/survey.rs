//! `clockscope survey`: samples all CPUs and prints the estimates.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::tsc_guard;
use crate::cli::survey::SurveyArgs;
use crate::exit;
use crate::printing::spinner::Spinner;
use crate::printing::{self, replace_file::Prepared};
use clockscope_measure::host;
use clockscope_model::survey::SurveyReport;
use clockscope_report::survey::text;
use clockscope_survey::sampling::{Options, Survey};
use clockscope_survey::{learn, report};
use clockscope_sys::ending::Ending;
use clockscope_sys::proc_text;
use clockscope_trace::counter_reads;

/// Limits of the duration: a shorter one gives too few samples, a longer one is a mistake.
const LONGEST: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_millis(100);

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the duration is out of range, the CPUs cannot be sampled, or the report cannot be written.
pub fn run(args: &SurveyArgs) -> Result<i32> {
    if args.duration < SHORTEST || args.duration > LONGEST {
        bail!("cannot survey for {:?}; --duration takes 100ms to 1h", args.duration);
    }
    if !proc_text::is_mounted() {
        bail!("{}", proc_text::NOT_MOUNTED);
    }
    let file = Prepared::of_option(args.output.as_deref())?;
    let mut report = survey(args)?;
    report.host = Some(host::without_tsc_rate());
    report.counter_doubt = tsc_guard::counter_doubt(&report.counter_reads);
    let text = |report: &SurveyReport| text::render(report, args.all);
    printing::report::write(&report, args.format, file, text).map(|()| exit::OK)
}

fn survey(args: &SurveyArgs) -> Result<SurveyReport> {
    let options = Options { duration: args.duration, frequency_hz: args.freq };
    let survey = Survey::prepare(options, learn::vdso()).context("cannot survey this host")?;
    let spinner = Spinner::start();
    let of = args.duration.as_secs_f64();
    let ending = Ending::expect().context("cannot survey this host")?;
    let observed = survey.run(&|elapsed| {
        spinner.tell(&format!("sampling all CPUs: {:.0} s of {of:.0} s", elapsed.as_secs_f64()));
        ending.asked().is_none()
    });
    spinner.end();
    let observed = observed.context("cannot survey this host")?;
    let running = observed.processes.iter().filter(|process| process.is_running);
    let counter_reads = counter_reads::of_processes(running.map(|process| process.pid).collect());
    Ok(SurveyReport { counter_reads, ..report::report(&observed, &survey.code) })
}
