//! `--unit`, `--container` and `--cgroup`: the processes of systemd units, containers and control groups.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use clockscope_containers::choice::{self, Group, Wanted};
use clockscope_containers::files::Lookup;
use clockscope_containers::place::{Place, place};
use clockscope_containers::processes;
use clockscope_sys::{access, proc_text};

/// Time between two searches for new members. Searches find only processes that come from outside the group:
/// the kernel reports forks.
const LOOK: Duration = Duration::from_millis(250);

/// A search takes at most 1/20 of the time, even on hosts with very many processes.
const PART: u32 = 20;

/// Wait for a new process after the last one has ended: a service may restart.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The first process of a container.
///
/// # Errors
///
/// A clause with the reason why there is none.
pub fn first_process(container: &str) -> anyhow::Result<i32> {
    let found = Groups::find(&[Wanted::Container(container.to_owned())])?;
    found.members().into_iter().min().context("the container has just ended")
}

/// The units, containers and control groups to attach to; may be empty.
#[derive(Debug)]
pub(super) struct Groups {
    groups: Vec<Group>,
    lookup: Lookup,
    next_look: Instant,
}

impl Groups {
    /// Finds the named groups; `wanted` may be empty.
    ///
    /// # Errors
    ///
    /// A clause with the reason why a group is not found.
    pub(super) fn find(wanted: &[Wanted]) -> anyhow::Result<Self> {
        ensure!(proc_text::is_mounted(), "{}", proc_text::NOT_MOUNTED);
        let mut found =
            Self { groups: Vec::new(), lookup: Lookup::here(), next_look: Instant::now() };
        if wanted.is_empty() {
            return Ok(found);
        }
        let all = processes::all().context("cannot list processes: /proc cannot be read")?;
        let mounts = proc_text::read("/proc/self/mountinfo").unwrap_or_default();
        for wanted in wanted {
            let lookup = &mut found.lookup;
            let mut names = |container: &_, pid| lookup.names(container, processes::user(pid)?);
            match choice::choose(wanted, &all, &mut names, &mounts) {
                Ok(group) => found.groups.push(group),
                // The runtimes' files are open to root alone.
                Err(not)
                    if matches!(wanted, Wanted::Container(_)) && access::effective_uid() != 0 =>
                {
                    bail!("{not}; only root finds containers by name")
                }
                Err(not) => bail!("{not}"),
            }
        }
        Ok(found)
    }

    /// Whether no group was named.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The present processes of all groups. Without groups no file is read: a host may have very many processes.
    pub(super) fn members(&self) -> Vec<i32> {
        if self.is_empty() {
            return Vec::new();
        }
        let all = processes::all().unwrap_or_default();
        let is_member =
            |process: &processes::Process| self.groups.iter().any(|g| g.has(&process.cgroup));
        all.iter().filter(|process| is_member(process)).map(|process| process.pid).collect()
    }

    /// The members, if the next search is due; otherwise no process.
    pub(super) fn members_if_due(&mut self) -> HashSet<i32> {
        let begun = Instant::now();
        if begun < self.next_look {
            return HashSet::new();
        }
        let members = self.members().into_iter().collect();
        self.next_look = begun + LOOK.max(begun.elapsed() * PART);
        members
    }

    /// Container, pod and unit of a process, with the names from the runtimes' files.
    pub(super) fn place_of(&mut self, pid: i32) -> Place {
        let mut found = processes::cgroup(pid).map(|text| place(&text)).unwrap_or_default();
        if let Some(user) = processes::user(pid) {
            self.lookup.fill(&mut found, user);
        }
        found
    }
}
