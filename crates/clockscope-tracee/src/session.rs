//! Data that all processes of a trace share: the image, which each process gets a copy of, and the pages that the
//! tracer changes while they run.

mod read_cost;

use std::cell::RefCell;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastclock::page::Page;
use fastclock::{ClockId, Nanos, Scale, Ticks};
use vdso_image::layout::{
    Constants, IMAGE_PAGES, KERNEL_MAPPINGS, KERNEL_SIZE, KernelMapping, PAGE, SESSION_MARK,
    SESSION_OFFSET,
};

use super::decline::Decline;
use super::image::{self, Counting, Ready, Route};
use super::live_pages::{CallersOneIn, LivePages};
use crate::site_files::wanted;
use clockscope_sites::Wanted;
use clockscope_stats::timed::TIMED_MIN;
use clockscope_sys::ipc_namespace::IpcNamespace;
use clockscope_sys::own_vdso::{self, OwnVdso};
use clockscope_sys::sealed::SealedPage;
use clockscope_sys::shm::Segment;
use clockscope_sys::{access, memory, proc_text, tsc};
use vdso_reader::Image;

/// Time between two timed calls of a thread that the adaptive sampling aims at.
const SAMPLE_GAP: Duration = Duration::from_micros(50);

/// A counter reading and a clock reading taken together.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    pub(crate) ticks: Ticks,
    pub(crate) time: Nanos,
}

/// The image of a session, and the data that the launch code needs.
#[derive(Debug)]
pub struct Session {
    /// The image with its constants: whole pages.
    bytes: Vec<u8>,
    /// Present if calls are counted.
    live: Option<RefCell<LivePages>>,
    /// The prepared image.
    pub ready: Ready,
    counting: Counting,
    clock: Option<ClockMemory>,
    /// Whether the image delays reads by the counter (`run --clock slow`).
    pub(crate) delays_reads: bool,
    /// Whether processes may execute memory they have written, so that they can copy the image themselves.
    pub(crate) copies_itself: bool,
    /// Offsets of the unused end of the kernel's image, where the launch code goes.
    pub(crate) room: Range<usize>,
    start: ClockPair,
    /// The cost that timing adds to a call.
    pub bracket: Bracket,
    /// Whether system calls are counted inside programs.
    pub(crate) counts_sites: bool,
    /// Whether some of these are timed.
    pub(crate) times_sites: bool,
    pub(crate) wanted_sites: Wanted,
    /// Number of this process's own seccomp filters.
    pub(crate) seccomp_filters: u32,
}

impl Session {
    /// Prepares the image for this host's kernel image.
    ///
    /// # Errors
    ///
    /// If the kernel has no vDSO, has functions that cannot be forwarded, or refuses shared memory.
    pub fn new(counting: Counting, route: Route) -> anyhow::Result<Self> {
        let start = ClockPair::read();
        let Some(own) = own_vdso::read() else {
            // As in an empty root directory.
            if !proc_text::is_mounted() {
                bail!("cannot find the vDSO, because {}", proc_text::NOT_MOUNTED);
            }
            bail!(
                "this kernel gives programs no vDSO (vdso=0?): there is nothing to count or replace"
            );
        };
        let kernel = Image::parse(&own.bytes).context("cannot read this kernel's vDSO")?;
        let code_offset = own.mappings.last().map_or(0, |(offset, _)| *offset);
        let ready = image::prepare(&kernel, code_offset, counting, route)?;
        let clock = matches!(route, Route::Tsc { .. }).then(clock_page).transpose()?;
        let read_ticks = match route {
            Route::Slow { read_cost } => read_cost::in_ticks(read_cost)?,
            _ => 0,
        };
        let live = (counting != Counting::No).then(LivePages::new).transpose();
        let live = live.context(NO_SHARED_MEMORY)?.map(RefCell::new);
        let constants = Constants {
            counting: counting as u64,
            gap_ticks: gap_ticks(),
            kernel: ready.kernel,
            target: ready.target,
            mappings: kernel_mappings(&own),
            code_offset,
            clock: clock.is_some().into(),
            mark: SESSION_MARK,
            live: 0,
            read_ticks,
            follows: 0,
            spare: [0; 4],
        };
        let mut bytes = ready.bytes.clone();
        bytes.resize(SESSION_OFFSET, 0);
        bytes.extend(memory::bytes_of(&constants));
        bytes.resize(IMAGE_PAGES, 0);
        let end = usize::try_from(kernel.content_end)
            .context("this kernel's vDSO is too large")?
            .next_multiple_of(16);
        Ok(Self {
            bytes,
            live,
            ready,
            counting,
            clock,
            delays_reads: read_ticks > 0,
            copies_itself: !access::denies_written_code(),
            counts_sites: false,
            times_sites: false,
            wanted_sites: Wanted::Calls,
            room: end..end.next_multiple_of(memory::page_size()),
            start,
            bracket: Bracket::measure(),
            seccomp_filters: seccomp_filters("self").unwrap_or(0),
        })
    }

