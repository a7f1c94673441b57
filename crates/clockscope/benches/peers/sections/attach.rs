//! How long a program stands still when a tool attaches to it, and how long the user waits for that.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::figure::{Target, Unit, or_dash, ratio, show, typical, verdict};
use crate::page::Page;
use crate::process::{self, Running};
use crate::suite::Suite;
use crate::tools::{is_installed, missing};

const LIMIT: Duration = Duration::from_secs(60);
/// Threads, and the longest pause for attaching that is aimed at, ms.
const SIZES: [(usize, Option<f64>); 4] =
    [(2, None), (10, Some(2.0)), (100, None), (1000, Some(20.0))];

/// Milliseconds by round: clockscope's pauses for attaching and detaching by its own report, and the largest gap that
/// the program saw meanwhile.
type Columns = [Vec<Option<f64>>; 3];

/// Rows of the table, with a tool that must be installed ("": none) and the command line: CLOCKSCOPE, PID and FILE stand
/// for the program, the target and the summary.
const ALL: [[&str; 3]; 4] = [
    ["nobody, for as long", "", "sleep 0.2"],
    [
        "clockscope trace --via none -p PID",
        "",
        "CLOCKSCOPE trace --via none -p PID --duration 0.2 --format json -o FILE",
    ],
    [
        "strace -c -f -e trace=none -p PID",
        "strace",
        "timeout -s INT 0.2 strace -c -f -e trace=none -o FILE -p PID",
    ],
    ["gdb -p PID, detach", "gdb", "gdb -q -nx -batch -p PID -ex detach"],
];

/// The words of a command line.
fn words(suite: &Suite, line: &str, pid: u32) -> Vec<OsString> {
    let word = |word: &str| match word {
        "CLOCKSCOPE" => suite.tools.clockscope.clone().into(),
        "PID" => pid.to_string().into(),
        "FILE" => suite.path("attached").into(),
        word => word.into(),
    };
    line.split(' ').map(word).collect()
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
        let rows = measure(suite, threads, rounds)?;
        let cell = |figure| show(&figure, Unit::Millis);
        let cells = |columns: &Columns| {
            columns.each_ref().map(|of| typical(of).map_or_else(String::new, cell))
        };
        let table = rows
            .iter()
            .map(|(name, columns)| [vec![(*name).to_owned()], cells(columns).to_vec()].concat());
        page.table(
            &["who", "pause, attach, ms", "pause, detach, ms", "largest gap, ms"],
            &table.collect::<Vec<_>>(),
        );
        if let (Some(limit), Some((_, [attach, ..]))) = (limit, rows.get(1)) {
            let what = format!("pause for attaching to {threads} threads");
            page.verdict(&verdict(&what, Target::AtMost(limit), Unit::Millis, typical(attach)));
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
    if let Some(reason) = missing(&["strace"]) {
        page.text(&reason);
        return Ok(());
    }
    let program: OsString = suite.workloads.attached.clone().into();
    let mut program = Running::start(&[program, "20".into(), "idle".into()])?;
    program.wait_for_line("ready", LIMIT)?;
    let mut times: [Vec<Option<f64>>; 4] = Default::default();
    for _ in 0..suite.options.choose(31, 3) {
        for (way, times) in WAYS.iter().zip(&mut times) {
            times.push(until_attached(&words(suite, way, program.pid()))?);
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

fn measure(suite: &Suite, threads: usize, rounds: usize) -> Result<Vec<(&'static str, Columns)>> {
    let program: OsString = suite.workloads.attached.clone().into();
    let mut program = Running::start(&[program, threads.to_string().into()])?;
    program.wait_for_line("ready", LIMIT)?;
    let installed = ALL.into_iter().filter(|[_, tool, _]| tool.is_empty() || is_installed(tool));
    let mut rows: Vec<_> =
        installed.map(|[name, _, line]| (name, line, Columns::default())).collect();
    for _ in 0..rounds {
        for (_, line, columns) in &mut rows {
            let found = attach(suite, &mut program, line)?;
            columns.iter_mut().zip(found).for_each(|(column, figure)| column.push(figure));
        }
    }
    program.finish(LIMIT)?;
    Ok(rows.into_iter().map(|(name, _, columns)| (name, columns)).collect())
}

/// A figure of each column.
fn attach(suite: &Suite, program: &mut Running, line: &str) -> Result<[Option<f64>; 3]> {
    gap(program)?;
    process::run_any(&words(suite, line, program.pid()), LIMIT)?;
    let gap = Some(gap(program)?);
    if !line.starts_with("CLOCKSCOPE ") {
        return Ok([None, None, gap]);
    }
    let text =
        std::fs::read_to_string(suite.path("attached")).context("clockscope wrote no report")?;
    let report: serde_json::Value = serde_json::from_str(&text)?;
    let ms = |name: &str| report["attached"][0][name].as_f64().map(|ns| ns / 1e6);
    Ok([Some(ms("pause_ns").context("no pause")?), ms("detach_pause_ns"), gap])
}

/// The largest gap that the program has seen since it was asked before, ms.
fn gap(program: &mut Running) -> Result<f64> {
    program.send_line()?;
    let line = program.wait_for_line("gap ", LIMIT)?;
    let us = line.split(' ').nth(1).context("no number")?;
    Ok(us.parse::<f64>()? / 1e3)
}
