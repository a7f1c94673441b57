//! Facts about this machine, from its files, its log, and measurements.

mod counters;
mod hardware;
mod kernel_log;
mod reads;
mod utc;

use std::path::Path;
use std::time::Instant;

use crate::host::{self, CLOSE_PPM, files};
use clock_doctor::facts::Facts;
use clock_doctor::measured::{Discipline, Measured};
use clockscope_model::host::HostState;
use clockscope_sys::timex::{self, Timex};
use clockscope_sys::{identity, tsc};

/// Collects the files' facts and measures; takes well under a second.
pub fn facts() -> Facts {
    live(measure())
}

fn live(measured: Measured) -> Facts {
    Facts { is_live: true, measured: Some(measured), ..kernel_log::facts() }.with_signature()
}

/// The facts about the time of day alone, as exactly as they can be read: takes up to a second more for the RTC.
pub fn time_of_day() -> Facts {
    let mut host = files::from_files(Path::new("/"));
    host.kernel = identity::kernel().release;
    let utc = Some(utc::compare(true));
    live(Measured { host, utc, cpuid: hardware::cpuid(), ..Measured::default() })
}

/// Measures facts that files do not have. All threads that this starts end before it returns; the calling
/// thread keeps its CPUs and its priority.
///
/// In a thread that may not read the counter (`PR_SET_TSC`), reading it or most clocks would kill the
/// process. Such a thread permits itself to read the counter, which affects no other thread; if that fails,
/// nothing is timed.
pub fn measure() -> Measured {
    let tsc_allowed = tsc::is_permitted();
    if tsc_allowed == Some(false) && !tsc::permit() {
        return untimed();
    }
    let start = Instant::now();
    let mut unmeasured = Vec::new();
    let (host, reads) = host::collect_while(|| reads::all(&mut unmeasured), CLOSE_PPM);
    let hz = host.tsc_hz_measured.or(host.tsc_hz_kernel);
    let warp = counters::compare(hz, &mut unmeasured);
    let others = others(host, unmeasured);
    let took_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    Measured { reads, warp, tsc_allowed, took_us, ..others }
}

/// The facts that need no clock and no counter.
fn untimed() -> Measured {
    let kernel = identity::kernel();
    let mut host = files::from_files(Path::new("/"));
    (host.kernel, host.arch) = (kernel.release, kernel.machine);
    host.vdso.present = clockscope_sys::loaded_vdso::own_base().is_some();
    let why =
        "clocks and counters: this process may not read the TSC, and may not allow it to itself";
    Measured { tsc_allowed: Some(false), ..others(host, vec![why.to_owned()]) }
}

/// What is measured beside the costs of reads and the counters.
fn others(host: HostState, mut unmeasured: Vec<String>) -> Measured {
    Measured {
        host,
        discipline: discipline(&mut unmeasured),
        cpuid: hardware::cpuid(),
        pvclock: hardware::pvclock(),
        utc: Some(utc::compare(false)),
        unmeasured,
        ..Measured::default()
    }
}

fn discipline(unmeasured: &mut Vec<String>) -> Option<Discipline> {
    match timex::read() {
        Ok(timex) => Some(described(&timex)),
        Err(error) => {
            unmeasured.push(format!("the clock's discipline: adjtimex(2) gives: {error}"));
            None
        }
    }
}

fn described(timex: &Timex) -> Discipline {
    // The kernel slews in nanoseconds with STA_NANO, otherwise in microseconds.
    let unit = if timex.status & libc::STA_NANO == 0 { 1_000 } else { 1 };
    let leap = match timex.status & (libc::STA_INS | libc::STA_DEL) {
        libc::STA_INS => "insert",
        libc::STA_DEL => "delete",
        _ => "none",
    };
    Discipline {
        is_synchronised: timex.is_synchronised(),
        offset_ns: timex.offset.saturating_mul(unit),
        frequency_ppm: timex.freq as f64 / 65_536.0,
        max_error_us: timex.maxerror,
        leap: leap.to_owned(),
        tick_us: timex.tick,
        tai_s: timex.tai,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skips::skip;

    #[test]
    fn the_discipline_is_told_in_units_that_stay() {
        let timex = Timex {
            freq: 65_536 * 12,
            tick: 10_000,
            offset: 250,
            maxerror: 1500,
            status: libc::STA_UNSYNC | libc::STA_INS,
            ..Timex::default()
        };
        let micros = described(&timex);
        assert_eq!((micros.offset_ns, micros.frequency_ppm), (250_000, 12.0));
        assert_eq!((micros.is_synchronised, micros.leap.as_str()), (false, "insert"));
        let nanos = described(&Timex { status: libc::STA_NANO | libc::STA_DEL, ..timex });
        let found = (nanos.offset_ns, nanos.leap.as_str(), nanos.is_synchronised);
        assert_eq!(found, (250, "delete", true));
    }

    #[test]
    fn this_machine_is_measured_and_left_as_it_was() {
        let before = clockscope_sys::affinity::allowed().unwrap();
        let measured = measure();
        assert_eq!(clockscope_sys::affinity::allowed().unwrap(), before);
        let monotonic = measured.reads.iter().find(|read| read.clock == "CLOCK_MONOTONIC").unwrap();
        assert!(monotonic.syscall_ns.is_some_and(|ns| ns > 0.0), "{measured:?}");
        assert!(measured.took_us > 0);
        if before.len() > 1 {
            assert!(measured.warp.is_some_and(|warp| warp.pairs > 0));
        }
    }

    #[test]
    fn a_thread_that_may_not_read_the_counter_lives_to_say_so() {
        if clockscope_sys::tsc::is_permitted().is_none() {
            return skip("this kernel forbids no program the counter");
        }
        let thread = std::thread::spawn(|| {
            assert!(clockscope_sys::tsc::forbid());
            measure()
        });
        let measured = thread.join().unwrap();
        assert_eq!(measured.tsc_allowed, Some(false));
        assert!(!measured.reads.is_empty());
    }
}
