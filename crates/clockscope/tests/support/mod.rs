//! What the tests of `trace` and `run` share: building the programs of `tests/tracees`, running
//! them, and comparing what they print with what clockscope reports.

pub(crate) mod attaching;
pub(crate) mod builds;
pub(crate) mod compare;
pub(crate) mod conversation;
pub(crate) mod moments;
pub(crate) mod placed;
pub(crate) mod printed;
pub(crate) mod running;
pub(crate) mod servers;
pub(crate) mod terminal;
pub(crate) mod tracefs;

use std::io::Write;
use std::path::PathBuf;

/// The `tests/tracees` directory.
pub(crate) fn sources() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tracees"))
}

/// Says that a test, or a part of it, cannot run here. Where `CI` is set that is a failure.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "must not be skipped in CI: {why}");
    // Past the test harness's capture, so that it shows for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether this process is root; says so when it is not.
pub(crate) fn is_root_or_skip() -> bool {
    let output = std::process::Command::new("id").arg("-u").output().expect("run id");
    let root = output.stdout == b"0\n";
    if !root {
        skip("this test needs root");
    }
    root
}

/// An installed program; says so when it is missing.
pub(crate) fn installed_or_skip(paths: &[&str]) -> Option<PathBuf> {
    let found = paths.iter().map(PathBuf::from).find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{} is missing", paths[0]));
    }
    found
}
