//! `clockscope trace --top`: on a terminal, and in lines on a pipe.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::root_or_skip;
use crate::support::running::{HUNG_AFTER, Report, Tracing, code_as_shell};
use crate::support::terminal::{Terminal, command_line};
use tempfile::TempDir;

const OPTIONS: [&str; 3] = ["--via", "none", "--top"];
/// The screen begins with these texts.
const BEGINS: [&str; 3] = ["\x1b[?1049h", "clockscope", "quit"];

/// The sum of the numbers behind a name in clockscope's lines; the program's own lines have no time stamp.
fn said(lines: &str, name: &str) -> u64 {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).map_or(0, |calls| calls.parse().expect("a number"))
    };
    lines.lines().filter(|line| line.contains("Z +")).map(of_line).sum()
}

#[test]
fn lines_on_a_pipe_add_up_to_the_report() {
    let Some(program) = builds::c("waits", Link::Dynamic) else { return };
    let tracing = Tracing::new(&OPTIONS, &words![program]);
    let mut program = Conversation::start_silent(&tracing.words());
    let mut lines = program.until(|line| line.contains("ready"));
    lines += &program.until(|line| line.contains("vdso 0 syscalls 0"));
    program.say("one");
    lines += &program.until(|line| line.contains("clock_gettime(TAI) 503"));
    program.say("two\nthree");
    let (rest, status) = program.last_words();
    lines += &rest;
    assert_eq!(code_as_shell(status), 0, "{lines}");
    let report = Report::read(tracing.report_path()).expect("a report");
    assert_eq!(report.reads_of("CLOCK_TAI"), 3 * 503 + 211, "{lines}");
    assert_eq!(said(&lines, "clock_gettime(TAI)"), 3 * 503 + 211, "{lines}");
    assert_eq!(said(&lines, "vdso"), 3 * 503 + 211, "{lines}");
    assert_eq!(said(&lines, "syscalls"), 0, "{lines}");
}

#[test]
fn the_timeline_goes_up_and_ends_at_the_totals() {
    let Some(program) = builds::c("steady", Link::Dynamic) else { return };
    let report = crate::support::running::trace_vdso(&words![program]).report();
    let timeline = report.field("timeline").as_array().expect("a timeline").clone();
    let calls = |name: &str| -> Vec<u64> {
        timeline.iter().map(|moment| moment[name].as_u64().expect("a number")).collect()
    };
    for name in ["at_ns", "vdso_calls", "clock_reads"] {
        assert!(calls(name).is_sorted(), "{name}: {:?}", calls(name));
    }
    let total: u64 = report.vdso_rows().values().sum();
    assert!(total > 8 * 130_000, "{total}");
    assert_eq!(calls("vdso_calls").last(), Some(&total));
    assert_eq!(calls("at_ns").last(), Some(&report.number("wall_ns")));
}

/// A program on a terminal under `--top`, with a pipe for its input.
struct OnScreen {
    terminal: Terminal,
    tracing: Tracing,
    /// The program waits as long as this pipe is open.
    input: File,
    folder: TempDir,
}

