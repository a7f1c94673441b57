//! A fast clock for Linux, which follows the kernel's, says how far it can be from it, and falls
//! back to it where the CPU's counter cannot be trusted. On other systems it is the system's clock.
//!
//! ```
//! use fastclock::Clock;
//!
//! let clock = Clock::new();
//! let start = clock.now();
//! // … work …
//! println!("took {} ns; {}", clock.elapsed(start).0, clock.status());
//! ```
//!
//! [`Clock`] is for programs, [`MockClock`] for their tests, [`KernelClock`] for comparison, and
//! [`ReadClock`] is what the three have in common. [`Instant`] takes the place of the standard
//! library's. A C program has the same by `fastclock.h`. docs/fastclock.md in the repository says
//! which call to use when.
//!
//! # Units and origins
//!
//! Everything is in nanoseconds ([`Nanos`], signed 64 bits: 292 years either way). A [`Monotonic`]
//! counts from the machine's start without suspend, a [`Boottime`] with it; a [`Realtime`] from
//! 1970-01-01 00:00 UTC without leap seconds, a [`Tai`] with them. They are the kernel's
//! `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME`, `CLOCK_REALTIME` and `CLOCK_TAI`: an NTP daemon's slew is
//! followed, `CLOCK_MONOTONIC_RAW` is not offered. [`Ticks`] of the counter have no unit.
//! Differences saturate at zero, and [`Clock::elapsed`] counts that. [`Nanos`] convert from and to
//! [`Duration`](core::time::Duration), [`Realtime`] from and to [`SystemTime`](std::time::SystemTime).
//!
//! # Errors
//!
//! Reading cannot fail: where the clock has no answer of its own, the kernel's is given, and
//! [`Clock::status`] gives the reason as a [`Decline`], in words. Only a page that was asked for
//! by name ([`Clock::from_path`], [`Clock::from_fd`]) is refused, by an [`AttachError`].
//!
//! # Where the time comes from
//!
//! *A page.* A timekeeper (`clockscope serve`) follows the kernel's clock and publishes a straight
//! line over the counter in [`HOST_PAGE`]; any number of processes read it. If it dies, the line
//! holds for some seconds more, and then the kernel answers.
//!
//! *Alone.* Without a page, the kernel answers for the first 200 ms in which the clock is used;
//! then about once a second of use one call takes 10 to 20 us to look at the kernel's clock.
//! There is no thread, and a clock that nobody reads does nothing.
//!
//! Either way every new line is compared with the kernel's clock, as this process sees it, before
//! it is used, so that a page of another time namespace is declined.
//!
//! # Guards
//!
//! The counter is used only if all of these hold, otherwise the kernel answers:
//!
//! * its rate is constant: CPUID says so, or `/proc/cpuinfo` (`constant_tsc` and `nonstop_tsc`);
//! * it is the kernel's *current* clocksource. `kvm-clock` and Hyper-V's page count if the vDSO
//!   reads them without a system call, which it does only if the hypervisor calls them stable;
//! * this process may read it (`PR_SET_TSC`);
//! * readings of it and of the kernel's clock lie on a line; a jump, a suspend, a counter that
//!   stands still or goes back end the line;
//! * the hypervisor has not moved the machine (`/dev/vmclock0`, where there is one).
//!
//! After a failure the counter is left alone for a second, then for two, up to a minute, and
//! measured anew from nothing. A clock that keeps itself asks at its renewals: what happens between
//! two of them is seen up to a second late. That the CPUs' counters agree it takes from the kernel,
//! which gives up a counter whose CPUs differ; the timekeeper measures it.
//!
//! # Caveats
//!
//! * *Order.* [`Clock::now_fast`] and [`Clock::realtime_fast`] let the CPU read the counter early:
//!   of two threads that pass readings on, one can find the other's in its future. On a virtual
//!   machine with four CPUs, 0.25 % of such reads went back, by up to 7.5 us. [`Clock::now`] never
//!   did.
//! * *Suspend.* That the machine has slept is seen at the next renewal: at once after a sleep
//!   longer than the line's validity (a second for a clock that keeps itself), up to so long late
//!   after a shorter one. Until then a counter that went on while the machine slept is ahead by the
//!   length of the sleep.
//! * *Steps of `CLOCK_REALTIME`* are seen up to a second of use late by a clock that keeps itself;
//!   it may go back by as much as it was set back. `CLOCK_MONOTONIC` never goes back.
//! * *`PR_SET_TSC`* must be called before the clock is made. If a thread takes the counter away
//!   from itself later, its next read ends it by `SIGSEGV`, as one of the kernel's vDSO does.
//! * *Fork.* A child goes on with the clock; it counts for itself, and compares the line anew. A
//!   [`RecentUpdater`] is a thread and does not survive.
//! * *A page's writer is believed* within 20 us of the kernel's clock or the page's own bound: each
//!   new line is compared once, and what was compared is what is read, whatever is written into the
//!   page afterwards, its head included (but for what docs/PAGE.md says of its count). A file that is truncated while it is mapped raises `SIGBUS`. Give nobody the
//!   right to write it who may not set this process's time.
//! * *The bound* is the distance to the kernel's clock, not to true time, and assumes that an NTP
//!   daemon changes its rate by less than 0.5 ppm between two looks: see [`discipline`].
//! * *It is not worth it* for fewer than some 100,000 reads a second; for waiting, timeouts and log
//!   lines ([`Clock::coarse`] or `CLOCK_MONOTONIC_COARSE` do); or where only [`Clock::now`] is
//!   wanted and the kernel's clocksource is the counter: ordered reads cost about what the kernel's do.
//!
//! # Systems
//!
//! The counter is read on Linux on x86-64 and aarch64. On every other system and CPU that the
//! standard library knows, all of this has the same names, and the system's clock answers
//! ([`Decline::NoCounter`]). On Linux it is then `clock_gettime(2)`. Elsewhere a [`Monotonic`] is that of
//! [`std::time::Instant`] and begins with the first reading of the process, [`Boottime`] is the same,
//! [`Realtime`] and [`Tai`] are [`SystemTime`](std::time::SystemTime), and the coarse clocks are the others.
//! There are no pages to read there. `--cfg fastclock_portable` builds this for every system.
//!
//! # Features
//!
//! * `std` (default): clocks for programs. Without it there is everything that needs no operating
//!   system: the page's format, reader and writer ([`page`]), [`discipline`], [`keeper`], the
//!   conversion, and the types.
//!
//! No `unsafe` outside of `arch` and `sys`. The oldest compiler is Rust 1.85, that of Debian 13.
//!
//! # Sources
//!
//! `clock_gettime(2)`, `vdso(7)`, `PR_SET_TSC(2const)`, `madvise(2)`, `time_namespaces(7)`; of
//! Linux 6.18: lib/vdso/gettimeofday.c, kernel/time/timekeeping.c, kernel/time/clocksource.c,
//! arch/x86/kernel/tsc.c, include/uapi/linux/vmclock-abi.h; Intel SDM vol. 3, 19.17; Arm ARM,
//! `CNTVCT_EL0`. The page is drawn in docs/PAGE.md.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

