//! `clockscope trace --top`: on a terminal, and in lines on a pipe.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::builds::{self, Link};
use crate::support::root_or_skip;
use crate::support::running::{HUNG_AFTER, Report, Tracing, code_as_shell, finish};
use crate::support::terminal::{Terminal, command_line};
use tempfile::TempDir;

const OPTIONS: [&str; 3] = ["--via", "none", "--top"];

fn clock_reads(report: &Report) -> u64 {
    report.vdso_calls(&("clock_gettime".into(), "CLOCK_TAI".into()))
}

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
    let mut tracing = Tracing::new(&OPTIONS, &words![program]);
    let mut child = tracing.command.spawn().expect("start clockscope");
    let mut input = child.stdin.take().expect("is piped");
    let mut output = BufReader::new(child.stdout.take().expect("is piped"));
    let mut lines = String::new();
    let mut read_until = |wanted: &str| {
        let from = lines.len();
        while !lines[from..].contains(wanted) {
            assert!(output.read_line(&mut lines).expect("read a line") > 0, "ended: {lines}");
        }
        lines.clone()
    };
    read_until("ready");
    read_until("vdso 0 syscalls 0");
    input.write_all(b"one\n").expect("write a line");
    read_until("clock_gettime(TAI) 503");
    input.write_all(b"two\nthree\n").expect("write lines");
    drop(input);
    let mut lines = read_until("end of input");
    output.read_to_string(&mut lines).expect("read the rest");
    assert_eq!(code_as_shell(finish(child).status), 0, "{lines}");
    let report = Report::read(tracing.report_path()).expect("a report");
    assert_eq!(clock_reads(&report), 3 * 503 + 211, "{lines}");
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
    fn start() -> Option<Self> {
        let program = builds::c("waits", Link::Dynamic)?;
        let folder = tempfile::tempdir().expect("make a temporary directory");
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("run mkfifo").success());
        // Opened for reading and writing, because opening one end of a FIFO waits for the other.
        let input = File::options().read(true).write(true).open(&pipe).expect("open the pipe");
        let starter = ["sh", "-c", "exec \"$0\" < \"$1\""];
        let tracing = Tracing::new(
            &OPTIONS,
            &[&words![starter[0], starter[1], starter[2]][..], &words![program, pipe]].concat(),
        );
        let script = folder.path().join("script");
        let (before, after) = (folder.path().join("before"), folder.path().join("after"));
        let text = format!(
            "stty rows 24 cols 80; stty -g > {}; {}; code=$?; stty -g > {}; exit $code\n",
            before.display(),
            command_line(&tracing),
            after.display()
        );
        std::fs::write(&script, text).expect("write a script");
        let terminal = Terminal::start(&format!("bash {}", script.display()))?;
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
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("quit");
    terminal.vanish();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(alive.read(&mut [0]).map_err(|error| error.kind())));
    assert_eq!(ended.recv_timeout(HUNG_AFTER), Ok(Ok(0)), "somebody still runs");
}

#[test]
fn the_screen_is_redrawn_and_q_leaves_the_program_alone() {
    let Some(mut screen) = OnScreen::start() else { return };
    let terminal = &mut screen.terminal;
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("clockscope");
    terminal.wait_for("quit");
    screen.input.write_all(b"one\n").expect("write a line");
    terminal.wait_for("clock_gettime(TAI)");
    // Keys without a meaning, and an arrow, whose first byte is Escape.
    terminal.press("ps\x1b[B");
    screen.input.write_all(b"two\n").expect("write a line");
    terminal.wait_for("1,006 vdso");
    terminal.press("q");
    terminal.wait_for("\x1b[?1049l");
    terminal.wait_for("ready");
    terminal.wait_for("result line two");
    terminal.wait_for("goes on, and is counted no more");
    let (code, report) = screen.finish();
    assert_eq!(code, 0);
    assert_eq!(clock_reads(&report.expect("a report")), 2 * 503);
}

#[test]
fn ctrl_c_ends_the_program_and_the_screen() {
    let Some(mut screen) = OnScreen::start() else { return };
    let terminal = &mut screen.terminal;
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("quit");
    screen.input.write_all(b"one\n").expect("write a line");
    terminal.wait_for("clock_gettime(TAI)");
    terminal.press("\x03");
    terminal.wait_for("\x1b[?1049l");
    terminal.wait_for("caught SIGINT");
    let (code, report) = screen.finish();
    assert_eq!(code, 34);
    assert_eq!(clock_reads(&report.expect("a report")), 503 + 101);
}

#[test]
fn ctrl_z_gives_the_terminal_back_while_a_running_process_is_watched() {
    let Some(program) = builds::c("waits", Link::Dynamic) else { return };
    let Some(()) = root_or_skip() else { return };
    let Some(mut terminal) = Terminal::start("env PS1='prompt: ' bash --norc --noprofile -i")
    else {
        return;
    };
    let mut running = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the program");
    let mut input = running.stdin.take().expect("is piped");
    let mut output = BufReader::new(running.stdout.take().expect("is piped"));
    let mut said = String::new();
    output.read_line(&mut said).expect("read a line");
    assert_eq!(said, "ready\n");
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let path = folder.path().join("report.json");
    // Text typed before the shell has the terminal can be lost.
    terminal.wait_for("prompt: ");
    terminal.press(&format!(
        "stty rows 24 cols 80; {} trace -p {} --via none --top --format json -o {}\r",
        env!("CARGO_BIN_EXE_clockscope"),
        running.id(),
        path.display()
    ));
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("quit");
    input.write_all(b"one\n").expect("write a line");
    terminal.wait_for("clock_gettime(TAI)");
    terminal.press("\x1a");
    terminal.wait_for("\x1b[?1049l");
    terminal.wait_for("Stopped");
    terminal.wait_for("prompt: ");
    input.write_all(b"two\n").expect("write a line");
    terminal.press("fg\r");
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("quit");
    said.clear();
    while !said.contains("result line two") {
        assert!(output.read_line(&mut said).expect("read a line") > 0, "ended: {said}");
    }
    terminal.press("q");
    terminal.wait_for("\x1b[?1049l");
    terminal.wait_for("prompt: ");
    terminal.press("exit $?\r");
    assert_eq!(terminal.finish(), 0);
    drop(input);
    assert!(running.wait().expect("wait for the program").success());
    assert_eq!(clock_reads(&Report::read(&path).expect("a report")), 2 * 503);
}
