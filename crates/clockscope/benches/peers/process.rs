//! Programs that the suite starts: waited for with a limit, never left behind.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// A running program in a process group of its own.
pub(crate) struct Running {
    child: Child,
    name: String,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    started: Instant,
    reaped: bool,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
    /// From the start to the end of the output.
    pub(crate) wall: Duration,
}

impl Running {
    /// Starts a program with its arguments; its input stays open until [`Self::close_input`].
    pub(crate) fn start(command: &[OsString]) -> Result<Self> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let name = program.to_string_lossy().into_owned();
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .envs([("LC_ALL", "C"), ("PYTHONUNBUFFERED", "1"), ("DEBUGINFOD_URLS", "")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        let input = child.stdin.take();
        let stdout = child.stdout.take().context("no standard output")?;
        let mut stderr = child.stderr.take().context("no standard error")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth showing.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self { child, name, input, lines, errors: Some(errors), started, reaped: false })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of its output that contains `text`, and returns that line.
    pub(crate) fn wait_for_line(&mut self, text: &str, limit: Duration) -> Result<String> {
        let end = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{} did not say {text:?} in {limit:?}", self.name)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.kill_group();
                    let said = self.take_errors();
                    bail!("{} ended before it said {text:?}: {}", self.name, ends_of(&said));
                }
            }
        }
    }

    /// Sends it an empty line.
    pub(crate) fn send_line(&mut self) -> Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        input.write_all(b"\n").context("failed to write to its input")
    }

    /// Lets its input end.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends it, not its group, a signal by name.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        send_signal(name, &self.pid().to_string())
    }

    /// Waits for its end; after `limit` kills its group and fails.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<Finished> {
        self.close_input();
        let end = Instant::now() + limit;
        let mut stdout = String::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => stdout.extend([line.as_str(), "\n"]),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{} did not end within {limit:?}", self.name)
                }
            }
        }
        let status = self.child.wait().context("failed to wait")?;
        let wall = self.started.elapsed();
        self.reaped = true;
        Ok(Finished { stdout, stderr: self.take_errors(), status, wall })
    }

    fn take_errors(&mut self) -> String {
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn kill_group(&mut self) {
        if !self.reaped {
            // Nothing is left to do if the group is gone already.
            let _ = send_signal("KILL", &format!("-{}", self.pid()));
            let _ = self.child.wait();
            self.reaped = true;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Runs a command to its end; fails unless it succeeds.
pub(crate) fn run(command: &[OsString], limit: Duration) -> Result<Finished> {
    let finished = run_any(command, limit)?;
    ensure!(
        finished.status.success(),
        "{} failed ({}): {}",
        command[0].to_string_lossy(),
        finished.status,
        ends_of(&finished.stderr)
    );
    Ok(finished)
}

/// Runs a command to its end, whatever its exit status.
pub(crate) fn run_any(command: &[OsString], limit: Duration) -> Result<Finished> {
    Running::start(command)?.finish(limit)
}

/// Splits a command line at spaces; for commands without spaces in their arguments.
pub(crate) fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// Sends a signal by name; a `target` that starts with `-` is a process group.
pub(crate) fn send_signal(name: &str, target: &str) -> Result<()> {
    let arguments = ["-s", name, "--", target];
    let status = Command::new("/bin/kill").args(arguments).stderr(Stdio::null()).status();
    ensure!(status.context("failed to run kill")?.success(), "no process {target} to signal");
    Ok(())
}

/// The first line that says something.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing")
}

/// The first and the last line that say something: tools put the reason in either.
fn ends_of(text: &str) -> String {
    let first = first_line(text);
    match text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
        Some(last) if last != first => format!("{first} ... {last}"),
        _ => first.to_owned(),
    }
}