    /// Counts system calls inside programs ([`crate::sites`]) if vDSO calls are counted, and times some of them if `times`;
    /// and reads of the CPU's `counters` by the program's own instructions.
    pub fn count_sites(&mut self, times: bool, counters: bool) {
        self.counts_sites = self.is_counting();
        self.times_sites = times && self.counts_sites;
        self.wanted_sites = wanted(counters);
    }

    /// The tracer stops every task that makes another one until the program ends.
    pub fn follow(&mut self) {
        let at = SESSION_OFFSET + offset_of!(Constants, follows);
        self.bytes[at..at + 8].copy_from_slice(&1_u64.to_le_bytes());
    }

    /// Announces that the tracer lives, so that the image times calls. The calling thread must be the tracer.
    ///
    /// # Errors
    ///
    /// If the kernel has no robust futexes.
    pub fn allow_timing(&self) -> io::Result<()> {
        self.live.as_ref().map_or(Ok(()), |live| live.borrow_mut().announce())
    }

    /// Ends the timing of calls.
    pub fn stop_timing(&self) {
        if let Some(live) = &self.live {
            live.borrow_mut().withdraw();
        }
    }

    /// N: one in N timed calls passes the image's sample probe.
    pub fn callers_one_in(&self) -> CallersOneIn {
        self.live.as_ref().map(|live| live.borrow().callers()).unwrap_or_default()
    }

    /// Moves the tracer to the IPC namespace of a process, where shared memory for the process is then made. Returns
    /// the System V id of that namespace's page with the tracer's settings; `None` if calls are not counted.
    ///
    /// # Errors
    ///
    /// A [`Decline`] without the right to enter the namespace, or without shared memory there.
    pub(crate) fn enter(&self, pid: i32) -> Result<Option<u64>, Decline> {
        let Some(live) = &self.live else { return Ok(None) };
        // The clock page is a segment of one namespace, or cannot be reached from another one.
        let is_elsewhere =
            || IpcNamespace::of(pid).is_some_and(|of| Some(of) != IpcNamespace::own());
        if self.clock.is_some() && is_elsewhere() {
            return Err(Decline::Namespace);
        }
        let entered = live.borrow_mut().enter(pid);
        entered.map(Some).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Decline::Namespace,
            kind => Decline::NoSharedMemory(kind),
        })
    }

    /// The image with its constants, as whole pages, for a process with the settings page `live_id`.
    pub(crate) fn image(&self, live_id: Option<u64>) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let at = SESSION_OFFSET + offset_of!(Constants, live);
        bytes[at..at + 8].copy_from_slice(&live_id.map_or(0, |id| id + 1).to_le_bytes());
        bytes
    }

    /// Whether vDSO calls are counted.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting != Counting::No
    }

    /// The clock page that the image answers from, if it uses one.
    pub fn clock_page(&self) -> Option<&'static Page> {
        self.clock.as_ref().map(ClockMemory::page)
    }

    /// How a process finds the clock page, and the inode that the page's file must have: `LaunchParams::clock` and
    /// `clock_inode`.
    pub(crate) fn clock_place(&self) -> (u64, u64) {
        match &self.clock {
            None => (0, 0),
            Some(ClockMemory::Segment(segment)) => (u64::from(segment.id().cast_unsigned()), 0),
            Some(ClockMemory::Sealed(sealed)) => {
                let descriptor = u64::from(sealed.descriptor().cast_unsigned());
                (u64::from(std::process::id()) << 32 | descriptor, sealed.inode)
            }
        }
    }

    /// Ticks to nanoseconds, from the counter and `CLOCK_MONOTONIC_RAW` between the start of the session and now.
    pub fn scale(&self) -> Scale {
        self.start.scale_until_now()
    }
}

