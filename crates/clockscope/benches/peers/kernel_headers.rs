//! Kernel headers for bcc's tools, which compile C when they start.
//!
//! bcc looks in /lib/modules/RELEASE/build. A virtual machine often runs a kernel without that; the
//! tools need little of the headers, so those of Debian's own kernel will do. Debian splits them in
//! two directories, bcc wants one: the two are merged by symbolic links.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::output_of;
use crate::process;

/// The directory to give to bcc as BCC_KERNEL_SOURCE; `None` if it finds headers by itself, or if
/// there are none.
pub(crate) fn for_bcc(directory: &Path) -> Option<PathBuf> {
    let own = format!("/lib/modules/{}/build", output_of("uname", &["-r"]));
    if Path::new(&own).exists() || std::env::var_os("BCC_KERNEL_SOURCE").is_some() {
        return None;
    }
    let common = newest_headers("-common")?;
    let specific = newest_headers("-amd64")?;
    let merged = directory.join("kernel-headers");
    if merged.exists() {
        return Some(merged);
    }
    for source in [common, specific] {
        let mut contents = source.into_os_string();
        contents.push("/.");
        let copy =
            ["cp", "-rsf"].map(OsString::from).into_iter().chain([contents, merged.clone().into()]);
        process::run(&copy.collect::<Vec<_>>(), Duration::from_secs(60)).ok()?;
    }
    Some(merged)
}

/// The last directory in /usr/src, by name, of Debian's kernel headers with this ending.
fn newest_headers(ending: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/usr/src").ok()?.flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("linux-headers-") && name.ends_with(ending)
    });
    named.map(|entry| entry.path()).max()
}
