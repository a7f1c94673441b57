//! Memory: what clockscope itself needs, and its size on disk.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::figure::exact_verdict;
use crate::page::Page;
use crate::process::{self, Running, first_line};
use crate::series::short_reason;
use crate::suite::Suite;
use crate::tracer::{STRACE, TRACE_TIME, TRACE_VDSO, Tracer};

const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Memory and size");
    resident(suite, page);
    on_disk(suite, page)
}

fn resident(suite: &Suite, page: &mut Page) {
    let members = suite.options.choose(1000, 200);
    page.heading(3, &format!("resident size of the tracer while {members} processes run at once"));
    let (mut rows, mut verdict) = (Vec::new(), String::new());
    for tracer in [TRACE_VDSO, TRACE_TIME, STRACE] {
        let found = match suite.refusal(tracer) {
            Some(reason) => Err(reason),
            None => peak_kib(suite, tracer, members).map_err(|error| format!("failed: {error:#}")),
        };
        if tracer == TRACE_TIME {
            verdict = peak_verdict(members, found.as_ref().ok().copied());
        }
        let cell = found.map_or_else(|reason| short_reason(&reason), |kib| kib.to_string());
        rows.push(vec![tracer.name(), cell]);
    }
    page.table(&["tracer", "VmRSS KiB"], &rows);
    page.verdict(&verdict);
}

fn peak_verdict(members: u32, found: Option<u64>) -> String {
    let what = format!("clockscope resident while tracing {members} processes");
    match found {
        Some(kib) => exact_verdict(&what, "<= 40 MiB", &format!("{kib} KiB"), kib <= 40 * 1024),
        None => format!("{what}: target <= 40 MiB: not measured"),
    }
}

fn peak_kib(suite: &Suite, tracer: Tracer, members: u32) -> Result<u64> {
    let command: Vec<OsString> = vec![
        suite.workloads.crowd.clone().into(),
        members.to_string().into(),
        suite.workloads.member.clone().into(),
    ];
    let mut crowd = Running::start(&tracer.wrap(&suite.tools, &suite.path("summary"), &command))?;
    crowd.wait_for_line("ready", LIMIT)?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", crowd.pid()))?;
    let finished = crowd.finish(LIMIT)?;
    ensure!(finished.status.success(), "the crowd ended with {}", finished.status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    kib.parse().context("VmRSS is not a number")
}

fn on_disk(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(3, "the program on disk");
    let stripped = suite.path("stripped");
    let command: Vec<OsString> = vec![
        "strip".into(),
        "-o".into(),
        stripped.clone().into(),
        suite.tools.clockscope.clone().into(),
    ];
    process::run(&command, LIMIT)?;
    let bytes = std::fs::metadata(&stripped)?.len();
    let found = format!("{:.2} MiB", bytes as f64 / 1024.0 / 1024.0);
    page.verdict(&exact_verdict("stripped program", "<= 8 MiB", &found, bytes <= 8 << 20));
    let libraries = libraries(suite)?;
    let foreign = libraries.iter().any(|name| !is_libc(name));
    let found = if libraries.is_empty() { "static".to_owned() } else { libraries.join(", ") };
    let what = "shared libraries of the program";
    page.verdict(&exact_verdict(what, "nothing beyond libc", &found, !foreign));
    Ok(())
}

/// The libraries that ldd names.
fn libraries(suite: &Suite) -> Result<Vec<String>> {
    let command: Vec<OsString> = vec!["ldd".into(), suite.tools.clockscope.clone().into()];
    let finished = process::run_any(&command, LIMIT)?;
    if first_line(&finished.stdout).contains("statically linked") {
        return Ok(Vec::new());
    }
    let names = finished.stdout.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
}

/// glibc's own libraries and the loader; the vDSO is no file.
fn is_libc(name: &str) -> bool {
    ["linux-vdso.", "ld-linux", "libc.", "libm.", "libpthread.", "libdl.", "librt."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
