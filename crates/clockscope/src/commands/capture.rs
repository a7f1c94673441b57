//! `clockscope capture`: saves the files that doctor reads.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cli::explain::CaptureArgs;
use crate::exit;
use crate::printing::replace_file::replace;
use crate::printing::streams;
use clock_doctor::capture::{self, Capture};
use clock_doctor::root::Root;
use clockscope_measure::live;
use clockscope_sys::identity;
use clockscope_text::date::rfc3339;

/// Longest part of a host name in a file name, in characters: Linux's limit for host names (`__NEW_UTS_LEN`
/// of include/uapi/linux/utsname.h).
const HOST: usize = 64;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the archive would go to a terminal, cannot be made, or cannot be written.
pub fn run(args: &CaptureArgs) -> Result<i32> {
    let output = args.output.as_deref();
    let to_stdout = output == Some(Path::new("-"));
    if to_stdout && io::stdout().is_terminal() {
        bail!("an archive is not written to a terminal; try -o FILE");
    }
    let root = Root::open(Path::new("/")).context("cannot read /")?;
    let facts = live::facts();
    let capture = capture::collect(&root, &facts).context("cannot write the measurements")?;
    let now = identity::unix_seconds();
    let bytes = capture::archive(&capture, u64::try_from(now).unwrap_or(0))
        .context("cannot make the archive")?;
    if to_stdout {
        // The archive is out: a closed standard error is no failure.
        streams::print_all(&bytes)?;
        streams::warn(&told(&capture, bytes.len(), "FILE"));
        return Ok(exit::OK);
    }
    let path = output.map_or_else(|| default_name(now), Path::to_owned);
    replace(&path, &bytes)
        .with_context(|| format!("cannot write to {}; try -o FILE elsewhere", path.display()))?;
    streams::print(&told(&capture, bytes.len(), &in_shell(&path)))?;
    Ok(exit::OK)
}

/// The list of saved and unread files, and the next command.
fn told(capture: &Capture, packed: usize, path: &str) -> String {
    let width = capture.members.iter().map(|member| member.path.len()).max().unwrap_or(0);
    let mut text = String::from("taken, in bytes:\n");
    for member in &capture.members {
        let remark = member.remark.as_deref().unwrap_or_default();
        let line = format!("{:>8}  {:width$}  {remark}", member.bytes.len(), member.path);
        text.extend([line.trim_end(), "\n"]);
    }
    if !capture.unread.is_empty() {
        text += "there, but not read:\n";
        text.extend(capture.unread.iter().map(|one| format!("  {}: {}\n", one.file, one.why)));
    }
    let _ = writeln!(text, "{} files, {packed} bytes packed; nothing else", capture.members.len());
    let _ = writeln!(text, "next, on any machine:\n  clockscope doctor --root {path}");
    text
}

/// A path as a word of the shell.
fn in_shell(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// `clockscope-HOST-DATE.tar.zst`, with the date to the second, so no capture replaces another.
fn default_name(now: i64) -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let date: String = rfc3339(now).replace(['-', ':'], "");
    PathBuf::from(format!("clockscope-{}-{date}.tar.zst", in_file_name(&host)))
}

fn in_file_name(host: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name: String = host.trim().chars().take(HOST).map(one).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock_doctor::capture::Member;
    use clock_doctor::facts::Unread;

    #[test]
    fn what_is_told_is_complete() {
        let member = |path: &str, remark: Option<&str>| Member {
            path: path.to_owned(),
            bytes: vec![0; 12],
            remark: remark.map(str::to_owned),
        };
        let unread = Unread::new("dmesg", "operation not permitted");
        let capture = Capture {
            members: vec![member("dmesg", Some("3 lines")), member("proc/version", None)],
            unread: vec![unread],
        };
        insta::assert_snapshot!(told(&capture, 99, "a.tar.zst"), @r"
        taken, in bytes:
              12  dmesg         3 lines
              12  proc/version
        there, but not read:
          dmesg: operation not permitted
        2 files, 99 bytes packed; nothing else
        next, on any machine:
          clockscope doctor --root a.tar.zst
        ");
    }

    #[test]
    fn names_are_plain() {
        assert_eq!(in_file_name("box-1.example\n"), "box-1.example");
        assert_eq!(in_file_name("../a b"), ".._a_b");
        assert_eq!(in_file_name(""), "host");
        assert_eq!(in_shell(Path::new("a b'c")), r"'a b'\''c'");
        let name = default_name(1_000_000_000);
        assert!(name.to_string_lossy().ends_with("-20010909T014640Z.tar.zst"), "{name:?}");
    }
}
