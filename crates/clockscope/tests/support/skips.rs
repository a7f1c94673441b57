//! Tests that cannot run here, or not all of them.

use std::io::Write;

/// Says that a test, or a part of it, cannot run here. Where `CI` is set that is a failure.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "must not be skipped in CI: {why}");
    // Past the test harness's capture, so that it shows for tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
