//! How long a program stands still when a tool attaches to it, and how long the user waits for that.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::figure::{Target, Unit, or_dash, ratio, show, typical, verdict};
use crate::page::Page;
use crate::process::{self, Running};
use crate::suite::Suite;
use crate::tools::is_installed;

const LIMIT: Duration = Duration::from_secs(60);
/// Threads, and the longest pause for attaching that is aimed at, ms.
const SIZES: [(usize, Option<f64>); 4] =
    [(2, None), (10, Some(2.0)), (100, None), (1000, Some(20.0))];

/// What one attachment gave.
struct Attachment {
    /// What clockscope says of its own pauses, ms.
    paused: Option<[f64; 2]>,
    /// The largest gap that the program saw while a tool attached and detached, ms.
    gap: f64,
}

/// The tool that attaches.
#[derive(Clone, Copy)]
struct Who {
    name: &'static str,
    /// The program that must be installed.
    program: Option<&'static str>,
    /// The command line, in which CLOCKSCOPE, PID and FILE stand for the program, the target and the summary.
    command: &'static str,
}

const ALL: [Who; 4] = [
    Who { name: "nobody, for as long", program: None, command: "sleep 0.2" },
    Who {
        name: "clockscope trace --via none -p PID",
        program: None,
        command: "CLOCKSCOPE trace --via none -p PID --duration 0.2 --format json -o FILE",
    },
    Who {
        name: "strace -c -f -e trace=none -p PID",
        program: Some("strace"),
        command: "timeout -s INT 0.2 strace -c -f -e trace=none -o FILE -p PID",
    },
    Who {
        name: "gdb -p PID, detach",
        program: Some("gdb"),
        command: "gdb -q -nx -batch -p PID -ex detach",
    },
];

impl Who {
    fn is_clockscope(self) -> bool {
        self.command.starts_with("CLOCKSCOPE ")
    }

    fn command(self, suite: &Suite, pid: u32, summary: &Path) -> Vec<OsString> {
        let word = |word: &str| match word {
            "CLOCKSCOPE" => suite.tools.clockscope.clone().into(),
            "PID" => pid.to_string().into(),
            "FILE" => summary.into(),
            word => word.into(),
        };
        self.command.split(' ').map(word).collect()
    }
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Attaching to a running program");
    page.text(
        "The program's threads wake every 5 ms and read the clock; one looks for gaps without pause. *Pause* is what \
         clockscope reports: from the first stop to the last resumption of a thread. *Largest gap* is what the program \
         saw of attaching and detaching together; on a busy CPU other threads make gaps too, as the row *nobody* shows.",
    );
    for (threads, limit) in SIZES {
        page.heading(3, &format!("{threads} threads"));
        let rounds = suite.options.choose(15, 3);
        let columns = measure(suite, threads, rounds)?;
        page.table(
            &["who", "pause, attach, ms", "pause, detach, ms", "largest gap, ms"],
            &rows(&columns),
        );
        if let (Some(limit), Some((_, own))) = (limit, columns.get(1)) {
            let attach = pauses(own, 0);
            let what = format!("pause for attaching to {threads} threads");
            page.verdict(&verdict(&what, Target::AtMost(limit), Unit::Millis, typical(&attach)));
        }
    }
    until_it_counts(suite, page)
}

/// The time from the start of a tool until it says that it has attached to 20 threads that wait.
fn until_it_counts(suite: &Suite, page: &mut Page) -> Result<()> {
    const WAYS: [&str; 4] = [
        "strace -f -p PID",
        "CLOCKSCOPE trace --via none -p PID",
        "CLOCKSCOPE trace --via sites -p PID",
        "CLOCKSCOPE trace --via bpf -p PID",
    ];
    page.heading(3, "Until it counts in an idle program with 20 threads");
    let program: OsString = suite.workloads.attached.clone().into();
    let mut program = Running::start(&[program, "20".into(), "idle".into()])?;
    program.wait_for_line("ready", LIMIT)?;
    let (own, pid) = (suite.tools.clockscope.to_string_lossy(), program.pid().to_string());
    let mut times: [Vec<Option<f64>>; 4] = Default::default();
    for _ in 0..suite.options.choose(31, 3) {
        for (way, times) in WAYS.iter().zip(&mut times) {
            let words = process::words(&way.replace("CLOCKSCOPE", &own).replace("PID", &pid));
            times.push(until_attached(&words)?);
        }
    }
    let row = |(way, own): (&&str, &Vec<Option<f64>>)| {
        let cell = |figure: Option<_>, unit| or_dash(figure.map(|figure| show(&figure, unit)));
        let over = ratio(&times[0], own);
        vec![(*way).to_owned(), cell(typical(own), Unit::Millis), cell(over, Unit::Ratio)]
    };
    page.table(
        &["who", "until it says so, ms", "to strace"],
        &WAYS.iter().zip(&times).map(row).collect::<Vec<_>>(),
    );
    let none = ratio(&times[0], &times[1]);
    page.verdict(&verdict("attaching until it counts", Target::AtMost(1.5), Unit::Ratio, none));
    Ok(())
}

