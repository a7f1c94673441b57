//! Running `clockscope` to its end, and the files of the repository that it is given.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::running::{clockscope, finish};

/// What a run said, and its status.
#[derive(Debug)]
pub(crate) struct Said {
    /// The status; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard output.
    pub(crate) stdout: String,
    /// What it wrote to standard error.
    pub(crate) stderr: String,
}

impl Said {
    /// Reads what a process has left, which must be UTF-8 whatever it was given.
    #[track_caller]
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8, whatever was read");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What a run printed that found nothing wrong.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// Checks that it was refused: this status, one line on standard error that has all these words, nothing else.
    #[track_caller]
    pub(crate) fn is_refused(&self, code: i32, words: &[&str]) {
        let lines = (self.stderr.lines().count(), &*self.stdout);
        assert_eq!((self.code, lines), (Some(code), (1, "")), "{self:?}");
        assert!(self.stderr.starts_with("clockscope: "), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word}: {self:?}");
        }
    }
}

/// Runs clockscope.
#[track_caller]
pub(crate) fn said(words: &[&str]) -> Said {
    said_in(Path::new("."), words, "")
}

/// Runs it in a folder, with this standard input.
#[track_caller]
pub(crate) fn said_in(folder: &Path, words: &[&str], input: &str) -> Said {
    let mut command = Command::new(clockscope());
    command.args(words).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start clockscope");
    // One that does not read it may have ended already.
    let _ = child.stdin.take().expect("is piped").write_all(input.as_bytes());
    Said::of(finish(child))
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// A file below `fixtures`.
pub(crate) fn fixture(path: &str) -> String {
    root().join("fixtures").join(path).to_str().expect("UTF-8").to_owned()
}
