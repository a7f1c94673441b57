//! SQLite: inserts with the current time, a transaction each.

use std::ffi::OsString;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::{LIMIT, SERVER, on_cpus};
use crate::process;
use crate::suite::Suite;
use crate::tracer::{STRACE, Tracer};

/// What must be installed.
pub(crate) const PROGRAMS: [&str; 1] = ["sqlite3"];

/// Inserts a second under this tracer, by the program's own clock.
pub(crate) fn rate(suite: &Suite, tracer: Tracer) -> Result<f64> {
    let inserts = suite.options.choose(20_000, 4000) / if tracer == STRACE { 10 } else { 1 };
    let database = suite.path("sqlite.db");
    // It is not there the first time.
    let _ = std::fs::remove_file(&database);
    let script = suite.path("sqlite.sql");
    std::fs::write(&script, script_text(inserts)?)?;
    let mut command: Vec<OsString> = vec!["sqlite3".into(), database.into()];
    command.push(format!(".read {}", script.display()).into());
    let line = tracer.wrap(&suite.tools, &suite.path("summary"), &command);
    let output = process::run(&on_cpus(suite, SERVER, line), LIMIT)?.stdout;
    let stamps: Vec<f64> = output.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [start, end] = stamps.as_slice() else {
        anyhow::bail!("sqlite3 did not print its two time stamps");
    };
    Some(f64::from(inserts) / ((end - start) / 1e3))
        .filter(|rate| rate.is_finite())
        .context("the inserts took no time")
}

/// Prints milliseconds before and after the inserts.
fn script_text(inserts: u32) -> Result<String> {
    let stamp = "select cast((julianday('now') - 2440587.5) * 86400000 as integer);\n";
    let mut text = String::from("create table t(id integer primary key, at text);\n");
    text.push_str(stamp);
    for _ in 0..inserts {
        writeln!(text, "insert into t(at) values (strftime('%Y-%m-%d %H:%M:%f', 'now'));")?;
    }
    text.push_str(stamp);
    Ok(text)
}
