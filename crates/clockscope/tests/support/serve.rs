//! Starts `clockscope serve`, and reads its page as a program does.

use std::cell::Cell;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use clockscope_sys::page_file::{self, Access};
use clockscope_sys::tsc;
use fastclock::arch::CpuCounter;
use fastclock::page::{Bounded, Kernel, Order, Page, PageClock, Reader, Trust};
use fastclock::{ClockId, Decline, Nanos};

use super::attaching::wait_until;
use super::command::Said;
use super::running::Killed;

/// The command `clockscope serve` with these arguments.
pub(crate) fn command(page: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clockscope"));
    command.arg("serve").arg("--page").arg(page).args(arguments).stdin(Stdio::null());
    command
}

/// Exit status and output of a `serve` that ends by itself.
pub(crate) fn run(page: &Path, arguments: &[&str]) -> Said {
    Said::of(command(page, arguments).output().expect("run clockscope"))
}

/// A timekeeper in the foreground. Dropping it kills it.
pub(crate) struct Served {
    child: Killed,
    path: PathBuf,
}

impl Served {
    /// Starts a timekeeper and waits until it has published two lines.
    pub(crate) fn start(page: &Path, arguments: &[&str]) -> Self {
        let mut command = command(page, &["--foreground"]);
        Self::spawn(command.args(arguments), page)
    }

    pub(crate) fn spawn(command: &mut Command, page: &Path) -> Self {
        let child = command.stderr(Stdio::piped()).spawn().expect("start clockscope");
        let mut served = Self { child: Killed(child), path: page.to_owned() };
        // The timekeeper signs the page first and publishes then; lines from before are a predecessor's.
        let id = served.id();
        let page = served.wait_for(|page| page.writer.load(Ordering::Acquire) == id);
        let before = count(page);
        served.wait_for(|page| count(page) >= before + 4);
        served
    }

    /// Waits until the page meets a condition.
    fn wait_for(&mut self, is: impl Fn(&Page) -> bool) -> &'static Page {
        let mut found = None;
        wait_until("the page is so", || {
            found = map(&self.path).filter(|page| is(page));
            if let Some(status) = self.child.0.try_wait().expect("a child") {
                let mut said = String::new();
                let _ = self.child.0.stderr.take().expect("piped").read_to_string(&mut said);
                panic!("{status}: {said}");
            }
            found.is_some()
        });
        found.expect("was waited for")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Whether the timekeeper still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.0.try_wait(), Ok(None))
    }

    /// Ends it by a signal, which must be no failure; gives its standard error.
    #[track_caller]
    pub(crate) fn end(mut self, signal: &str) -> String {
        let sent = Command::new("kill").args([signal, &self.id().to_string()]).status();
        assert!(sent.expect("run kill").success());
        let mut said = String::new();
        let mut stderr = self.child.0.stderr.take().expect("piped");
        stderr.read_to_string(&mut said).expect("read standard error");
        assert_eq!(self.child.0.wait().expect("wait for it").code(), Some(0), "{said}");
        said
    }
}

/// The head's count, which two steps raise for each line.
pub(crate) fn count(page: &Page) -> u64 {
    page.head.load(Ordering::Acquire) & 0xffff_ffff
}

/// Maps a page for reading; `None` if the page does not exist or is incomplete.
pub(crate) fn map(path: &Path) -> Option<&'static Page> {
    page_file::map(&File::open(path).ok()?, Access::Read).ok()
}

/// The state of a program that reads the clock from a page.
#[derive(Default)]
pub(crate) struct Program {
    trust: Trust,
    last: Cell<Nanos>,
}

/// Answers with the kernel's clock.
struct Asked;

impl Kernel for Asked {
    fn read(&self, clock: ClockId) -> Nanos {
        tsc::now(clock)
    }
    fn declined(&self, _reason: Decline) {}
}

impl Program {
    /// Reads the clock, which must be right and not go back.
    #[track_caller]
    pub(crate) fn read(&self, page: &Page) -> Bounded {
        let reader = Reader { page, trust: &self.trust, counter: CpuCounter, kernel: Asked };
        let before = tsc::now(ClockId::Monotonic);
        let read = reader.bounded(PageClock::Monotonic, Order::Ordered);
        let after = tsc::now(ClockId::Monotonic);
        assert!(read.time >= self.last.get(), "{read:?} after {:?}", self.last);
        // If the page's last answer was ahead of the kernel, the kernel's first answer is held back by as much.
        let slack = read.bound.0 + if read.declined.is_some() { 20_000 } else { 0 };
        assert!(read.time.0 + slack >= before.0, "{before:?} {read:?}");
        assert!(read.time.0 - slack <= after.0, "{read:?} {after:?}");
        self.last.set(read.time);
        read
    }
}
