//! All processes of this host, and their control groups.

use std::io;
use std::os::unix::fs::MetadataExt as _;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id, in the namespace of the `/proc` that was read.
    pub pid: i32,
    /// Text of the process's `/proc/PID/cgroup`.
    pub cgroup: String,
}

/// All processes in `/proc`, except this one.
///
/// # Errors
///
/// If there is no `/proc`. Processes that end meanwhile are left out.
pub fn all() -> io::Result<Vec<Process>> {
    let own = std::process::id();
    let pids = std::fs::read_dir("/proc")?.filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        (u32::try_from(pid) != Ok(own)).then_some(pid)
    });
    Ok(pids.filter_map(|pid| Some(Process { pid, cgroup: cgroup(pid)? })).collect())
}

/// The control groups of a process, as text; `None` if it is gone.
pub fn cgroup(pid: i32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The user of a process, numbered in this user namespace; `None` if the process is gone.
pub fn user(pid: i32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|metadata| metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_this_host_are_listed_but_for_this_one() {
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        let all = all().unwrap();
        assert!(all.iter().all(|process| process.pid != own));
        let listed = all.iter().find(|process| process.pid == parent).expect("who runs the tests");
        assert_eq!(Some(&listed.cgroup), cgroup(parent).as_ref());
        assert_eq!(cgroup(i32::MAX), None);
        assert_eq!(user(i32::MAX), None);
    }
}
