//! A fast clock for Linux. The clock follows the kernel's clock, gives an error bound with each
//! reading, and falls back to the kernel where the CPU's counter cannot be trusted. On other
//! systems it reads the system's clock.
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
//! [`Clock`] is for programs, [`MockClock`] for their tests, [`KernelClock`] for comparison. All
//! three implement [`ReadClock`]. [`Instant`] replaces the standard library's. C programs use the
//! same clock through `fastclock.h`. docs/fastclock.md in the repository says which call to use
//! when.
//!
//! # Units and origins
//!
//! All times are nanoseconds ([`Nanos`], signed 64 bits: 292 years either way). A [`Monotonic`]
//! counts from the machine's start without suspend, a [`Boottime`] with suspend. A [`Realtime`]
//! counts from 1970-01-01 00:00 UTC without leap seconds, a [`Tai`] with leap seconds. They are the
//! kernel's `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME`, `CLOCK_REALTIME` and `CLOCK_TAI`: they follow an
//! NTP daemon's slew. `CLOCK_MONOTONIC_RAW` is not offered. [`Ticks`] of the counter have no unit.
//! Differences saturate at zero, and [`Clock::elapsed`] counts how often. [`Nanos`] convert from
//! and to [`Duration`](core::time::Duration), [`Realtime`] from and to
//! [`SystemTime`](std::time::SystemTime).
//!
//! # Errors
//!
//! Reading cannot fail: where the clock has no answer of its own, it gives the kernel's, and
//! [`Clock::status`] gives the reason as a [`Decline`], in words. Only opening a given page
//! ([`Clock::from_path`], [`Clock::from_fd`]) can fail, with an [`AttachError`].
//!
//! # Where the time comes from
//!
//! *A page.* A timekeeper (`clockscope serve`) follows the kernel's clock and publishes a straight
//! line over the counter in [`HOST_PAGE`]. Any number of processes read the page. If the timekeeper
//! dies, the line holds for some seconds more, and then the kernel answers.
//!
//! *Alone.* Without a page, the kernel answers for the first 200 ms in which the clock is used.
//! After that, about once a second of use, one call takes 10 to 20 us to look at the kernel's
//! clock. There is no thread, and a clock that is not read does nothing.
//!
//! In both cases the process compares every new line with the kernel's clock, as this process sees
//! it, before it uses the line. So a page of another time namespace is declined.
//!
//! # Guards
//!
//! The counter is used only if all of these hold, otherwise the kernel answers:
//!
//! * its rate is constant: CPUID or `/proc/cpuinfo` (`constant_tsc` and `nonstop_tsc`) says so;
//! * it is the kernel's *current* clocksource. `kvm-clock` and Hyper-V's page count if the vDSO
//!   reads them without a system call, which it does only if the hypervisor calls them stable;
//! * this process may read it (`PR_SET_TSC`);
//! * readings of it and of the kernel's clock lie on a line; a jump, a suspend, a counter that
//!   stands still or goes back end the line;
//! * the hypervisor has not moved the machine (`/dev/vmclock0`, where there is one).
//!
//! After a failure the clock leaves the counter alone for one second, then two, up to a minute, and
//! then measures it from the start. A clock that keeps itself checks the guards at its renewals, so
//! it sees a change between two renewals up to a second late. For the agreement of the CPUs'
//! counters it relies on the kernel, which stops using a counter whose CPUs differ. The timekeeper
//! measures that agreement.
//!
//! # Caveats
//!
//! * *Order.* [`Clock::now_fast`] and [`Clock::realtime_fast`] let the CPU read the counter early:
//!   when two threads pass readings on, a reading of the other thread can lie in the future. On a
//!   virtual machine with four CPUs, 0.25 % of such reads went back, by up to 7.5 us.
//!   [`Clock::now`] never did.
//! * *Suspend.* The clock notices a suspend at the next renewal: at once after a suspend longer
//!   than the line's validity (a second for a clock that keeps itself), up to that time late after
//!   a shorter suspend. Until then, if the counter went on during the suspend, readings are ahead
//!   by the length of the suspend.
//! * *Steps of `CLOCK_REALTIME`*: a clock that keeps itself sees them up to a second of use late.
//!   `CLOCK_REALTIME` may go back by as much as it was set back. `CLOCK_MONOTONIC` never goes back.
//! * *`PR_SET_TSC`* must be called before the clock is made. If a thread forbids itself the counter
//!   later, its next read raises `SIGSEGV`, as a read through the kernel's vDSO does.
//! * *Fork.* A child process goes on with the clock, counts for itself, and compares the line
//!   again. A [`RecentUpdater`] is a thread and does not survive.
//! * *A page's writer is believed* within 20 us of the kernel's clock or the page's own bound. Each
//!   new line is copied, and the copy is compared once and then read, whatever is written into the
//!   page or its head afterwards (for the exception of the head's count see docs/PAGE.md). A file
//!   that is truncated while it is mapped raises `SIGBUS`. Give write permission on the page only
//!   to users that may set this process's time.
//! * *The bound* is the distance to the kernel's clock, not to true time, and assumes that an NTP
//!   daemon changes its rate by less than 0.5 ppm between two looks: see [`discipline`].
//! * *Do not use it* for fewer than some 100,000 reads a second; for waiting, timeouts and log
//!   lines ([`Clock::coarse`] or `CLOCK_MONOTONIC_COARSE` suffices); or where only [`Clock::now`]
//!   is needed and the kernel's clocksource is the counter: ordered reads cost about as much as the
//!   kernel's.
//!
//! # Systems
//!
//! The counter is read on Linux on x86-64 and aarch64. On every other system and CPU that the
//! standard library knows, this crate has the same names, and the system's clock answers
//! ([`Decline::NoCounter`]). On Linux that clock is `clock_gettime(2)`. Elsewhere a [`Monotonic`]
//! is that of [`std::time::Instant`] and begins with the first reading of the process, [`Boottime`]
//! is the same, [`Realtime`] and [`Tai`] are [`SystemTime`](std::time::SystemTime), the coarse
//! clocks equal the precise ones, and there are no pages to read. `--cfg fastclock_portable` builds
//! this variant for every system.
//!
//! # Features
//!
//! * `std` (default): clocks for programs. Without this feature the crate has the parts that need
//!   no operating system: the page's format, reader and writer ([`page`]), [`discipline`],
//!   [`keeper`], the conversion, and the types.
//!
//! No `unsafe` outside of `arch` and `sys`. The oldest supported compiler is Rust 1.85, the version
//! in Debian 13.
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
mod numbered;
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
pub use scale::Scale;
#[cfg(feature = "std")]
pub use system::sys;
pub use units::{Nanos, Picos, Ticks};

/// Compiles and runs the programs in the user's guide. `guide.md` is a symbolic link to the guide,
/// which makes the guide a part of the package.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../guide.md")]
struct Guide;

/// Compiles and runs the programs in the crate's README.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Directory of this crate's sources, for the build script that compiles them into clockscope's
/// vDSO image.
#[doc(hidden)]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");
