//! The loop over attached processes and the processes that they start.

use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::{End, Follower, Next};
use crate::arch::tasks;
use crate::attach::transfers::{INTERVAL, PATIENCE, SHORT_PATIENCE, Transfers};
use crate::attach::{self, Attached};
use crate::new_tasks::NewTasks;
use crate::processes::Processes;
use clockscope_sys::access;
use clockscope_sys::ending::{Asked, Ending};
use clockscope_sys::ptrace::Resume;
use clockscope_sys::real_time::Service;
use clockscope_sys::ticker::Ticker;

/// Why the loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The last attached process has ended.
    Ended,
    /// The time is over, or a signal asked for the end.
    Asked(Asked),
    /// A watcher asked for the end.
    Wished,
}

/// Time between two checks for arrivals after the last process has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Supplies further processes to attach to while others are followed, for example those of a control group.
pub trait Arrivals {
    /// Process ids to attach to now that are not in `followed`. Called often.
    fn look(&mut self, followed: &Processes) -> Vec<i32>;

    /// Called when all threads of a process are traced, before any of them is stopped.
    fn traced(&mut self, pid: i32);

    /// Receives the result of attaching to a process.
    fn outcome(&mut self, pid: i32, outcome: Result<Attached, attach::Refusal>);

    /// How long to wait for arrivals after the last process has ended. `None`: there are no arrivals, and the loop ends
    /// with the attached processes, whether their children still run or not.
    fn patience(&self) -> Option<Duration>;
}

impl Follower<'_> {
    /// Waits until no thread of these processes, which will be attached to, is in a transfer; at most for a second.
    pub fn let_transfers_end(&mut self, pids: &[i32]) {
        let begun = Instant::now();
        let mut transfers = Transfers::new(PATIENCE);
        while transfers.go_on(|| pids.iter().flat_map(|pid| access::threads_of(*pid))) {
            std::thread::sleep(INTERVAL);
        }
        self.patience = PATIENCE.saturating_sub(begun.elapsed());
    }

    /// Attaches to a running process. `traced` is called when all its threads are traced.
    ///
    /// # Errors
    ///
    /// The reason against attaching. The process is then unchanged.
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
                patience: std::mem::replace(&mut self.patience, SHORT_PATIENCE),
                sites: &mut self.sites,
            },
        )?;
        let pages = Some(Rc::clone(&attached.pages));
        let index = self.processes.add(attached.pid, attached.command.clone(), pages);
        self.processes.queue_from_now(attached.pid);
        self.processes.redirect(index, &attached.patch, &attached.sites);
        self.processes.has_sites |= self.session.counts_sites;
        self.targets.insert(attached.pid, None);
        let keys: HashSet<_> = attached.threads.iter().map(|(_, key)| *key).collect();
        for (thread, key) in &attached.threads {
            if *thread != attached.pid {
                self.processes.add_thread(*thread, attached.pid);
            }
            self.processes.name_key(*thread, *key);
        }
        if tasks::SHARED_POINTER_NEEDS_LOCK && keys.len() < attached.threads.len() {
            NewTasks::attached_to_tasks_that_share_tls(&self.processes, index);
        }
        Ok(attached)
    }

    /// Attaches to all processes that have arrived.
    pub fn welcome(&mut self, arrivals: &mut dyn Arrivals) {
        for pid in arrivals.look(&self.processes) {
            let outcome = self.attach(pid, &mut |pid| arrivals.traced(pid));
            arrivals.outcome(pid, outcome);
        }
    }

    /// Whether all awaited processes have ended, and none arrives in time.
    fn is_over(&mut self, ending: &Ending, arrivals: &mut dyn Arrivals) -> bool {
        let Some(patience) = arrivals.patience() else {
            return self.targets.values().all(Option::is_some);
        };
        let deadline = Instant::now() + patience;
        while self.processes.living().next().is_none() {
            if ending.asked().is_some() || Instant::now() >= deadline {
                return true;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            self.welcome(arrivals);
        }
        false
    }

    /// Follows the attached processes until the last of them has ended or an end is requested; in the latter case,
    /// until their transfers have ended, at most for a second more. Attaches to processes that arrive meanwhile.
    ///
    /// # Errors
    ///
    /// If the kernel does not let this process wait.
    pub fn run_until(
        &mut self,
        ending: &Ending,
        ticker: Option<Ticker>,
        arrivals: &mut dyn Arrivals,
    ) -> io::Result<Left> {
        let left = self.follow(ending, ticker, arrivals)?;
        if left == Left::Ended {
            return Ok(left);
        }
        // Without a timer the loop cannot wait for transfers.
        let Ok(mut ticker) = Ticker::start(INTERVAL) else { return Ok(left) };
        self.is_leaving = true;
        let mut transfers = Transfers::new(PATIENCE);
        let mut go_on = true;
        while go_on {
            match self.next(Some(&mut ticker))? {
                Next::Nothing | Next::Wished => {
                    go_on = transfers.go_on(|| self.processes.living().collect::<Vec<_>>());
                }
                Next::Nobody => return Ok(left),
                Next::Stopped(thread, stop) => self.stopped(thread, stop),
                Next::Ended { task, end, .. } => self.target_ended(task, end),
            }
        }
        Ok(left)
    }

    fn target_ended(&mut self, task: i32, end: End) {
        if let Some(target) = self.targets.get_mut(&task) {
            *target = Some(end);
        }
    }

    fn follow(
        &mut self,
        ending: &Ending,
        mut ticker: Option<Ticker>,
        arrivals: &mut dyn Arrivals,
    ) -> io::Result<Left> {
        self.service = Some(Service::begin());
        loop {
            if let Some(asked) = ending.asked() {
                return Ok(Left::Asked(asked));
            }
            let mut is_over = false;
            match self.next(ticker.as_mut())? {
                Next::Nothing => self.welcome(arrivals),
                Next::Wished => return Ok(Left::Wished),
                Next::Nobody => is_over = true,
                Next::Stopped(thread, stop) => self.stopped(thread, stop),
                Next::Ended { task, end, .. } => {
                    self.target_ended(task, end);
                    is_over = self.is_over(ending, arrivals);
                }
            }
            if is_over && ending.asked().is_none() {
                return Ok(Left::Ended);
            }
        }
    }

    /// The results after the loop: the processes, the state of new tasks, and the end of each attached process.
    pub fn into_parts(mut self) -> (Processes, NewTasks, HashMap<i32, Option<End>>) {
        let new_tasks = std::mem::take(&mut self.new_tasks);
        let targets = std::mem::take(&mut self.targets);
        (self.into_processes(), new_tasks, targets)
    }
}
