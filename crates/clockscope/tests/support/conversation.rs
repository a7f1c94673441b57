//! A program that answers lines: the servers of `attach_server.c` and of its relatives in other languages.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use super::printed::Printed;
use super::running::{HUNG_AFTER, Killed};

/// A running program whose standard input and output are pipes to the test.
pub(crate) struct Conversation {
    child: Killed,
    /// `None` after the end of the input.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Conversation {
    /// Starts a program and waits for its line "ready".
    #[track_caller]
    pub(crate) fn start(command: &[OsString]) -> Self {
        let mut conversation = Self::start_silent(command);
        conversation.wait_for("ready");
        conversation
    }

    /// Starts a program.
    #[track_caller]
    pub(crate) fn start_silent(command: &[OsString]) -> Self {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a server");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child: Killed(child), input, lines }
    }

    /// The program's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.0.id().try_into().expect("is a pid")
    }

    /// Whether the program still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.0.try_wait(), Ok(None))
    }

    /// Sends a line to the program.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        if let Err(error) = send_line(input, line) {
            let said: Vec<String> = self.lines.try_iter().collect();
            panic!("nobody reads `{line}`: {error}; {} {said:?}", self.state());
        }
    }

    /// The program's next line.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(HUNG_AFTER) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the server does not answer: {}", self.state())
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the server has ended: {}", self.state()),
        }
    }

    /// The program's lines before the line `last`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, last: &str) -> String {
        let text = self.until(|line| line == last);
        text[..text.len() - last.len() - 1].to_owned()
    }

    /// The program's lines up to the first one that `is_last`.
    #[track_caller]
    pub(crate) fn until(&mut self, is_last: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        loop {
            let line = self.line();
            text.extend([line.as_str(), "\n"]);
            if is_last(&line) {
                return text;
            }
        }
    }

    /// Sends a line and gives the lines before "done".
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.wait_for("done")
    }

    /// Starts the counted time of the server's workers.
    #[track_caller]
    pub(crate) fn begin(&mut self) {
        self.say("begin");
        assert_eq!(self.line(), "begun");
    }

    /// Ends the counted time; gives the calls that the workers made in it.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Printed {
        Printed::parse(&self.ask("end"))
    }

    /// Lets the server answer a question in the counted time; gives the calls of its workers.
    #[track_caller]
    pub(crate) fn works(&mut self, number: u64) -> Printed {
        self.begin();
        self.check_an_answer(number);
        self.end()
    }

    /// Asks for a sum, and checks the answer.
    #[track_caller]
    pub(crate) fn check_an_answer(&mut self, number: u64) {
        self.say(&format!("sum {number}"));
        assert_eq!(self.line(), format!("sum {number} {}", checksum(number)));
    }

    /// Checks that no time has run backwards in the server, and that it found nothing wrong.
    #[track_caller]
    pub(crate) fn check_health(&mut self) {
        self.say("health");
        assert_eq!(self.line(), "health backwards 0 wrong 0");
    }

    /// Ends the program's input, and checks that the program ends well.
    #[track_caller]
    pub(crate) fn ends_well(mut self) {
        drop(self.input.take());
        assert_eq!(self.line(), "result ended well backwards 0 wrong 0");
        assert_eq!(self.status().code(), Some(7));
    }

    /// Checks that the server still answers, and that it ends well.
    #[track_caller]
    pub(crate) fn goes_on_and_ends_well(mut self) {
        self.check_an_answer(1);
        self.ends_well();
    }

    /// Ends the program's input; gives the remaining output and the exit status.
    #[track_caller]
    pub(crate) fn last_words(mut self) -> (String, ExitStatus) {
        drop(self.input.take());
        let mut said = String::new();
        loop {
            match self.lines.recv_timeout(HUNG_AFTER) {
                Ok(line) => said.extend([line.as_str(), "\n"]),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the server hangs: {}", self.state()),
            }
        }
        (said, self.child.0.wait().expect("wait for a server"))
    }

    /// Ends the program's input, skips the remaining output, and gives the exit status.
    #[track_caller]
    pub(crate) fn status(self) -> ExitStatus {
        self.last_words().1
    }

    /// The program's state by `/proc/PID/status`, for messages.
    fn state(&mut self) -> String {
        let ended = self.child.0.try_wait();
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let lines = status.unwrap_or_default();
        let wanted = ["State:", "TracerPid:", "Threads:", "SigBlk:"];
        let kept = lines.lines().filter(|line| wanted.iter().any(|word| line.starts_with(word)));
        format!("{ended:?} {}", kept.collect::<Vec<_>>().join(" "))
    }
}

/// Sends a line in one write, because the program may answer or end as soon as it has read a part.
pub(crate) fn send_line(input: &mut impl Write, line: &str) -> io::Result<()> {
    input.write_all(format!("{line}\n").as_bytes())
}

/// The servers' answer to `sum NUMBER`.
fn checksum(number: u64) -> u64 {
    (0..1000).fold(14_695_981_039_346_656_037, |mixed: u64, step| {
        (mixed ^ number.wrapping_add(step)).wrapping_mul(1_099_511_628_211)
    })
}
