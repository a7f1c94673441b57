//! The pages that the tracer changes while processes run: one per IPC namespace of the processes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vdso_image::layout::Live;

use clockscope_sys::ipc_namespace::{self, IpcNamespace, Way};
use clockscope_sys::tsc;
use clockscope_sys::watched_pages::{MOST, WatchedPages};

/// Processes of every user read the pages.
const MODE: i32 = 0o644;

/// The pages of a session.
#[derive(Debug)]
pub(crate) struct LivePages {
    pages: WatchedPages<Live>,
    /// Namespaces with a page, the oldest first.
    known: VecDeque<Known>,
    callers: CallersOneIn,
}

/// A namespace with a page.
#[derive(Debug)]
struct Known {
    namespace: Option<IpcNamespace>,
    /// Held open so that the kernel does not give the namespace's numbers to another one.
    _held: Option<File>,
    id: u64,
}

impl LivePages {
    /// Makes the page for the namespace of this thread, which must be the tracer.
    ///
    /// # Errors
    ///
    /// At the limits that `ipcs -l` shows.
    pub(crate) fn new() -> io::Result<Self> {
        let pages = WatchedPages::new(|live: &Live| &live.tracer)?;
        let mut new = Self { pages, known: VecDeque::new(), callers: CallersOneIn::default() };
        new.id_here()?;
        Ok(new)
    }

    /// Moves this thread to the namespace of a process, where shared memory for the process is then made. Returns the
    /// System V id of the page there.
    ///
    /// # Errors
    ///
    /// `EPERM` without the right to enter the namespace and come back; other errors at the limits that `ipcs -l` shows.
    pub(crate) fn enter(&mut self, pid: i32) -> io::Result<u64> {
        ipc_namespace::enter(pid, Way::ThereAndBack)?;
        self.id_here()
    }

    fn id_here(&mut self) -> io::Result<u64> {
        let here = IpcNamespace::own();
        if let Some(known) = self.known.iter().find(|known| known.namespace == here) {
            return Ok(known.id);
        }
        let held = ipc_namespace::hold();
        // Processes in the oldest namespace are still counted, but no longer timed.
        if self.known.len() == MOST {
            self.known.pop_front();
        }
        let page = self.pages.add(MODE)?;
        self.callers.add(&page.get().callers_one_in);
        let id = u64::from(page.id().cast_unsigned());
        self.known.push_back(Known { namespace: here, _held: held, id });
        Ok(id)
    }

    /// Announces that this thread, the tracer, lives.
    ///
    /// # Errors
    ///
    /// If the kernel has no robust futexes.
    pub(crate) fn announce(&mut self) -> io::Result<()> {
        if tsc::has_read_after() { self.pages.announce() } else { Ok(()) }
    }

    /// Ends the timing of calls.
    pub(crate) fn withdraw(&mut self) {
        self.pages.withdraw();
    }

    pub(crate) fn callers(&self) -> CallersOneIn {
        self.callers.clone()
    }
}

/// N: one in N timed calls passes the sample probe, in all processes of a session; 0: none. Without effect if calls are
/// not counted.
#[derive(Clone, Debug, Default)]
pub struct CallersOneIn(Arc<Mutex<Words>>);

#[derive(Debug, Default)]
struct Words {
    one_in: u32,
    words: Vec<&'static AtomicU32>,
}

impl CallersOneIn {
    fn lock(&self) -> MutexGuard<'_, Words> {
        // A poisoned lock is safe to use: every update is a few stores.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current number.
    pub fn get(&self) -> u32 {
        self.lock().one_in
    }

    /// Changes the number, also for later processes.
    pub fn set(&self, one_in: u32) {
        let mut known = self.lock();
        known.one_in = one_in;
        known.words.iter().for_each(|word| word.store(one_in, Relaxed));
    }

    fn add(&self, word: &'static AtomicU32) {
        let mut known = self.lock();
        word.store(known.one_in, Relaxed);
        if !known.words.iter().any(|other| std::ptr::eq(*other, word)) {
            known.words.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_comes_later_says_what_the_others_say() {
        let callers = CallersOneIn::default();
        let [first, second]: [&'static AtomicU32; 2] =
            std::array::from_fn(|_| &*Box::leak(Box::new(AtomicU32::new(9))));
        callers.add(first);
        assert_eq!((callers.get(), first.load(Relaxed)), (0, 0));
        callers.set(7);
        callers.clone().add(second);
        assert_eq!((callers.get(), first.load(Relaxed), second.load(Relaxed)), (7, 7, 7));
        callers.set(0);
        assert_eq!((first.load(Relaxed), second.load(Relaxed)), (0, 0));
    }

    #[test]
    fn processes_of_one_namespace_have_one_page() {
        let mut live = LivePages::new().expect("shared memory");
        let id = live.id_here().expect("the page");
        let me = i32::try_from(std::process::id()).expect("is a pid");
        assert_eq!(live.enter(me).expect("is where it is"), id);
        assert_eq!(live.known.len(), 1);
    }
}
