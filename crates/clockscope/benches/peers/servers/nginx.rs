//! nginx with one worker and a small file, under wrk.

use anyhow::{Context, Result};

use super::{LIMIT, accepts, free_port, load, number_after, start};
use crate::machine::output_of;
use crate::process::{send_signal, words};
use crate::suite::Suite;
use crate::tracer::Tracer;

/// What must be installed.
pub(crate) const PROGRAMS: [&str; 2] = ["nginx", "wrk"];

/// Requests a second under this tracer.
pub(crate) fn rate(suite: &Suite, tracer: Tracer) -> Result<f64> {
    let directory = suite.path("nginx");
    let port = free_port()?;
    std::fs::create_dir_all(directory.join("html"))?;
    std::fs::write(directory.join("html/index.html"), "x".repeat(1024))?;
    let configuration = directory.join("nginx.conf");
    std::fs::write(&configuration, configuration_text(port))?;
    let command = format!("nginx -p {} -c {}", directory.display(), configuration.display());
    let server = start(suite, tracer, &words(&command), || accepts(port))?;
    let seconds = suite.options.choose(3, 1);
    let output = load(suite, &format!("wrk -t1 -c16 -d{seconds} http://127.0.0.1:{port}/"))?;
    let pid = std::fs::read_to_string(directory.join("nginx.pid")).context("nginx left no pid")?;
    send_signal("QUIT", pid.trim())?;
    server.finish(LIMIT)?;
    number_after(&output, "Requests/sec:").context("wrk did not say how many requests a second")
}

fn configuration_text(port: u16) -> String {
    let user = if output_of("id", &["-u"]) == "0" { "user root;" } else { "" };
    let text = include_str!("nginx.conf").replace("USER", user).replace("WORKERS", "1");
    text.replace("PORT", &port.to_string())
}