pub mod arch;
#[cfg(feature = "std")]
mod attach_error;
#[cfg(feature = "std")]
mod clock;
mod clock_id;
mod decline;
pub mod discipline;
#[cfg(feature = "std")]
mod instant;
pub mod keeper;
#[cfg(feature = "std")]
mod kernel_clock;
mod line;
#[cfg(feature = "std")]
mod mock;
pub mod page;
#[cfg(feature = "std")]
mod pair;
mod points;
mod read_clock;
mod scale;
mod sync;
#[cfg(feature = "std")]
#[path = "arch/system.rs"]
mod system;
mod units;

#[cfg(feature = "std")]
pub use attach_error::AttachError;
#[cfg(feature = "std")]
pub use clock::{Clock, ClockKind, HOST_PAGE, RecentUpdater, Source, Status};
pub use clock_id::ClockId;
pub use decline::Decline;
#[cfg(feature = "std")]
pub use instant::Instant;
#[cfg(feature = "std")]
pub use kernel_clock::KernelClock;
pub use line::{Bound, Line, Offsets, TickLength};
#[cfg(feature = "std")]
pub use mock::MockClock;
pub use points::{Boottime, Bounded, Monotonic, Realtime, Tai};
pub use read_clock::ReadClock;
pub use scale::{RateError, Scale, TickRate};
#[cfg(feature = "std")]
pub use system::sys;
pub use units::{Nanos, Picos, Ticks};

/// The programs in the user's guide are compiled and run. `guide.md` is a link to it, which makes it a part of the
/// package.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../guide.md")]
struct Guide;

/// And those in the crate's README.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Where the sources of this crate are, for the build script that compiles them into clockscope's vDSO image.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");