/// The memory of the clock page. Every user's processes may read it. Only this process can write it; other processes of
/// the same user cannot.
#[derive(Debug)]
enum ClockMemory {
    /// For root: a segment is found by its number, also in a chroot and without a file descriptor.
    Segment(&'static Segment<Page>),
    /// For other users, because all processes of the user could write a segment.
    Sealed(SealedPage),
}

impl ClockMemory {
    fn page(&self) -> &'static Page {
        match self {
            Self::Segment(segment) => segment.get(),
            Self::Sealed(sealed) => sealed.page,
        }
    }
}

fn clock_page() -> anyhow::Result<ClockMemory> {
    if access::effective_uid() == 0 {
        let segment = Segment::new(PAGE, 0o644).context(NO_SHARED_MEMORY)?;
        return Ok(ClockMemory::Segment(Box::leak(Box::new(segment))));
    }
    SealedPage::new().map(ClockMemory::Sealed).context("cannot get memory for the clock page")
}

const NO_SHARED_MEMORY: &str = "cannot get shared memory; see `ipcs -l` for the limits";

impl ClockPair {
    /// Reads both. The counter value is the middle of the tightest of a few brackets.
    pub fn read() -> Self {
        (0..8)
            .map(|_| {
                let before = tsc::before();
                let time = tsc::now(ClockId::MonotonicRaw);
                let width = tsc::before().0.saturating_sub(before.0);
                (width, Self { ticks: Ticks(before.0 + width / 2), time })
            })
            .min_by_key(|(width, _)| *width)
            .map_or(Self { ticks: Ticks(0), time: Nanos(0) }, |(_, pair)| pair)
    }

    /// Ticks to time, from this pair until now; one tick per nanosecond if the counter does not advance.
    pub fn scale_until_now(self) -> Scale {
        let later = Self::read();
        let ticks = Ticks(later.ticks.0.saturating_sub(self.ticks.0));
        let elapsed = Nanos(later.time.0 - self.time.0);
        let scale = Scale::from_elapsed(ticks, elapsed).or(Scale::from_hz(1_000_000_000));
        scale.expect("a billion is not zero")
    }
}

/// Number of seccomp filters of a process; 0 if the kernel has none, `None` if the process is gone.
pub(crate) fn seccomp_filters(pid: &str) -> Option<u32> {
    let status = proc_text::read(format!("/proc/{pid}/status")).ok()?;
    let field = |name| proc_text::field(&status, name)?.parse().ok();
    Some(field("Seccomp_filters:").or_else(|| field("Seccomp:")).unwrap_or(0))
}

/// [`SAMPLE_GAP`] in ticks, approximately.
fn gap_ticks() -> u64 {
    let (start, begin) = (Instant::now(), tsc::before());
    while start.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
    let (elapsed, ticks) = (start.elapsed(), tsc::before().0.saturating_sub(begin.0));
    let gap = u128::from(ticks) * SAMPLE_GAP.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(gap).expect("half of the ticks: the loop takes twice as long as a gap")
}

/// The cost that timing adds to a call, measured before any program is traced; sums of 64 calls, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bracket {
    /// The added cost.
    pub added: u64,
    /// Ticks between two counter readings with nothing in between.
    pub empty: u64,
}

/// Calls in a measured block.
const BATCH: u64 = 64;

