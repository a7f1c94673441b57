//! Memory: what is mapped into a traced process, what clockscope itself needs, its size on disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::figure::exact_verdict;
use crate::page::Page;
use crate::process::{self, Running, first_line};
use crate::sections::bystander::Idle;
use crate::series::short_reason;
use crate::suite::Suite;
use crate::tracer::{STRACE, TRACE_TIME, TRACE_VDSO, Tracer};

const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Memory and size");
    mapped(suite, page)?;
    resident(suite, page);
    on_disk(suite, page)
}

/// Mappings of one kind: executable or not, and the name.
type Kind = (bool, String);

/// Size and resident size in KiB.
#[derive(Clone, Copy, Default)]
struct Size {
    mapped_kib: i64,
    resident_kib: i64,
}

fn mapped(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(3, "mapped into a traced process");
    if let Some(reason) = suite.refusal(TRACE_VDSO) {
        page.text(&format!("`{}`: {}", TRACE_VDSO.name(), short_reason(&reason)));
        return Ok(());
    }
    let untraced = mappings_under(suite, Tracer::Untraced)?;
    let traced = mappings_under(suite, TRACE_VDSO)?;
    let added: Vec<(Kind, Size)> = traced
        .into_iter()
        .map(|(kind, size)| {
            let before = untraced.get(&kind).copied().unwrap_or_default();
            let mapped_kib = size.mapped_kib - before.mapped_kib;
            (kind, Size { mapped_kib, resident_kib: size.resident_kib - before.resident_kib })
        })
        .filter(|(_, size)| size.mapped_kib > 0)
        .collect();
    let rows: Vec<Vec<String>> =
        added.iter().map(|(kind, size)| mapping_row(kind, *size)).collect();
    page.table(&["mapping", "executable", "mapped KiB", "resident KiB"], &rows);
    let total = |executable: bool| -> i64 {
        added.iter().filter(|(kind, _)| kind.0 == executable).map(|(_, size)| size.mapped_kib).sum()
    };
    let (image, pages) = (total(true), total(false));
    let found = format!("{image} KiB");
    page.verdict(&exact_verdict("image mapped", "<= 2 pages (8 KiB)", &found, image <= 8));
    let found = format!("{pages} KiB");
    page.verdict(&exact_verdict("shared pages mapped", "<= 256 KiB", &found, pages <= 256));
    Ok(())
}

fn mapping_row(kind: &Kind, size: Size) -> Vec<String> {
    let executable = if kind.0 { "yes" } else { "no" };
    vec![
        kind.1.clone(),
        executable.to_owned(),
        size.mapped_kib.to_string(),
        size.resident_kib.to_string(),
    ]
}

fn mappings_under(suite: &Suite, tracer: Tracer) -> Result<BTreeMap<Kind, Size>> {
    let idle = Idle::start(suite, tracer)?;
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", idle.pid));
    idle.stop()?;
    Ok(sum_smaps(&smaps.context("failed to read the smaps of the traced process")?))
}

/// Adds up the mappings of /proc/PID/smaps by kind.
fn sum_smaps(text: &str) -> BTreeMap<Kind, Size> {
    let mut sums: BTreeMap<Kind, Size> = BTreeMap::new();
    let mut current: Kind = (false, String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Size:", kib, "kB"] => {
                sums.entry(current.clone()).or_default().mapped_kib += kib_of(kib)
            }
            ["Rss:", kib, "kB"] => {
                sums.entry(current.clone()).or_default().resident_kib += kib_of(kib)
            }
            [range, permissions, _, _, _, name @ ..] if range.contains('-') => {
                let name = if name.is_empty() { "anonymous".to_owned() } else { name.join(" ") };
                current = (permissions.contains('x'), name);
            }
            _ => {}
        }
    }
    sums
}

fn kib_of(word: &str) -> i64 {
    word.parse().unwrap_or(0)
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
