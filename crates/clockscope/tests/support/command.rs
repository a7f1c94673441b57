//! Runs `clockscope` to its end, and finds the files of the repository that tests give to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::running::{clockscope, with_input};

/// Exit status and output of a run.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit status; `None` if a signal ended the run.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Said {
    /// Decodes the output of a process, which must be UTF-8 whatever the input was.
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

    /// Standard output of a run that must have succeeded without complaint.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// Checks a refusal: this status, one line on standard error that has all these words, nothing else.
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

/// Runs clockscope in a folder, with this standard input.
#[track_caller]
pub(crate) fn said_in(folder: &Path, words: &[&str], input: &str) -> Said {
    let mut command = Command::new(clockscope());
    Said::of(with_input(command.args(words).current_dir(folder), input.as_bytes()))
}

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// Path of a file below `fixtures`.
pub(crate) fn fixture(path: &str) -> String {
    root().join("fixtures").join(path).to_str().expect("UTF-8").to_owned()
}
