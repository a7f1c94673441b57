//! The clock page: its layout. docs/PAGE.md draws it byte by byte.
//!
//! One writer publishes, any number of readers in any number of processes read, and neither waits
//! for the other. The page holds two copies of the content (slots). The low bit of the head's count
//! selects the current slot. The writer fills the other slot and publishes it with one store of the
//! head: a writer that dies at any moment leaves a consistent page.

mod clocks;
mod content;
mod leaves;
mod reader;
mod slow;
mod trust;
mod writer;

#[cfg(fastclock_model)]
#[doc(hidden)]
pub mod model;
#[cfg(all(test, not(fastclock_model)))]
pub(crate) mod tests;

use core::sync::atomic::Ordering;

pub use clocks::{PageClock, TimeSpec};
pub use content::{Content, State};
pub use reader::{Bounded, Counter, Kernel, Order, Reader, Steep};
pub use trust::Trust;
pub use writer::{TooLate, Writer};

use crate::decline::Decline;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};

/// The first eight bytes of every page: `fstclock`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fstclock");
/// Version of the layout.
pub const VERSION: u32 = 1;
/// Bytes of a page.
pub const SIZE: usize = 4096;
/// Bit of the owner's half of the head that the kernel sets when the owner dies: see
/// `set_robust_list(2)`, `FUTEX_OWNER_DIED` in include/uapi/linux/futex.h (Linux 6.18).
pub const OWNER_DIED: u64 = 1 << (30 + 32);

/// A page. All of it is atomics: any content is a valid value.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Page {
    /// [`MAGIC`]; written last when a page is made.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// [`SIZE`].
    pub size: AtomicU32,
    /// Boot in which the page was written: `/proc/sys/kernel/random/boot_id` as two numbers, or
    /// zero.
    pub boot_id: [AtomicU64; 2],
    /// Process id of the writer, for information only.
    pub writer: AtomicU32,
    /// Flags; none yet.
    pub flags: AtomicU32,
    reserved: [AtomicU64; 3],
    /// Low half: number of publications; its low bit selects the slot. High half: 0, or the thread
    /// id of a writer that the kernel marks with [`OWNER_DIED`] when that thread dies.
    pub head: AtomicU64,
    reserved_2: [AtomicU64; 23],
    /// The two copies of the content.
    pub slots: [Slot; 2],
    reserved_3: [AtomicU64; 416],
}

/// Seconds and nanoseconds of a clock at a line's base.
#[derive(Debug)]
#[repr(C)]
pub struct Base {
    /// Whole seconds.
    pub sec: AtomicI64,
    /// Nanoseconds within the second.
    pub nsec: AtomicU64,
}

/// One copy of the content: a line, its end, and the line before it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// Tick at which the line begins.
    pub base: AtomicU64,
    /// Number of ticks from the base in which the line holds.
    pub span: AtomicU64,
    /// [`TickLength::whole`](crate::TickLength).
    pub whole: AtomicU64,
    /// [`TickLength::fraction`](crate::TickLength).
    pub fraction: AtomicU64,
    /// `CLOCK_MONOTONIC` at the base.
    pub mono: Base,
    /// Bound at the base, ns.
    pub bound: AtomicU64,
    /// Growth of the bound per tick, 2^-64 ns.
    pub growth: AtomicU64,
    /// `CLOCK_REALTIME` at the base.
    pub real: Base,
    /// `CLOCK_BOOTTIME` at the base.
    pub boot: Base,
    /// `CLOCK_TAI` at the base.
    pub tai: Base,
    /// Ticks after the span in which the line still holds, for readers that cannot renew it now.
    pub grace: AtomicU64,
    /// 0 while the page is renewed; otherwise the reason why not, a [`Decline`] as a number.
    pub reason: AtomicU64,
    /// Base tick of the previous line; 0 with a tick length of 0 if there was none.
    pub previous_base: AtomicU64,
    /// Tick length of the previous line, whole nanoseconds.
    pub previous_whole: AtomicU64,
    /// Tick length of the previous line, fraction.
    pub previous_fraction: AtomicU64,
    /// `CLOCK_MONOTONIC` at the base of the previous line, ns.
    pub previous_mono: AtomicI64,
    reserved: [AtomicU64; 12],
}

#[cfg(not(fastclock_model))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Page>() == SIZE);
    assert!(offset_of!(Page, head) == 64);
    assert!(offset_of!(Page, slots) == 256);
    assert!(size_of::<Slot>() == 256);
    assert!(offset_of!(Slot, real) == 64);
    assert!(offset_of!(Slot, previous_base) == 128);
};

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// A page of zeroes, which no reader accepts before a [`Writer`] has made it one.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a new one")]
    pub const fn new() -> Self {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Self {
            magic: ZERO,
            version: AtomicU32::new(0),
            size: AtomicU32::new(0),
            boot_id: [ZERO; 2],
            writer: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            reserved: [ZERO; 3],
            head: ZERO,
            reserved_2: [ZERO; 23],
            slots: [const { Slot::new() }; 2],
            reserved_3: [ZERO; 416],
        }
    }

    /// Whether this is a page that this version can read, of the boot `boot_id` (zero: any).
    ///
    /// # Errors
    ///
    /// The reason: no page, another version, another boot, or damaged.
    pub fn check(&self, boot_id: [u64; 2]) -> Result<(), Decline> {
        if self.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Decline::PageForeign);
        }
        if self.version.load(Ordering::Relaxed) != VERSION {
            return Err(Decline::PageVersion);
        }
        if self.size.load(Ordering::Relaxed) as usize != SIZE {
            return Err(Decline::PageDamaged);
        }
        let written = [0, 1].map(|half: usize| self.boot_id[half].load(Ordering::Relaxed));
        if boot_id != [0; 2] && written != [0; 2] && written != boot_id {
            return Err(Decline::PageOfOtherBoot);
        }
        Ok(())
    }
}

impl Slot {
    /// A slot of zeroes: no line.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a new one")]
    const fn new() -> Self {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        const BASE: Base = Base { sec: AtomicI64::new(0), nsec: ZERO };
        Self {
            base: ZERO,
            span: ZERO,
            whole: ZERO,
            fraction: ZERO,
            mono: BASE,
            bound: ZERO,
            growth: ZERO,
            real: BASE,
            boot: BASE,
            tai: BASE,
            grace: ZERO,
            reason: ZERO,
            previous_base: ZERO,
            previous_whole: ZERO,
            previous_fraction: ZERO,
            previous_mono: AtomicI64::new(0),
            reserved: [ZERO; 12],
        }
    }
}
