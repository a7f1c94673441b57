//! The loop over processes that were attached to, and what they start.

use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;

use super::{End, Follower, Next};
use crate::attach::{self, Attached};
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use clockscope_sys::ending::{Asked, Ending};
use clockscope_sys::ptrace::Resume;
use clockscope_sys::real_time::Service;
use clockscope_sys::ticker::Ticker;

/// Why nobody is followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The last process that was attached to has ended.
    Ended,
    /// The time is over, or a signal asked for it.
    Asked(Asked),
    /// The watcher wished it.
    Wished,
}

impl Follower<'_> {
    /// Attaches to a running process; `traced` is told of it when all its threads are traced.
    ///
    /// # Errors
    ///
    /// Why not; the process is then as it was.
    pub fn attach(
        &mut self,
        pid: i32,
        traced: &mut dyn FnMut(i32),
    ) -> Result<Attached, attach::Refusal> {
        let watcher = &mut self.observers.watcher;
        let wants_images = watcher.as_ref().is_some_and(|watcher| watcher.wants_images());
        let attached = attach::attach(
            pid,
            &mut attach::How {
                session: self.session,
                number: Processes::number(self.processes.all().len()),
                resume: match self.observers.syscalls {
                    Some(_) => Resume::ToSyscall,
                    None => Resume::Run,
                },
                mapped: &mut |pid, image| {
                    if let Some(watcher) = watcher {
                        watcher.mapped(pid, image);
                    }
                },
                mapped_takes_long: wants_images,
                traced,
            },
        )?;
        let pages = Some(Rc::clone(&attached.pages));
        let index = self.processes.add(attached.pid, attached.command.clone(), pages);
        self.processes.redirect(index, &attached.patch);
        self.targets.insert(attached.pid, None);
        let mut keys = HashSet::new();
        for (thread, key) in &attached.threads {
            if *thread != attached.pid {
                self.processes.add_thread(*thread, attached.pid);
            }
            self.processes.name_key(*thread, *key);
            keys.insert(*key);
        }
        if keys.len() < attached.threads.len() {
            NewTasks::attached_to_tasks_that_share_tls(&self.processes, index);
        }
        Ok(attached)
    }

    /// Follows the processes that were attached to, until the last of them has ended or somebody asks
    /// for the end.
    ///
    /// # Errors
    ///
    /// When the kernel does not let us wait.
    pub fn run_until(&mut self, ending: &Ending, mut ticker: Option<Ticker>) -> io::Result<Left> {
        self.service = Some(Service::begin());
        loop {
            if let Some(asked) = ending.asked() {
                return Ok(Left::Asked(asked));
            }
            match self.next(ticker.as_mut())? {
                Next::Nothing => {}
                Next::Wished => return Ok(Left::Wished),
                Next::Nobody => return Ok(Left::Ended),
                Next::Stopped(thread, stop) => self.stopped(thread, stop),
                Next::Ended { task, end, .. } => {
                    if let Some(target) = self.targets.get_mut(&task) {
                        *target = Some(end);
                        if self.targets.values().all(Option::is_some) {
                            return Ok(Left::Ended);
                        }
                    }
                }
            }
        }
    }

    /// What remains when nobody is followed any more: the processes, what is known of new ones, and
    /// how those that were attached to have ended.
    pub fn into_parts(self) -> (Processes, NewTasks, HashMap<i32, Option<End>>) {
        (self.processes, self.new_tasks, self.targets)
    }
}
