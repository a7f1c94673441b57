//! Clocks on a timekeeper's pages: good pages, ended pages, and every kind of unusable page.

use core::sync::atomic::Ordering::Relaxed;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::string::ToString;
use std::time::Duration;

use super::tests::assert_within_bounds;
use crate::arch::CpuCounter;
use crate::clock::{Clock, ClockKind, Source};
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::discipline::Settings;
use crate::keeper::tests::PACE;
use crate::keeper::{Keeper, Pace};
use crate::kernel_clock::KernelClock;
use crate::page::{Counter, Page, SIZE, Writer};
use crate::read_clock::ReadClock;
use crate::sys;
use crate::units::{Nanos, Ticks};

/// A page in a file, and its writer.
struct Kept {
    file: tempfile::NamedTempFile,
    page: &'static Page,
    writer: Writer<'static>,
    keeper: Keeper,
}

impl Kept {
    fn new(boot_id: [u64; 2], valid: Duration) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE as u64).unwrap();
        let page = sys::writable(file.as_file());
        let valid = Nanos(i64::try_from(valid.as_nanos()).unwrap());
        let pace = Pace { valid, grace: Nanos::ZERO, ..PACE };
        // The accuracy of the rate is not tested here.
        let settings = Settings { baseline: Nanos(5_000_000), ..Settings::default() };
        let writer = Writer::create(page, boot_id, 1);
        Self { file, page, writer, keeper: Keeper::new(settings, pace) }
    }

    fn renew(&mut self) {
        loop {
            let verdict = self.keeper.discipline.observe(&sys::look(&CpuCounter, 32));
            let published = self.keeper.publish(&mut self.writer, &CpuCounter);
            if verdict.reason().is_none() && published == Ok(true) {
                // Waits for the line's base, which is a little ahead.
                let base = self.writer.current().unwrap().line.base;
                while CpuCounter.ordered() < base {}
                return;
            }
        }
    }

    fn good() -> Self {
        let mut kept = Self::new(sys::boot_id().unwrap_or_default(), Duration::from_secs(30));
        kept.renew();
        kept
    }

    fn clock(&self) -> Clock {
        Clock::from_path(self.file.path()).unwrap()
    }

    fn overwrite(&mut self, bytes: &[u8]) {
        self.file.seek(SeekFrom::Start(0)).unwrap();
        self.file.write_all(bytes).unwrap();
    }
}

fn refused(path: &Path) -> Decline {
    Clock::from_path(path).unwrap_err().reason
}

fn assert_the_kernel_answers(clock: &Clock, reason: Decline) {
    let before = sys::now(ClockId::Monotonic);
    let reading = clock.now_bounded();
    let after = sys::now(ClockId::Monotonic);
    assert_eq!(reading.declined, Some(reason));
    assert!((before..=after).contains(&reading.time.0), "{before:?} {reading:?} {after:?}");
    assert_eq!(clock.status().declined, Some(reason));
    assert!(clock.status().kernel_answers_for(reason) >= 1);
}

#[test]
fn a_good_page_is_read() {
    let kept = Kept::good();
    let clock = kept.clock();
    assert_within_bounds(&clock, 1_000);
    let status = clock.status();
    assert!(status.is_fast() && status.source == Source::Page, "{status}");
    assert!(status.to_string().starts_with("read from a timekeeper's page, within "), "{status}");
    assert_eq!((status.kernel_answers(), status.host_page, status.renewals), (0, None, 0));
    let kernel = sys::now(ClockId::Realtime);
    let real = clock.realtime_bounded();
    assert!(real.time.0.0.abs_diff(kernel.0) < 10_000_000_000, "{real:?} {kernel:?}");
    for reading in [clock.now_bounded_fast(), ReadClock::now_bounded_fast(&clock)] {
        assert!(reading.declined.is_none() && reading.bound.0 > 0, "{reading:?}");
        assert!(reading.time.0.0.abs_diff(clock.now().0.0) < 10_000_000_000, "{reading:?}");
    }
    for real in [clock.realtime_bounded_fast(), ReadClock::realtime_bounded_fast(&clock)] {
        assert!(real.declined.is_none() && real.bound.0 > 0, "{real:?}");
        assert!(real.time.0.0.abs_diff(kernel.0) < 10_000_000_000, "{real:?}");
    }
    assert!(clock.boottime().as_nanos() >= clock.now().as_nanos() - 1_000_000_000);
    assert!(clock.tai().as_nanos() > 0);
}

#[test]
fn a_descriptor_may_be_closed_afterwards() {
    let kept = Kept::good();
    let file = File::open(kept.file.path()).unwrap();
    let clock = Clock::from_fd(file.as_fd()).unwrap();
    drop(file);
    assert!(clock.status().is_fast(), "{}", clock.status());
}

#[test]
fn the_hosts_page_is_used_if_it_is_good() {
    let kept = Kept::good();
    assert_eq!(Clock::on_page_or_alone(kept.file.path()).status().source, Source::Page);
    let clock = Clock::on_page_or_alone(Path::new("/does/not/exist"));
    let status = clock.status();
    assert_eq!((status.source, status.host_page), (Source::Alone, Some(Decline::PageUnreadable)));
    assert!(status.to_string().ends_with("not used: the page cannot be opened"), "{status}");
    let mut stopped = Kept::good();
    stopped.writer.end(&CpuCounter, Ticks(50_000), Decline::WriterStopped);
    let over = stopped.writer.current().unwrap().ends();
    while CpuCounter.ordered() <= over {}
    let status = Clock::on_page_or_alone(stopped.file.path()).status();
    assert_eq!((status.source, status.host_page), (Source::Alone, Some(Decline::WriterStopped)));
}

