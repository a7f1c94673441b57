//! A traced command with a daemon that outlives it: `site_places` and `tree`.

use std::fs::{self, File};
use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::running::{Report, Tracing};

/// A command whose daemon waits at a gate.
pub(crate) struct Daemon {
    pub(crate) tracing: Tracing,
    /// The FIFO that the daemon opens before it goes on.
    pub(crate) gate: PathBuf,
    directory: TempDir,
}

impl Daemon {
    /// Prepares a trace of the program in this mode.
    pub(crate) fn new(options: &[&str], program: &Path, mode: &str) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        let gate = directory.path().join("gate");
        assert!(Command::new("mkfifo").arg(&gate).status().expect("run mkfifo").success());
        let mut tracing = Tracing::new(options, &words![program, mode, gate]);
        // Output goes to files, because the daemon keeps pipes open and the test would wait for their end.
        let file = |name| File::create(directory.path().join(name)).expect("create a file");
        tracing.command.stdout(file("stdout")).stderr(file("stderr"));
        Self { tracing, gate, directory }
    }

    /// Runs clockscope, which ends with the command; gives a pipe that ends when the daemon has ended.
    #[track_caller]
    pub(crate) fn is_left(&mut self) -> PipeReader {
        let (alive, held_by_the_daemon) = std::io::pipe().expect("make a pipe");
        let command = self.tracing.command.stdin(held_by_the_daemon);
        let status = command.status().expect("run clockscope");
        command.stdin(Stdio::null());
        assert_eq!(status.code(), Some(3), "clockscope ends with the command, before the daemon");
        alive
    }

    /// clockscope's report.
    #[track_caller]
    pub(crate) fn report(&self) -> Report {
        Report::read(self.tracing.report_path()).expect("a report")
    }

    /// Opens the gate, so that the daemon goes on to its end. Returns when the daemon has opened it too.
    pub(crate) fn let_go(&self) {
        File::options().write(true).open(&self.gate).expect("open the gate");
    }

    /// What the command and the daemon have written to `stdout` or `stderr` so far.
    pub(crate) fn wrote(&self, to: &str) -> String {
        fs::read_to_string(self.directory.path().join(to)).expect("read what it wrote")
    }
}
