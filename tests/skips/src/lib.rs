//! Tests that cannot run here, in whole or in part. Such a test gives the reason to [`skip`] and returns.
//!
//! The skip is printed although the test passes. `make test` counts the skips and lists them at its end. If the
//! variable `CI` is set, a skip is a failure.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;
use std::thread;

/// Environment variable with the file to which each skip appends a line: the test, a tab, the reason.
const LIST: &str = "CLOCKSCOPE_SKIPS";

/// Reports that the calling test, or a part of it, cannot run here.
///
/// # Panics
///
/// If `CI` is set, or if the list of skips cannot be written.
#[track_caller]
pub fn skip(why: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "must not be skipped in CI: {why}");
    // The test harness names a test's thread after it.
    let test = thread::current().name().unwrap_or("a thread of a test").to_owned();
    // Written directly to standard error, because the harness hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    if let Some(list) = std::env::var_os(LIST) {
        // Several tests may write at once, so each line is one write.
        let mut list = File::options().create(true).append(true).open(list).expect("open the list");
        list.write_all(format!("{test}\t{why}\n").as_bytes()).expect("write to the list of skips");
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output, Stdio};

    use super::LIST;

    /// Set in the process whose test must skip itself.
    const TRIED: &str = "SKIPS_TRIED";

    #[test]
    fn that_skips_itself_where_it_is_tried() {
        if std::env::var_os(TRIED).is_some() {
            super::skip("it is tried");
        }
    }

    fn tried(list: &std::path::Path, ci: Option<&str>) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::that_skips_itself_where_it_is_tried"]);
        command.env(TRIED, "yes").env(LIST, list).env_remove("CI").stdin(Stdio::null());
        if let Some(ci) = ci {
            command.env("CI", ci);
        }
        command.output().unwrap()
    }

    #[test]
    fn a_skip_is_listed_and_said_and_a_failure_where_ci_is_set() {
        let list = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
        let output = tried(&list, None);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let test = "tests::that_skips_itself_where_it_is_tried";
        assert_eq!(said, format!("skipped: {test}: it is tried\n"));
        assert_eq!(std::fs::read_to_string(&list).unwrap(), format!("{test}\tit is tried\n"));
        assert!(!tried(&list, Some("1")).status.success());
        std::fs::remove_file(&list).unwrap();
    }

    /// Output of libtest and cargo on two failures, a killed test binary, and a test that prints.
    const TOLD: &str = "\
     Running unittests src/lib.rs (target/debug/deps/one-1)
test result: ok. 3 passed; 0 failed
     Running tests/two/main.rs (target/debug/deps/two-2)
failures:

---- first stdout ----
    failures:
    indented
failures:
    first
    deep::second

test result: FAILED. 3 passed; 2 failed
error: test failed, to rerun pass `-p two --test two`
     Running tests/three.rs (target/debug/deps/three-3)
error: test failed, to rerun pass `-p three --test three`
failed: packaging/test-build: there is no package
";

    #[test]
    fn all_failures_and_skips_are_said_at_the_end() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/counting-skips.sh");
        let folder = std::env::temp_dir().join(format!("failures-{}", std::process::id()));
        let list = folder.join("skips");
        let told =
            "printf %s \"$0\"; printf 'a::test\\tno perl\\n' >>\"$CLOCKSCOPE_SKIPS\"; exit 101";
        let mut command = Command::new(script);
        let output = command.arg(&list).args(["sh", "-c", told, TOLD]).output().unwrap();
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let end = said.strip_prefix(TOLD).expect("what is said while it runs");
        let wanted = format!(
            "skipped: a::test: no perl\n1 skipped\n\
             failed: first (tests/two/main.rs)\n\
             failed: deep::second (tests/two/main.rs)\n\
             failed: test failed, to rerun pass `-p three --test three`\n\
             failed: packaging/test-build: there is no package\n\
             some tests failed; all they said is in {}.log\n",
            list.display()
        );
        assert_eq!(end, wanted);
        let output = Command::new(script).arg(&list).arg("true").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "0 skipped\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
