//! Runs launches, fresh processes of this program, one after another.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};

use super::Request;
use super::launch::Message;
use clockscope_model::bench::{PathDecline, PathName};
use clockscope_stats::gate::Batch;

/// This program, even if its file has been replaced.
const MYSELF: &str = "/proc/self/exe";

/// Results of all launches.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Measured paths, in order.
    pub names: Vec<PathName>,
    /// For each path and launch, the batches in the order of the rounds.
    pub batches: Vec<Vec<Vec<Batch>>>,
    /// Paths that could not be measured, with reasons.
    pub declines: Vec<PathDecline>,
    /// Rounds of each launch.
    pub rounds: Vec<u32>,
    /// CPU that all launches were pinned to.
    pub cpu: Option<u32>,
    /// Reason why pinning was refused.
    pub pinning_refused: Option<String>,
}

impl Collected {
    /// Adds a record of launch number `launch`; true for the last record.
    fn take(&mut self, launch: usize, message: Message) -> bool {
        match message {
            Message::Pinned { cpu, refused } => {
                self.cpu = cpu;
                self.pinning_refused = refused;
            }
            Message::Path { name, .. } if !self.names.contains(&name) => {
                self.names.push(name);
                self.batches.push(Vec::new());
            }
            Message::Batch { name, batch } => {
                if let Some(path) = self.names.iter().position(|known| *known == name) {
                    let launches = &mut self.batches[path];
                    launches.resize(launches.len().max(launch + 1), Vec::new());
                    launches[launch].push(batch);
                }
            }
            Message::Decline(decline) if !self.declines.contains(&decline) => {
                self.declines.push(decline);
            }
            Message::End { rounds } => {
                self.rounds.push(rounds);
                return true;
            }
            Message::Path { .. } | Message::Decline(_) | Message::Progress { .. } => {}
        }
        false
    }
}

/// Runs `count` launches one after another on `cpu` and collects their records. `show` gets the number of the
/// launch and its share done (0 to 1), while no launch measures.
///
/// # Errors
///
/// When a launch cannot be started or does not finish.
pub fn run(
    request: &Request,
    count: u32,
    cpu: u32,
    show: &mut dyn FnMut(u32, f64),
) -> Result<Collected> {
    let mut collected = Collected::default();
    for launch in 0..count {
        let what = || format!("launch {} of {count} failed", launch + 1);
        let mut child = start(request, cpu).with_context(what)?;
        let result = listen(&mut child, launch, &mut collected, show);
        // The launch's pipes are closed by now: it ends, or dies of SIGPIPE.
        let status = child.wait().with_context(what)?;
        if !status.success() {
            bail!("launch {} of {count} failed: {status}", launch + 1);
        }
        result.with_context(what)?;
    }
    Ok(collected)
}

fn start(request: &Request, cpu: u32) -> Result<Child> {
    let mut command = Command::new(MYSELF);
    command.args(["bench", "--as-launch", "--cpu", &cpu.to_string()]);
    if request.quick {
        command.arg("--quick");
    }
    if !request.routes.is_empty() {
        command.args(["--route", &request.routes.join(",")]);
    }
    command.arg("--").args(&request.names);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {MYSELF}; is /proc mounted?"))
}

fn listen(
    child: &mut Child,
    launch: u32,
    collected: &mut Collected,
    show: &mut dyn FnMut(u32, f64),
) -> Result<()> {
    let (Some(mut answers), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("it has no pipes");
    };
    let number = usize::try_from(launch)?;
    read(said, |message| {
        if let Message::Progress { share } = message {
            show(launch, share);
            // Lets the launch go on. If the launch is gone, its exit status shows that.
            let _ = answers.write_all(b"\n");
            return Ok(false);
        }
        Ok(collected.take(number, message))
    })
}

/// Passes each record to `take` until `take` reports the last one.
fn read(said: ChildStdout, mut take: impl FnMut(Message) -> Result<bool>) -> Result<()> {
    for line in BufReader::new(said).lines() {
        let message = serde_json::from_slice(line?.as_bytes())
            .context("it said what cannot be understood")?;
        if take(message)? {
            return Ok(());
        }
    }
    Err(anyhow!("it ended early"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(clock: &str, ns: u64) -> Message {
        Message::Batch { name: name(clock), batch: Batch { ns, ..Batch::default() } }
    }

    fn name(clock: &str) -> PathName {
        PathName { clock: Some(clock.into()), call: None, route: "vdso".into() }
    }

    #[test]
    fn batches_are_sorted_by_path_and_launch() {
        let mut collected = Collected::default();
        for launch in 0..2 {
            for clock in ["a", "b"] {
                collected.take(launch, Message::Path { name: name(clock), calls_made: 1 });
            }
            for (clock, ns) in [("a", 0), ("b", 0), ("b", 1), ("a", 1)] {
                assert!(!collected.take(launch, record(clock, ns)));
            }
            let reason = "no".to_owned();
            collected.take(launch, Message::Decline(PathDecline { name: name("c"), reason }));
            assert!(collected.take(launch, Message::End { rounds: 2 }));
        }
        assert_eq!(collected.names, [name("a"), name("b")]);
        assert_eq!((collected.rounds.as_slice(), collected.declines.len()), ([2, 2].as_slice(), 1));
        for path in 0..2 {
            let launches = collected.batches[path].iter();
            let times = launches.map(|launch| launch.iter().map(|batch| batch.ns).collect());
            assert_eq!(times.collect::<Vec<Vec<u64>>>(), [[0, 1], [0, 1]]);
        }
    }
}
