//! Names and places of the sampled processes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

use crate::report::Known;
use clockscope_containers::files::Lookup;
use clockscope_containers::place::{Place, place};
use clockscope_containers::processes;
use clockscope_sys::proc_text;
use clockscope_syscalls::sampling::Sampled;

/// Maximum depth of control groups.
const DEEPEST: usize = 32;

/// Reads `/proc` for processes that still run; the place of the others comes from their control group.
pub fn known(sampled: Vec<Sampled>) -> Vec<Known> {
    let mut lookup = Lookup::here();
    let mut groups: Option<HashMap<u64, String>> = None;
    let known = |one: Sampled| {
        let Sampled { process: pid, command, cgroup } = one;
        if let Some(text) = processes::cgroup(pid) {
            let mut found = place(&text);
            if let Some(user) = processes::user(pid) {
                lookup.fill(&mut found, user);
            }
            return Known { pid, command, place: found, is_running: true };
        }
        let groups = groups.get_or_insert_with(control_groups);
        let place =
            groups.get(&cgroup).map_or_else(Place::default, |path| place(&format!("0::{path}")));
        Known { pid, command, place, is_running: false }
    };
    sampled.into_iter().map(known).collect()
}

/// The paths of cgroup v2 control groups, by the inode of their folders.
fn control_groups() -> HashMap<u64, String> {
    let mounts = proc_text::read("/proc/self/mountinfo").unwrap_or_default();
    let mut groups = HashMap::new();
    if let Some(root) = cgroup2(&mounts) {
        walk(&root, &root, DEEPEST, &mut groups);
    }
    groups
}

/// The mount point of cgroup v2.
fn cgroup2(mountinfo: &str) -> Option<PathBuf> {
    let line = mountinfo.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

fn walk(root: &Path, folder: &Path, deepest: usize, groups: &mut HashMap<u64, String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = entry.path();
        let below = path.strip_prefix(root).unwrap_or(&path);
        groups.insert(entry.ino(), format!("/{}", below.display()));
        if deepest > 0 {
            walk(root, &path, deepest - 1, groups);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_groups_of_version_2_are_found_by_their_mount() {
        let mounts = "24 21 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 24 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(cgroup2(""), None);
    }

    #[test]
    fn running_processes_and_ended_ones_are_told_apart() {
        let own = i32::try_from(std::process::id()).unwrap();
        let sampled = |process| Sampled { process, command: "name".to_owned(), cgroup: 1 };
        let known = known(vec![sampled(own), sampled(i32::MAX)]);
        assert_eq!((known[0].is_running, known[1].is_running), (true, false));
    }
}
