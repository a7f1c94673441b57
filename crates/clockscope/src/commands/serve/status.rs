//! `clockscope serve --status`: the state of a page as a reader finds it.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::{Context as _, Result, bail};
use fastclock::arch::CpuCounter;
use fastclock::page::{Counter as _, Kernel, Order, Page, PageClock, Reader, SIZE, Slot, Trust};
use fastclock::{ClockId, Decline, Nanos, TickLength};

use crate::cli::Format;
use crate::cli::serve::ServeArgs;
use crate::exit::{self, Failed};
use clockscope_report::clock_page::{self, ClockPage};
use clockscope_sys::page_file::{self, Access};
use clockscope_sys::tsc;
use clockscope_text::date;
use clockscope_text::foreign::json_document;
use clockscope_timekeeper::served::holder::{self, Holder};

/// Prints the state; returns the exit status.
pub(super) fn run(args: &ServeArgs) -> Result<i32> {
    let path = args.status.as_ref().and_then(Option::as_deref).unwrap_or(&args.page);
    let answers = show(path, args.format).map_err(|error| Failed::new(exit::FAILURE, error))?;
    Ok(if answers { exit::OK } else { exit::FOUND })
}

fn show(path: &Path, format: Format) -> Result<bool> {
    let report = report(path)?;
    let printed = match format {
        Format::Text => clock_page::text(&report),
        Format::Json => json_document(&report)?,
    };
    super::print(&printed);
    Ok(report.answers)
}

/// The kernel's clock, and the reason why the reader asked it.
#[derive(Debug, Default)]
struct Asked(Cell<Option<Decline>>);

impl Kernel for &Asked {
    fn read(&self, clock: ClockId) -> Nanos {
        tsc::now(clock)
    }
    fn declined(&self, reason: Decline) {
        self.0.set(Some(reason));
    }
}

/// Bound on the error of a reading of the page now, in nanoseconds; `None` unless the page answers.
pub(super) fn bound(path: &Path) -> Option<u64> {
    report(path).ok()?.bound_ns
}

fn report(path: &Path) -> Result<ClockPage> {
    let page = open(path)?;
    // The process id in the file is that of the writer's own process-id namespace.
    let (trust, asked) = (Trust::new(), Asked::default());
    let reader = Reader { page, trust: &trust, counter: CpuCounter, kernel: &asked };
    let forbidden = tsc::is_permitted() == Some(false);
    let (declined, bound) = if forbidden {
        (Some(Decline::Forbidden), Nanos::ZERO)
    } else {
        let read = reader.bounded(PageClock::Monotonic, Order::Ordered);
        (read.declined, read.bound)
    };
    let head = page.head.load(Acquire);
    let slot = &page.slots[usize::from(head & 1 == 1)];
    let tick =
        TickLength { whole: slot.whole.load(Relaxed), fraction: slot.fraction.load(Relaxed) };
    let line = (tick != TickLength::default() && !forbidden).then(|| line(slot, tick));
    let served = match holder::of(path) {
        Ok(Holder::Process { .. } | Holder::Unseen(_)) => Some(true),
        Ok(Holder::Nobody) => Some(false),
        Err(_) => None,
    };
    Ok(ClockPage {
        served,
        since: holder::since(path).map(date::rfc3339),
        path: path.display().to_string(),
        answers: declined.is_none(),
        reason: declined.map(|reason| reason.to_string()),
        reason_number: declined.map(Decline::as_raw),
        counter_hz: (tick != TickLength::default()).then(|| 1e9 / tick_nanos(tick)),
        bound_ns: declined.is_none().then(|| bound.0.max(0).unsigned_abs()),
        age_seconds: line.map(|(age, _)| age),
        valid_seconds: line.map(|(_, left)| left),
        writer: page.writer.load(Relaxed),
        count: u32::try_from(head & u64::from(u32::MAX)).unwrap_or(0),
    })
}

/// The age of a line, and the time for which it stays valid, in seconds.
fn line(slot: &Slot, tick: TickLength) -> (f64, f64) {
    let passed = CpuCounter.ordered().0.saturating_sub(slot.base.load(Relaxed));
    let whole = slot.span.load(Relaxed).saturating_add(slot.grace.load(Relaxed));
    let seconds = |ticks: u64| ticks as f64 * tick_nanos(tick) / 1e9;
    (seconds(passed), seconds(whole.saturating_sub(passed)))
}

fn tick_nanos(tick: TickLength) -> f64 {
    tick.whole as f64 + tick.fraction as f64 / 2_f64.powi(64)
}

fn open(path: &Path) -> Result<&'static Page> {
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).with_context(
            || match path.try_exists() {
                Ok(false) => format!("there is no page {}; try clockscope serve", path.display()),
                _ => format!("cannot open the page {}", path.display()),
            },
        )?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > SIZE as u64 {
        bail!("{}: {}", path.display(), Decline::PageForeign);
    }
    if found.len() < SIZE as u64 {
        bail!("{}: {}", path.display(), Decline::PageTruncated);
    }
    let mapped: io::Result<&'static Page> = page_file::map(&file, Access::Read);
    let page = mapped.with_context(|| format!("cannot map the page {}", path.display()))?;
    match page.check(fastclock::sys::boot_id().unwrap_or_default()) {
        Ok(()) => Ok(page),
        Err(reason) => bail!("{}: {reason}", path.display()),
    }
}
