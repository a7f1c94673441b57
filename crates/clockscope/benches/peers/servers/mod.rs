//! Real servers from Debian's packages: started as the traced command on loopback or a Unix socket,
//! loaded for a bounded time, stopped by their own means.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, Running, words};
use crate::suite::Suite;
use crate::tools::is_installed;
use crate::tracer::Tracer;

pub(crate) mod nginx;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

const LIMIT: Duration = Duration::from_secs(60);

/// CPUs of the server and of the load generator.
const SERVER: &str = "0,1";
const CLIENT: &str = "2,3";

/// Starts a server under a tracer, and waits until it is `ready`.
fn start(
    suite: &Suite,
    tracer: Tracer,
    command: &[OsString],
    ready: impl Fn() -> bool,
) -> Result<Running> {
    let line = tracer.wrap(&suite.tools, &suite.path("summary"), command);
    let running = Running::start(&on_cpus(suite, SERVER, line))?;
    let end = Instant::now() + LIMIT;
    while !ready() {
        if Instant::now() > end {
            bail!("{} was not ready within {LIMIT:?}", command[0].to_string_lossy());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

/// Keeps server and client on CPUs of their own where there are four.
fn on_cpus(suite: &Suite, cpus: &str, command: Vec<OsString>) -> Vec<OsString> {
    if suite.cpus < 4 || !is_installed("taskset") {
        return command;
    }
    ["taskset", "-c", cpus].map(OsString::from).into_iter().chain(command).collect()
}

/// Runs a load generator and returns what it printed.
fn load(suite: &Suite, command: &str) -> Result<String> {
    Ok(process::run(&on_cpus(suite, CLIENT, words(command)), LIMIT)?.stdout)
}

/// A TCP port of loopback that is free now.
fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to find a free port")?;
    Ok(listener.local_addr()?.port())
}

fn accepts(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The number after `label`, as in `Requests/sec:  48600.12`.
fn number_after(text: &str, label: &str) -> Option<f64> {
    text.split(label).nth(1)?.split_whitespace().next()?.parse().ok()
}