impl Bracket {
    /// The cost that timing added to each call, in thousandths of a tick. `ticks` is the sum of `samples` empty
    /// measurements, taken beside timed calls. The CPU may have been slower or faster then than in `Self::measure`, and
    /// the empty measurements show by how much. With too few samples, the measured cost is returned unscaled.
    pub fn beside(self, (ticks, samples): (u64, u64)) -> u64 {
        let scaled = |sum: u64, by: u64, of: u64| {
            let thousandths = u128::from(sum) * u128::from(by) * 1_000 / u128::from(of);
            u64::try_from(thousandths).unwrap_or(u64::MAX)
        };
        match self.empty.checked_mul(samples) {
            Some(of) if of > 0 && samples >= TIMED_MIN => scaled(self.added, ticks, of),
            _ => scaled(self.added, 1, BATCH),
        }
    }

    /// Compares the same read of a clock, timed one by one as the image does it, and in a loop. The report then shows
    /// the cost of an ordinary read as in a loop.
    ///
    /// On some CPUs the counter advances in leaps of tens of ticks (26 at 2.6 GHz on an EPYC), so the minimum of many
    /// short times is a leap too short. The mean of a block of times is accurate. The median of the blocks counts,
    /// because some blocks are interrupted.
    fn measure() -> Self {
        if !tsc::has_read_after() {
            return Self::default();
        }
        let read = || {
            std::hint::black_box(tsc::now(ClockId::Monotonic));
        };
        let timed = |call: &dyn Fn()| {
            let before = tsc::before();
            call();
            tsc::after().0.saturating_sub(before.0)
        };
        let one_by_one =
            |call: &dyn Fn()| median_of_blocks(&|| (0..BATCH).map(|_| timed(call)).sum());
        let empty = one_by_one(&|| ());
        let alone = one_by_one(&read);
        // A loop that is as short as possible in any build.
        let in_a_row = || {
            let mut left = BATCH;
            while left > 0 {
                read();
                left -= 1;
            }
        };
        let batch = median_of_blocks(&|| timed(&in_a_row));
        let in_loop = batch.saturating_sub(empty / BATCH);
        // On a host where a read takes microseconds, the difference of two reads is noise.
        let added = alone.saturating_sub(in_loop).clamp(empty / 2, empty * 2);
        Self { added, empty }
    }
}

/// The median of several blocks, in ticks.
fn median_of_blocks(block: &dyn Fn() -> u64) -> u64 {
    const BLOCKS: usize = 25;
    let mut found: Vec<u64> = (0..BLOCKS).map(|_| block()).collect();
    found.sort_unstable();
    found[BLOCKS / 2]
}

/// The mappings of the kernel's image that will be moved: all, or none if they do not fit.
fn kernel_mappings(own: &OwnVdso) -> [KernelMapping; KERNEL_MAPPINGS] {
    let mut mappings = [KernelMapping::default(); KERNEL_MAPPINGS];
    let whole = own.mappings.last().map_or(0, |(offset, size)| offset + size);
    if whole <= KERNEL_SIZE as u64 && own.mappings.len() <= KERNEL_MAPPINGS {
        let number = |number: u64| u32::try_from(number).expect("no larger than the whole");
        for (mapping, (offset, size)) in mappings.iter_mut().zip(&own.mappings) {
            *mapping = KernelMapping { offset: number(*offset), size: number(*size) };
        }
    }
    mappings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_timing_adds_follows_the_speed_of_the_cpu() {
        let bracket = Bracket { added: 50 * BATCH, empty: 40 * BATCH };
        assert_eq!(bracket.beside((0, 0)), 50_000, "nobody has timed nothing");
        assert_eq!(bracket.beside((8_000_000, 100_000)), 100_000, "half as fast");
        assert_eq!(bracket.beside((4_000_000, 100_000)), 50_000);
        assert_eq!(bracket.beside((700, TIMED_MIN - 1)), 50_000, "too few");
        assert_eq!(Bracket::default().beside((700, 100)), 0, "no counter to time with");
        // Another process can write any value there.
        assert_eq!(bracket.beside((1 << 56, TIMED_MIN)), 625 << 53);
        assert_eq!(bracket.beside((1, 1 << 56)), 50_000, "more than there can be");
    }
}
