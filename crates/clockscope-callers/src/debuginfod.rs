//! Debugging information from debuginfod servers, through their own client.
//!
//! Servers are asked only if the user has named some in `DEBUGINFOD_URLS`, and only after the
//! program was traced.
//!
//! # References
//!
//! `debuginfod-find(1)` (elfutils 0.188) prints the path of the file in its cache, and handles
//! `DEBUGINFOD_URLS`, `DEBUGINFOD_MAXTIME` and the cache itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::module_file::{Bytes, Elf};

/// Paths of the client. `PATH` is not searched, because clockscope runs as root.
const PROGRAMS: [&str; 2] = ["/usr/bin/debuginfod-find", "/usr/local/bin/debuginfod-find"];
/// Time limit for one file in seconds, if the user sets none.
const MAX_TIME: &str = "20";

/// Whether servers can be asked.
#[derive(Clone, Debug)]
pub(super) enum Servers {
    /// The user has named none.
    None,
    /// The user has named servers, but there is no client.
    NoClient,
    /// Servers can be asked through this client.
    By(PathBuf),
}

impl Servers {
    /// Determined from the environment and the installed client.
    pub(super) fn here() -> Servers {
        let is_set = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
        let program = PROGRAMS.into_iter().map(Path::new).find(|program| program.is_file());
        match program {
            _ if !is_set => Servers::None,
            Some(program) => Servers::By(program.to_owned()),
            None => Servers::NoClient,
        }
    }
}

/// Finds the file with the debugging information of another file through a client; `None` if no
/// server has it in time, or if it belongs to another build.
pub(super) fn find(client: &Path, of: Bytes) -> Option<File> {
    let wanted = Elf::read(of)?.build_id()?;
    let name: String = wanted.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new(client);
    command.arg("debuginfo").arg(name).stdin(Stdio::null()).stderr(Stdio::null());
    if std::env::var_os("DEBUGINFOD_MAXTIME").is_none() {
        command.env("DEBUGINFOD_MAXTIME", MAX_TIME);
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    let path = String::from_utf8(output.stdout).ok()?;
    let file = File::open(path.trim_end()).ok()?;
    let found = Elf::read(Bytes::File(file.try_clone().ok()?.into()))?.build_id()?;
    (found == wanted).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A client that writes its arguments to a file, then prints the path.
    fn client(folder: &Path, prints: &str) -> PathBuf {
        let program = folder.join("client");
        let script = format!(
            "#!/bin/sh\necho \"$1 $2 $DEBUGINFOD_MAXTIME\" >{}\n{prints}\n",
            folder.join("asked").display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        program
    }

    #[test]
    fn a_file_of_the_same_build_is_taken_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let own = || Bytes::File(File::open("/proc/self/exe").unwrap().into());
        let Some(id) = Elf::read(own()).and_then(|elf| elf.build_id()) else {
            return skips::skip("the linker writes no build id");
        };
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let exe = fs::read_link("/proc/self/exe").unwrap();
        let same = client(folder.path(), &format!("echo {}", exe.display()));
        assert!(find(&same, own()).is_some());
        let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
        assert_eq!(asked, format!("debuginfo {id} {MAX_TIME}\n"));
        for prints in ["echo /bin/sh", "echo /nowhere", "exit 1", "", "echo /proc/self/exe; exit 2"]
        {
            assert!(find(&client(folder.path(), prints), own()).is_none(), "{prints}");
        }
        assert!(find(&folder.path().join("none"), own()).is_none());
        assert!(find(&same, Bytes::Memory([0; 64].into())).is_none());
    }
}
