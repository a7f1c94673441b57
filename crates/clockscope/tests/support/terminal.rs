//! Runs programs in a terminal: `script` makes the terminal, and the test types and reads.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use super::running::HUNG_AFTER;
use super::{installed_or_skip, running};

/// A program in a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Starts a command line in a new terminal. The command replaces the shell that reads the line, because a waiting
    /// shell would be killed by Ctrl-C.
    ///
    /// SIGHUP has its default action in the terminal, even if the tests run under nohup.
    pub(crate) fn start(command: &str) -> Option<Self> {
        let script = installed_or_skip(&["/usr/bin/script"])?;
        let mut child = Command::new("env")
            .arg("--default-signal=HUP")
            .arg(script)
            .args(["--quiet", "--return", "--command", &format!("exec {command}"), "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start script");
        let keyboard = child.stdin.take().expect("is piped");
        let screen = lines_of(child.stdout.take().expect("is piped"));
        Some(Self { child, keyboard, screen, shown: String::new() })
    }

    /// Types text, or control characters.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("type");
        self.keyboard.flush().expect("type");
    }

    /// Waits until the terminal shows this text, from where the last call found its own.
    ///
    /// # Panics
    ///
    /// If the program ends or hangs first.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            match self.screen.recv_timeout(HUNG_AFTER) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill().expect("end a hung terminal");
                    panic!("hangs; waited for {text:?}, have {:?}", self.shown);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended; waited for {text:?}, have {:?}", self.shown);
                }
            }
        }
        let end = self.shown.find(text).expect("was found") + text.len();
        self.shown.drain(..end);
    }

    /// Waits for these texts, one after the other.
    #[track_caller]
    pub(crate) fn wait_for_each(&mut self, texts: &[&str]) {
        texts.iter().for_each(|text| self.wait_for(text));
    }

    /// Types each of these texts when the terminal shows what stands before it.
    #[track_caller]
    pub(crate) fn answer(&mut self, dialogue: &[(&str, &str)]) {
        for (shown, keys) in dialogue {
            self.wait_for(shown);
            self.press(keys);
        }
    }

    /// Takes the terminal away from its programs, as closing a window does.
    pub(crate) fn vanish(mut self) {
        self.child.kill().expect("end the terminal");
        self.child.wait().expect("wait for script");
    }

    /// Waits for the end; gives the command's exit status.
    #[track_caller]
    pub(crate) fn finish(mut self) -> i32 {
        while self.screen.recv_timeout(HUNG_AFTER).is_ok() {}
        let status = self.child.wait().expect("wait for script");
        drop(self.keyboard);
        running::code_as_shell(status)
    }
}

/// One shell command line with each word quoted.
pub(crate) fn quoted(words: &[OsString]) -> String {
    let quote = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The shell command line of a tracing command.
pub(crate) fn command_line(tracing: &running::Tracing) -> String {
    quoted(&tracing.words())
}

fn lines_of(mut screen: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