#[test]
fn what_is_no_page_is_refused_in_words() {
    let mut kept = Kept::good();
    for length in [0, 100, 4095] {
        kept.file.as_file().set_len(length).unwrap();
        assert_eq!(refused(kept.file.path()), Decline::PageTruncated, "{length}");
    }
    let garbage = b"garbage!".repeat(SIZE / 8);
    kept.overwrite(&garbage);
    assert_eq!(refused(kept.file.path()), Decline::PageForeign);
    for path in ["/", "/dev/null", "/dev/zero"] {
        assert_eq!(refused(Path::new(path)), Decline::PageForeign, "{path}");
    }
    let error = Clock::from_path(Path::new("/does/not/exist")).unwrap_err();
    assert_eq!(error.reason, Decline::PageUnreadable);
    assert!(error.to_string().starts_with("the page cannot be opened: No such file"), "{error}");
    assert_eq!(refused(Path::new("/proc/self/status/page")), Decline::PageUnreadable);
}

#[test]
fn a_fifo_does_not_keep_anybody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(refused(&path), Decline::PageForeign);
}

#[test]
fn a_page_that_this_version_cannot_read_is_refused() {
    let kept = Kept::good();
    kept.page.version.store(99, Relaxed);
    assert_eq!(refused(kept.file.path()), Decline::PageVersion);
    let other = Kept::new([1, 2], Duration::from_secs(1));
    assert_eq!(refused(other.file.path()), Decline::PageOfOtherBoot);
    let never_published = Kept::good();
    never_published.page.head.store(0, Relaxed);
    assert_eq!(refused(never_published.file.path()), Decline::PageDamaged);
}

#[test]
fn a_page_without_a_line_yet_is_waited_for() {
    let mut kept = Kept::new([0; 2], Duration::from_secs(30));
    let clock = kept.clock();
    assert_the_kernel_answers(&clock, Decline::Starting);
    assert_eq!(clock.calibrate(Duration::from_millis(1)).declined, Some(Decline::Starting));
    kept.renew();
    assert!(clock.status().is_fast(), "{}", clock.status());
}

#[test]
fn a_dead_timekeeper_is_bridged_and_then_replaced_by_the_kernel() {
    let mut kept = Kept::new([0; 2], Duration::from_millis(30));
    kept.renew();
    let clock = kept.clock();
    let ends = kept.writer.current().unwrap().ends();
    let mut last = clock.now();
    while CpuCounter.ordered() < ends {
        let next = clock.now();
        assert!(next >= last);
        last = next;
    }
    assert!(clock.now() >= last);
    assert_eq!(clock.now_bounded().declined, Some(Decline::Expired));
    // A new writer goes on with the same page.
    kept.writer = Writer::resume(kept.page, [0; 2], 2).unwrap();
    kept.renew();
    assert!(clock.now() >= last);
    assert_within_bounds(&clock, 1_000);
}

#[test]
fn a_file_put_in_the_pages_place_does_not_disturb_who_has_it() {
    let kept = Kept::good();
    let clock = kept.clock();
    let folder = kept.file.path().parent().unwrap();
    let mut other = tempfile::NamedTempFile::new_in(folder).unwrap();
    other.write_all(&[0xff; 64]).unwrap();
    std::fs::rename(other.path(), kept.file.path()).unwrap();
    assert_within_bounds(&clock, 1_000);
    assert!(clock.status().is_fast());
    assert_eq!(refused(kept.file.path()), Decline::PageTruncated);
}

#[test]
fn zeroes_over_a_page_in_use_lead_to_the_kernel() {
    let mut kept = Kept::good();
    let clock = kept.clock();
    let last = clock.now();
    kept.overwrite(&[0; SIZE]);
    assert!(clock.now() >= last);
    assert_the_kernel_answers(&clock, Decline::Starting);
}

#[test]
fn coarse_times_are_the_kernels_whatever_the_page_says() {
    let kept = Kept::good();
    let clock = kept.clock();
    let before = KernelClock.coarse();
    let coarse = clock.coarse();
    assert!(before <= coarse && coarse <= KernelClock.coarse());
    let fine = clock.now_bounded();
    assert_eq!(fine.declined, None);
    assert!(coarse.as_nanos() <= fine.time.as_nanos() + fine.bound.0, "{coarse:?} {fine:?}");
    let before = KernelClock.coarse_realtime();
    let real = clock.coarse_realtime();
    assert!(before <= real && real <= KernelClock.coarse_realtime());
    let (second, before) = (clock.second(), real.truncated_to_second());
    assert!(before <= second && second <= clock.coarse_realtime());
    assert!(second <= ReadClock::second(&clock));
    assert_eq!(clock.resolution(ClockKind::Second), Nanos(1_000_000_000));
    let tick = clock.resolution(ClockKind::Coarse);
    assert!((1_000_000..=10_000_000).contains(&tick.0), "{tick:?}");
}
