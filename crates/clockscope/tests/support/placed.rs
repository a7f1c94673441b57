//! Places programs and scripts where a test executes them.
//!
//! install(1) writes the files, because the kernel executes no file that any process has open for writing (`ETXTBSY`,
//! execve(2)). If this process wrote them, a child that another test's thread forks at that moment would keep the file
//! open until the child executes its program.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::running;

/// Copies a program to a path, with these permissions.
#[track_caller]
pub(crate) fn program(program: &Path, place: &Path, mode: u32) {
    is_done(install(program, place, mode));
}

/// A directory that every user can enter, with these files: source, name and permissions of each.
pub(crate) fn for_everybody(files: &[(&Path, &str, u32)]) -> TempDir {
    let directory = tempfile::tempdir_in("/tmp").expect("make a temporary directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("open it");
    for (file, name, mode) in files {
        program(file, &directory.path().join(name), *mode);
    }
    directory
}

/// Words that start a command as the user 65534 without supplementary groups.
pub(crate) fn as_nobody() -> [OsString; 4] {
    words!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
}

/// Writes an executable text to a path, with these permissions.
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
