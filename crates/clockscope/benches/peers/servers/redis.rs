//! redis-server without persistence, under redis-benchmark.

use anyhow::{Context, Result};

use super::{LIMIT, accepts, free_port, load, start};
use crate::process::words;
use crate::suite::Suite;
use crate::tracer::{STRACE, Tracer};

/// What must be installed.
pub(crate) const PROGRAMS: [&str; 3] = ["redis-server", "redis-benchmark", "redis-cli"];

/// GET requests a second under this tracer.
pub(crate) fn rate(suite: &Suite, tracer: Tracer) -> Result<f64> {
    let directory = suite.path("redis");
    std::fs::create_dir_all(&directory)?;
    let port = free_port()?;
    let command = format!(
        "redis-server --port {port} --bind 127.0.0.1 --appendonly no --daemonize no --dir {} --save",
        directory.display()
    );
    let mut command = words(&command);
    command.push("".into());
    let server = start(suite, tracer, &command, || accepts(port))?;
    let requests = suite.options.choose(200_000, 50_000) / if tracer == STRACE { 10 } else { 1 };
    let output = load(
        suite,
        &format!("redis-benchmark -h 127.0.0.1 -p {port} -n {requests} -c 20 -t get --csv"),
    )?;
    load(suite, &format!("redis-cli -h 127.0.0.1 -p {port} shutdown nosave"))?;
    server.finish(LIMIT)?;
    get_rate(&output).context("redis-benchmark did not say how many requests a second")
}

/// Reads `"GET","73000.00",...`.
fn get_rate(csv: &str) -> Option<f64> {
    let row = csv.lines().find_map(|line| line.strip_prefix("\"GET\","))?;
    row.split(',').next()?.trim_matches('"').parse().ok()
}
