//! Programs and scripts that a test puts somewhere to have them executed.
//!
//! By a process of its own, install(1). A file that this process has open for writing is open in
//! every child that another test's thread forks at that moment too, until that child executes its
//! program; and the kernel executes no file that anybody has open for writing (`ETXTBSY`,
//! execve(2)).

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::running;

/// Copies a program to a place, with these permissions.
#[track_caller]
pub(crate) fn program(program: &Path, place: &Path, mode: u32) {
    is_done(install(program, place, mode));
}

/// Puts a text that is to be executed to a place, with these permissions.
#[track_caller]
pub(crate) fn script(text: &str, place: &Path, mode: u32) {
    let mut child = install(Path::new("/dev/stdin"), place, mode);
    let input = child.stdin.as_mut().expect("is piped");
    input.write_all(text.as_bytes()).expect("give install(1) a text");
    is_done(child);
}

#[track_caller]
fn install(from: &Path, place: &Path, mode: u32) -> Child {
    let mut command = Command::new("install");
    command.arg(format!("--mode={mode:o}")).arg("--no-target-directory").arg(from).arg(place);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("start install(1)")
}

#[track_caller]
fn is_done(child: Child) {
    let output = running::finish(child);
    assert!(output.status.success(), "{output:?}");
}
