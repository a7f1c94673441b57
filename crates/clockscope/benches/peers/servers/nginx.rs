//! nginx with one worker and a small file, under wrk.

use anyhow::{Context, Result};

use super::{Server, accepts, free_port, load, number_after};
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
    let server = Server::start(suite, tracer, &words(&command), || accepts(port))?;
    let seconds = suite.options.choose(3, 1);
    let output = load(suite, &format!("wrk -t1 -c16 -d{seconds} http://127.0.0.1:{port}/"))?;
    let pid = std::fs::read_to_string(directory.join("nginx.pid")).context("nginx left no pid")?;
    send_signal("QUIT", pid.trim())?;
    server.finish()?;
    number_after(&output, "Requests/sec:").context("wrk did not say how many requests a second")
}

fn configuration_text(port: u16) -> String {
    let user = if output_of("id", &["-u"]) == "0" { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log error.log;\n\
         events {{ worker_connections 128; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000;\n\
         client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n\
         server {{ listen 127.0.0.1:{port}; root html; }}\n}}\n"
    )
}