/// Milliseconds until a tool says that it has attached; `None` if it ends without a word of that.
fn until_attached(words: &[OsString]) -> Result<Option<f64>> {
    let started = Instant::now();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut tool = command.spawn().with_context(|| format!("failed to start {words:?}"))?;
    let mut lines = BufReader::new(tool.stderr.take().context("no standard error")?).lines();
    let said = lines.by_ref().map_while(Result::ok).any(|line| line.contains("attached"));
    let time = said.then(|| started.elapsed().as_secs_f64() * 1e3);
    if said {
        process::send_signal("INT", &tool.id().to_string())?;
    }
    lines.for_each(drop);
    tool.wait().context("failed to wait")?;
    Ok(time)
}

fn measure(suite: &Suite, threads: usize, rounds: usize) -> Result<Vec<(Who, Vec<Attachment>)>> {
    let program: OsString = suite.workloads.attached.clone().into();
    let mut program = Running::start(&[program, threads.to_string().into()])?;
    program.wait_for_line("ready", LIMIT)?;
    let mut columns: Vec<(Who, Vec<Attachment>)> = ALL
        .into_iter()
        .filter(|who| who.program.is_none_or(is_installed))
        .map(|who| (who, Vec::new()))
        .collect();
    for _ in 0..rounds {
        for (who, attachments) in &mut columns {
            attachments.push(attach(suite, &mut program, *who)?);
        }
    }
    program.finish(LIMIT)?;
    Ok(columns)
}

fn attach(suite: &Suite, program: &mut Running, who: Who) -> Result<Attachment> {
    gap(program)?;
    let summary = suite.path("attached");
    process::run_any(&who.command(suite, program.pid(), &summary), LIMIT)?;
    let gap = gap(program)?;
    let paused = if who.is_clockscope() {
        let text = std::fs::read_to_string(&summary).context("clockscope wrote no report")?;
        let report: serde_json::Value = serde_json::from_str(&text)?;
        let row = &report["attached"][0];
        let ms = |name: &str| row[name].as_f64().map(|ns| ns / 1e6).context("no pause");
        Some([ms("pause_ns")?, ms("detach_pause_ns")?])
    } else {
        None
    };
    Ok(Attachment { paused, gap })
}

/// The largest gap that the program has seen since it was asked before, ms.
fn gap(program: &mut Running) -> Result<f64> {
    program.send_line()?;
    let line = program.wait_for_line("gap ", LIMIT)?;
    let us = line.split(' ').nth(1).context("no number")?;
    Ok(us.parse::<f64>()? / 1e3)
}

fn pauses(attachments: &[Attachment], which: usize) -> Vec<Option<f64>> {
    attachments.iter().map(|attachment| Some(attachment.paused?[which])).collect()
}

fn rows(columns: &[(Who, Vec<Attachment>)]) -> Vec<Vec<String>> {
    let cell = |values: &[Option<f64>]| {
        typical(values).map_or_else(String::new, |figure| show(&figure, Unit::Millis))
    };
    let row = |(who, attachments): &(Who, Vec<Attachment>)| {
        let gaps: Vec<Option<f64>> =
            attachments.iter().map(|attachment| Some(attachment.gap)).collect();
        vec![
            who.name.to_owned(),
            cell(&pauses(attachments, 0)),
            cell(&pauses(attachments, 1)),
            cell(&gaps),
        ]
    };
    columns.iter().map(row).collect()
}
