//! `--exact`: counts the reads of the most costly processes by attaching to them, one after another.
//!
//! Each is left to a `clockscope trace -p` of its own: what attaches, detaches and cleans up is the same, and no
//! fault of one process can reach the next.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::cli::survey::SurveyArgs;
use clockscope_containers::place::Place;
use clockscope_model::survey::{Exact, PassedOver, SurveyReport, SurveyRow};
use clockscope_model::trace::TraceReport;
use clockscope_survey::exact::{Candidate, reason, tracer};
use clockscope_survey::processes;
use clockscope_sys::proc_text;
use clockscope_text::foreign::Foreign;

/// How long each process is counted.
const SECONDS: &str = "1";

/// Counts `most` processes at most; says whether all could be counted.
///
/// # Errors
///
/// If there is no place for the reports in between.
pub(super) fn count(report: &mut SurveyReport, most: usize, args: &SurveyArgs) -> Result<bool> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder; set TMPDIR")?;
    let own = processes::own_line();
    let (mut passed_over, mut counted) = (Vec::new(), 0);
    for row in report.processes.iter_mut().filter(|row| row.reads.is_some()) {
        if counted == most {
            break;
        }
        let Some(pid) = row.pid else { continue };
        match count_one(row, pid, &own, args, folder.path()) {
            Ok(is_counted) => counted += usize::from(is_counted),
            Err((reason, has_failed)) => {
                let command = row.command.clone();
                passed_over.push(PassedOver { pid, command, reason, has_failed });
            }
        }
    }
    let complete = passed_over.iter().all(|one| !one.has_failed);
    report.passed_over = passed_over;
    Ok(complete)
}

/// Counts one process, if it is wanted; or says why not, and whether that is a failure.
fn count_one(
    row: &mut SurveyRow,
    pid: i32,
    own: &HashSet<i32>,
    args: &SurveyArgs,
    folder: &Path,
) -> Result<bool, (String, bool)> {
    let Some(candidate) = candidate(row, pid) else {
        return Err(("it has ended meanwhile".to_owned(), false));
    };
    if !candidate.is_wanted(&args.only) {
        return Ok(false);
    }
    if let Some(reason) = reason(&candidate, own, &args.exclude) {
        return Err((reason.to_string(), false));
    }
    row.exact = Some(traced(pid, folder).map_err(|reason| (reason, true))?);
    Ok(true)
}

/// What is known of a process now; `None` if it is gone, or is another one.
fn candidate(row: &SurveyRow, pid: i32) -> Option<Candidate> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let status = proc_text::read(format!("/proc/{pid}/status")).ok()?;
    if name.trim_end() != row.command.verbatim() {
        return None;
    }
    Some(Candidate { pid, names: names(&row.command, &row.place), tracer: tracer(&status) })
}

fn names(command: &Foreign, place: &Place) -> Vec<String> {
    let unit = place.unit.as_ref().map(|unit| unit.verbatim().to_owned());
    let container = place.container.as_ref();
    let id = container.map(|container| container.id.verbatim().to_owned());
    let name = container.and_then(|one| one.name.as_ref()).map(|name| name.verbatim().to_owned());
    let full = place.container_name();
    [Some(command.verbatim().to_owned()), unit, id, name, full].into_iter().flatten().collect()
}

/// Attaches for a second; gives what was counted, or a clause that says why nothing was.
fn traced(pid: i32, folder: &Path) -> Result<Exact, String> {
    let file = folder.join(format!("{pid}.json"));
    let output =
        run(pid, &file).map_err(|error| format!("cannot start clockscope trace: {error}"))?;
    let report = fs::read(&file).ok();
    let report: Option<TraceReport> = report.and_then(|text| serde_json::from_slice(&text).ok());
    let attached = report.and_then(|report| Some((report.attached.first()?.clone(), report)));
    let Some((attached, report)) = attached else {
        return Err(said(&String::from_utf8_lossy(&output.stderr)));
    };
    Ok(Exact {
        reads: report.clock_reads.reads,
        clocksource_reads: report.clock_reads.clocksource_reads,
        wall_ns: report.wall_ns,
        per_second: report.clock_reads.reads_per_second,
        pause_ns: attached.pause_ns,
        detach_pause_ns: attached.detach_pause_ns,
    })
}

fn run(pid: i32, file: &Path) -> io::Result<std::process::Output> {
    Command::new("/proc/self/exe")
        .args(["trace", "--via", "none", "--quiet", "--format", "json", "--duration", SECONDS])
        .args(["-p", &pid.to_string(), "-o"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?
        .wait_with_output()
}

/// The last reason that `trace` gave, without who gives it.
fn said(stderr: &str) -> String {
    let line = stderr.lines().rfind(|line| line.starts_with("clockscope: "));
    let line = line.map(|line| line.trim_start_matches("clockscope: "));
    let reason = line.map(|line| match line.strip_prefix("cannot attach to ") {
        Some(rest) => rest.split_once(": ").map_or(rest, |(_, reason)| reason),
        None => line,
    });
    reason.unwrap_or("clockscope trace gave no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_trace_is_repeated_without_the_name() {
        let stderr = "clockscope: cannot attach to redis (7): process 9 traces it; end that\n";
        assert_eq!(said(stderr), "process 9 traces it; end that");
        assert_eq!(said("clockscope: cannot start a timer\n"), "cannot start a timer");
        assert_eq!(said(""), "clockscope trace gave no reason");
    }
}
