//! Time that control groups held processes back because their quota of CPU time was used up.
//!
//! # References
//!
//! `Documentation/scheduler/sched-bwc.rst`, "Statistics" (v1: `throttled_time` in ns), and
//! `Documentation/admin-guide/cgroup-v2.rst`, "CPU Interface Files" (`throttled_usec`), Linux 6.12

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clockscope_containers::processes;

/// The files with the statistics of control groups, by device and inode, and their figures at the start.
#[derive(Debug, Default)]
pub(crate) struct Throttling(BTreeMap<(u64, u64), (PathBuf, u64)>);

impl Throttling {
    /// Reads the figures of the groups of processes, and of the groups above them, whose quota holds for them too.
    pub(crate) fn of(pids: &[i32]) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let groups = pids.iter().filter_map(|pid| processes::cgroup(*pid));
        let folders = groups.flat_map(|groups| folders(&mounts, &groups));
        let figures = folders.filter_map(|folder| {
            let file = folder.join("cpu.stat");
            // A hierarchy may be mounted at several places.
            let data = file.metadata().ok()?;
            let ns = throttled_ns(&file)?;
            Some(((data.dev(), data.ino()), (file, ns)))
        });
        Self(figures.collect())
    }

    /// Nanoseconds since the start, of all groups and their CPUs together. A group that is gone counts nothing.
    pub(crate) fn since_ns(&self) -> u64 {
        let grown =
            self.0.values().filter_map(|(file, start)| throttled_ns(file)?.checked_sub(*start));
        grown.fold(0, u64::saturating_add)
    }
}

fn throttled_ns(file: &Path) -> Option<u64> {
    ns_in(&fs::read_to_string(file).ok()?)
}

/// The figure of a `cpu.stat`.
fn ns_in(text: &str) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    number("throttled_time ").or_else(|| number("throttled_usec ")?.checked_mul(1_000))
}

/// The folders of a process's groups that have statistics of CPU time, by the mounts and its `/proc/PID/cgroup`.
fn folders(mounts: &str, groups: &str) -> Vec<PathBuf> {
    let path_of = |is_it: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then_some(path)
        })
    };
    let of_mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
        let path = match kind {
            "cgroup2" => path_of(str::is_empty)?,
            "cgroup" if options.split(',').any(|option| option == "cpu") => {
                path_of(|controllers| controllers.split(',').any(|one| one == "cpu"))?
            }
            _ => return None,
        };
        let above = Path::new(path.strip_prefix('/')?).ancestors();
        Some(above.map(|path| Path::new(at).join(path)).collect::<Vec<_>>())
    };
    mounts.lines().filter_map(of_mount).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_both_versions_and_all_above() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n\
            cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
        let found = folders(mounts, "4:cpuset:/no\n3:cpu,cpuacct:/kube/pod\n0::/a.slice\n");
        let expected = [
            "unified/a.slice",
            "unified/",
            "cpu,cpuacct/kube/pod",
            "cpu,cpuacct/kube",
            "cpu,cpuacct/",
        ];
        assert_eq!(found, expected.map(|path| Path::new("/sys/fs/cgroup").join(path)));
        assert_eq!(folders(mounts, "0::/../outside\n").len(), 3);
        assert!(folders(mounts, "nonsense").is_empty());
    }

    #[test]
    fn figures_of_both_versions_in_nanoseconds() {
        assert_eq!(ns_in("nr_periods 2\nnr_throttled 1\nthrottled_time 70032\n"), Some(70_032));
        assert_eq!(ns_in("usage_usec 5\nthrottled_usec 70\nnr_bursts 0\n"), Some(70_000));
        assert_eq!(ns_in("usage_usec 5\n"), None);
    }
}