impl OnScreen {
    /// Starts it, and lets it read one line.
    fn start() -> Option<Self> {
        let program = builds::c("waits", Link::Dynamic)?;
        let folder = tempfile::tempdir().expect("make a temporary directory");
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("run mkfifo").success());
        // Opened for reading and writing, because opening one end of a FIFO waits for the other.
        let input = File::options().read(true).write(true).open(&pipe).expect("open the pipe");
        let command = words!["sh", "-c", "exec \"$0\" < \"$1\"", program, pipe];
        let tracing = Tracing::new(&OPTIONS, &command);
        let script = folder.path().join("script");
        let (before, after) = (folder.path().join("before"), folder.path().join("after"));
        let text = format!(
            "stty rows 24 cols 80; stty -g > {}; {}; code=$?; stty -g > {}; exit $code\n",
            before.display(),
            command_line(&tracing),
            after.display()
        );
        std::fs::write(&script, text).expect("write a script");
        let mut terminal = Terminal::start(&format!("bash {}", script.display()))?;
        terminal.wait_for_each(&BEGINS);
        (&input).write_all(b"one\n").expect("write a line");
        terminal.wait_for("clock_gettime(TAI)");
        Some(Self { terminal, tracing, input, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for the end, and checks that the terminal has its old modes; gives the exit code and the report.
    fn finish(self) -> (i32, Option<Report>) {
        let modes = |path: &Path| std::fs::read_to_string(path).expect("the modes");
        let (before, after) = (self.path("before"), self.path("after"));
        let code = self.terminal.finish();
        assert!(modes(&before).len() > 10, "{}", modes(&before));
        assert_eq!(modes(&after), modes(&before));
        drop(self.input);
        (code, Report::read(self.tracing.report_path()))
    }
}

#[test]
fn when_the_terminal_is_gone_nothing_stays_behind() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let alive = folder.path().join("alive");
    assert!(Command::new("mkfifo").arg(&alive).status().expect("run mkfifo").success());
    let tracing = Tracing::new(&OPTIONS, &words!["sleep", "1d"]);
    let script = folder.path().join("script");
    let text = format!("exec 9>{}; exec {}\n", alive.display(), command_line(&tracing));
    std::fs::write(&script, text).expect("write a script");
    let Some(mut terminal) = Terminal::start(&format!("bash {}", script.display())) else { return };
    // Every program in the terminal holds the other end of this FIFO.
    let mut alive = File::open(&alive).expect("open the pipe");
    terminal.wait_for_each(&BEGINS);
    terminal.vanish();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(alive.read(&mut [0]).map_err(|error| error.kind())));
    assert_eq!(ended.recv_timeout(HUNG_AFTER), Ok(Ok(0)), "somebody still runs");
}

#[test]
fn the_screen_is_redrawn_and_q_leaves_the_program_alone() {
    let Some(mut screen) = OnScreen::start() else { return };
    let terminal = &mut screen.terminal;
    // Keys without a meaning, and an arrow, whose first byte is Escape.
    terminal.press("ps\x1b[B");
    screen.input.write_all(b"two\n").expect("write a line");
    terminal.wait_for("1,006 vdso");
    terminal.press("q");
    let goes_on = "goes on, and is counted no more";
    terminal.wait_for_each(&["\x1b[?1049l", "ready", "result line two", goes_on]);
    let (code, report) = screen.finish();
    assert_eq!(code, 0);
    assert_eq!(report.expect("a report").reads_of("CLOCK_TAI"), 2 * 503);
}

#[test]
fn ctrl_c_ends_the_program_and_the_screen() {
    let Some(mut screen) = OnScreen::start() else { return };
    screen.terminal.press("\x03");
    screen.terminal.wait_for_each(&["\x1b[?1049l", "caught SIGINT"]);
    let (code, report) = screen.finish();
    assert_eq!(code, 34);
    assert_eq!(report.expect("a report").reads_of("CLOCK_TAI"), 503 + 101);
}

#[test]
fn ctrl_z_gives_the_terminal_back_while_a_running_process_is_watched() {
    let Some(program) = builds::c("waits", Link::Dynamic) else { return };
    let Some(()) = root_or_skip() else { return };
    let shell = "env PS1='prompt: ' bash --norc --noprofile -i";
    let Some(mut terminal) = Terminal::start(shell) else { return };
    let mut running = Conversation::start(&words![program]);
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let path = folder.path().join("report.json");
    // Text typed before the shell has the terminal can be lost.
    terminal.wait_for("prompt: ");
    terminal.press(&format!(
        "stty rows 24 cols 80; {} trace -p {} --via none --top --format json -o {}\r",
        env!("CARGO_BIN_EXE_clockscope"),
        running.pid(),
        path.display()
    ));
    terminal.wait_for_each(&BEGINS);
    running.say("one");
    terminal.answer(&[("clock_gettime(TAI)", "\x1a")]);
    terminal.wait_for_each(&["\x1b[?1049l", "Stopped", "prompt: "]);
    running.say("two");
    terminal.press("fg\r");
    terminal.wait_for_each(&BEGINS);
    running.wait_for("result line two");
    terminal.press("q");
    terminal.wait_for("\x1b[?1049l");
    terminal.answer(&[("prompt: ", "exit $?\r")]);
    assert_eq!(terminal.finish(), 0);
    assert!(running.status().success());
    assert_eq!(Report::read(&path).expect("a report").reads_of("CLOCK_TAI"), 2 * 503);
}
