//! One launch: a fresh process that measures and prints its batches for the process that compares launches.
//! The output is one JSON record a line, written after all measuring, except for progress.

use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::Request;
use super::chosen;
use crate::batch;
use crate::path::Path;
use crate::rounds::{self, Measured, Paths, RoundsPlan};
use crate::system_calls::Chosen;
use clockscope_model::bench::{PathDecline, PathName};
use clockscope_stats::gate::Batch;
use clockscope_sys::affinity;

/// A record of a launch's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Message {
    /// Progress of the launch. If standard input is a pipe, the launch waits for one byte before it goes on,
    /// and the parent does not run while the launch measures.
    Progress {
        /// Share of the work that is done, from 0 to 1.
        share: f64,
    },
    /// The CPU that was measured on, or the reason why the launch was not pinned.
    Pinned {
        /// The CPU; `None` if pinning was refused.
        cpu: Option<u32>,
        /// Reason why pinning was refused.
        refused: Option<String>,
    },
    /// A path that was measured.
    Path {
        /// Name of the path.
        #[serde(flatten)]
        name: PathName,
        /// Calls in total: for calibration, warm-up and batches.
        calls_made: u64,
    },
    /// A batch; those of a path follow in the order of the rounds.
    Batch {
        /// Name of the path.
        #[serde(flatten)]
        name: PathName,
        /// What was measured.
        #[serde(flatten)]
        batch: Batch,
    },
    /// A path that was not measured.
    Decline(PathDecline),
    /// The last line.
    End {
        /// Rounds made.
        rounds: u32,
    },
}

/// Time for all launches of a usual run together. The target for the whole run is 15 seconds: half a second
/// is for the start and the evaluation, the rest is reserve for slow machines.
const TIME_LIMIT: Duration = Duration::from_millis(13_000);
/// Launches of a run; fewer would not show how much launches differ.
pub const LAUNCHES: u32 = 3;
/// Time for all launches of a quick run together.
const TIME_LIMIT_QUICK: Duration = Duration::from_millis(2_200);
/// Length of a batch of a quick run, in nanoseconds.
const BATCH_NS_QUICK: u64 = 50_000;
/// Shortest time between two records of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Limit for the rounds of a launch; with one path, time allows nearly as many.
const ROUNDS_MAX: u32 = 20_000;

/// The rounds of a launch and its limits of time.
pub fn plan(quick: bool) -> RoundsPlan {
    let (batch_ns, rounds_min, time_limit) = if quick {
        (BATCH_NS_QUICK, 60, TIME_LIMIT_QUICK / LAUNCHES)
    } else {
        (batch::BATCH_NS, 200, TIME_LIMIT / LAUNCHES)
    };
    RoundsPlan {
        batch_ns,
        rounds_min,
        rounds_max: ROUNDS_MAX,
        time_min: time_limit / 5,
        accepted_min: 30,
        unbeaten_min: 50,
        time_limit,
    }
}

/// Measures as a launch on `cpu` (`None`: the current CPU), and writes the results.
///
/// # Errors
///
/// When a name does not exist, or the reader of the output is gone.
pub fn run(request: &Request, cpu: Option<u32>, mut out: impl Write) -> Result<()> {
    let chosen = chosen::choose(request)?;
    let (cpu, refused) = pin(cpu, &affinity::restrict_to);
    let measured = measure(&chosen.paths, &plan(request.quick), &mut out);
    measured
        .and_then(|measured| {
            write(&mut out, &Message::Pinned { cpu, refused })?;
            write_all(&mut out, &chosen, &measured)
        })
        .context("cannot write the batches to standard output")
}

/// Pins the thread to `cpu` (`None`: the current CPU). Returns the CPU, or the reason why pinning was refused.
fn pin(
    cpu: Option<u32>,
    restrict_to: &dyn Fn(&[u32]) -> io::Result<()>,
) -> (Option<u32>, Option<String>) {
    let cpu = cpu.unwrap_or_else(affinity::current);
    match restrict_to(&[cpu]) {
        Ok(()) => (Some(cpu), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn measure(paths: &[Path], plan: &RoundsPlan, out: &mut impl Write) -> io::Result<Measured> {
    let mut said = Instant::now();
    let mut answers = (!io::stdin().is_terminal()).then(io::stdin);
    let mut between = |share: f64| -> io::Result<()> {
        let Some(stdin) = answers.as_mut() else { return Ok(()) };
        if said.elapsed() < PROGRESS_EVERY {
            return Ok(());
        }
        write(out, &Message::Progress { share })?;
        out.flush()?;
        if stdin.read(&mut [0])? == 0 {
            answers = None;
        }
        said = Instant::now();
        Ok(())
    };
    rounds::run(&mut Paths::new(paths), plan, &mut between)
}

fn write_all(out: &mut impl Write, chosen: &Chosen, measured: &Measured) -> io::Result<()> {
    for (path, calls_made) in chosen.paths.iter().zip(&measured.calls_made) {
        write(out, &Message::Path { name: path.name.clone(), calls_made: *calls_made })?;
    }
    for raw in &measured.batches {
        let name = chosen.paths[raw.path].name.clone();
        write(out, &Message::Batch { name, batch: raw.sample })?;
    }
    for declined in chosen.declined.iter().cloned().chain(chosen.answers.changed()) {
        write(out, &Message::Decline(declined))?;
    }
    write(out, &Message::End { rounds: measured.rounds })?;
    out.flush()
}

fn write(out: &mut impl Write, message: &Message) -> io::Result<()> {
    serde_json::to_writer(&mut *out, message)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_pinning_is_said_and_nothing_more() {
        let refuse = |_: &[u32]| Err(io::Error::from_raw_os_error(libc::EPERM));
        let (cpu, refused) = pin(Some(1), &refuse);
        assert_eq!((cpu, refused.as_deref()), (None, Some("Operation not permitted (os error 1)")));
        assert_eq!(pin(Some(1), &|_| Ok(())), (Some(1), None));
    }

    #[test]
    fn a_message_is_one_line_and_comes_back() {
        let name = PathName { clock: Some("rdtsc".into()), call: None, route: "tsc".into() };
        let messages = [
            Message::Progress { share: 0.5 },
            Message::Pinned { cpu: None, refused: Some("no".into()) },
            Message::Path { name: name.clone(), calls_made: 7 },
            Message::Batch { name: name.clone(), batch: Batch { ns: 3, ..Batch::default() } },
            Message::Decline(PathDecline { name, reason: "it is not there".into() }),
            Message::End { rounds: 3 },
        ];
        let mut out = Vec::new();
        for message in &messages {
            write(&mut out, message).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        let back: Vec<Message> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(back, messages);
    }
}
