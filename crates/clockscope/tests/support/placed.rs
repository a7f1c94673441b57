//! Places programs and scripts where a test executes them.
//!
//! install(1) writes the files, because the kernel executes no file that any process has open for writing (`ETXTBSY`,
//! execve(2)). If this process wrote them, a child that another test's thread forks at that moment would keep the file
//! open until the child executes its program.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::running;

/// Copies a program to a path, with these permissions.
#[track_caller]
pub(crate) fn program(program: &Path, place: &Path, mode: u32) {
    install(program, "", place, mode);
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
pub(crate) fn as_nobody() -> [&'static str; 4] {
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
}

/// Writes an executable text to a path, with these permissions.
#[track_caller]
pub(crate) fn script(text: &str, place: &Path, mode: u32) {
    install(Path::new("/proc/self/fd/0"), text, place, mode);
}

#[track_caller]
fn install(from: &Path, input: &str, place: &Path, mode: u32) {
    let mut command = Command::new("install");
    command.arg(format!("--mode={mode:o}")).arg("--no-target-directory").arg(from).arg(place);
    let output = running::with_input(&mut command, input.as_bytes());
    assert!(output.status.success(), "{output:?}");
}
