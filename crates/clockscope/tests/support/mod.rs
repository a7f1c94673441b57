//! Shared code of the tests: builds the programs of `tests/tracees`, runs them, and compares their output with
//! clockscope's reports.

// First, because the other modules use its macro.
#[macro_use]
pub(crate) mod running;

pub(crate) mod attaching;
pub(crate) mod builds;
pub(crate) mod clocksource;
pub(crate) mod command;
pub(crate) mod compare;
pub(crate) mod conversation;
pub(crate) mod daemon;
pub(crate) mod moments;
pub(crate) mod placed;
pub(crate) mod places_left;
pub(crate) mod printed;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod terminal;
pub(crate) mod tracefs;
pub(crate) mod true_callers;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

pub(crate) use skips::skip;

/// The `tests/tracees` directory.
pub(crate) fn sources() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tracees"))
}

/// A running server of `attach_server.c` with so many threads.
pub(crate) fn server(threads: u32) -> Option<conversation::Conversation> {
    let program = builds::c("attach_server", builds::Link::Dynamic)?;
    Some(conversation::Conversation::start(&words![program, threads.to_string()]))
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    running::untraced(&words!["id", "-u"]).stdout == b"0\n"
}

/// What a test needs; a skip for this reason if it is `None`.
pub(crate) fn or_skip<T>(found: Option<T>, why: impl Display) -> Option<T> {
    if found.is_none() {
        skip(why);
    }
    found
}

/// `None` (a skip) unless this process is root.
pub(crate) fn root_or_skip() -> Option<()> {
    or_skip(is_root().then_some(()), "this test needs root")
}

/// `None` (a skip) unless this command succeeds here.
pub(crate) fn works_or_skip(command: &[OsString], why: &str) -> Option<()> {
    or_skip(running::untraced(command).status.success().then_some(()), why)
}

/// `None` (a skip) unless this user may have real-time priorities up to this one.
pub(crate) fn priorities_or_skip(highest: &str) -> Option<()> {
    let why = "real-time priorities are not allowed here";
    works_or_skip(&words!["chrt", "-f", highest, "true"], why)
}

/// The first of these paths that is a file; otherwise prints a skip.
pub(crate) fn installed_or_skip(paths: &[&str]) -> Option<PathBuf> {
    let found = paths.iter().map(PathBuf::from).find(|path| path.is_file());
    or_skip(found, format_args!("{} is missing", paths[0]))
}
