//! Samples all CPUs of the host, in the kernel: in a vDSO, in a system call that reads a clock, or elsewhere.
//!
//! The kernel's part is `sample.bpf.c`. A timer on each CPU runs it. It reads the instruction pointer and adds up by
//! process and place. No process is stopped or changed, and no sample is sent to user space.

use std::io;

use clockscope_sys::bpf::kernel_types::of_this_kernel;
use clockscope_sys::bpf::maps::Map;
use clockscope_sys::bpf::programs::{Program, Purpose};
use clockscope_sys::cpu_samples::{self, CpuTimer};

use super::decline::BpfDecline;
use super::kernel_types::Types;
#[cfg(have_bpf)]
use super::loader::Aligned;
use super::loader::{self, Loaded, numbers, words};

#[cfg(have_bpf)]
static OBJECT: Option<&[u8]> = {
    static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!(env!("CLOCKSCOPE_SAMPLE_OBJECT")));
    Some(&FILE.0)
};
#[cfg(not(have_bpf))]
static OBJECT: Option<&[u8]> = None;

// Same values as in `sample.bpf.c`.
const NO_CLOCK: u32 = 255;
const NOTE_SAMPLES: u32 = 0;
const NOTE_LOST: u32 = 1;
/// Bytes of a value in the map of places, for one CPU.
const SAMPLES_BYTES: usize = 16;
/// Maximum kernel memory of the map of places.
const MAP_BYTES: usize = 64 << 20;
const ENTRIES_MOST: usize = 65_536;
const ENTRIES_LEAST: usize = 4_096;

/// The location of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the vDSO of a 64-bit process.
    Vdso {
        /// Offset from the beginning of the image, in bytes.
        offset: u32,
        /// Value of the first argument's register, if it may be the id of a clock.
        clock: Option<u8>,
    },
    /// In the vDSO of a 32-bit process, which is a different image.
    Vdso32 {
        /// Offset from the beginning of that image, in bytes.
        offset: u32,
    },
    /// In a system call that reads a clock.
    Call {
        /// Whether the vDSO made the call, because it could not answer by itself.
        from_vdso: bool,
        /// The number of the call.
        number: u32,
        /// The id of the clock; `None` if the call takes none, or for ids without a fixed number.
        clock: Option<u8>,
    },
    /// In user mode, elsewhere.
    User,
    /// In the kernel, elsewhere.
    Kernel,
}

/// Samples of one process at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceSamples {
    /// Process id; for clockscope's own process the thread id.
    pub process: i32,
    /// The location of the CPU.
    pub place: Place,
    /// Number of samples.
    pub samples: u64,
    /// The time that the samples stand for, in nanoseconds: the sum of the timer's periods.
    pub time_ns: u64,
}

/// The state of a process at its last sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Process id.
    pub process: i32,
    /// The process's name in the kernel, up to 15 bytes.
    pub command: String,
    /// The id of its control group, which is the inode of its folder in cgroup v2; 1 if cgroup v2 is not used.
    pub cgroup: u64,
}

/// A survey of all CPUs; dropping it deletes the timers.
#[derive(Debug)]
pub struct CpuSampler {
    timers: Vec<CpuTimer>,
    _program: Program,
    places: Map,
    processes: Map,
    notes: Map,
}

impl CpuSampler {
    /// Loads the program and opens a timer on each CPU that is online. Does not start the timers.
    ///
    /// `image_bytes` is the size of the vDSO. Takes some 10 ms.
    ///
    /// # Errors
    /// The reason, as a clause.
    pub fn open(period_ns: u64, image_bytes: u32) -> Result<Self, BpfDecline> {
        let refused =
            |what: &'static str| move |error: io::Error| BpfDecline::from_error(what, &error);
        let object = OBJECT.ok_or(BpfDecline::NotBuilt)?;
        let bytes = of_this_kernel().map_err(|_| BpfDecline::NoBtf)?;
        let types = Types::parse(&bytes).ok_or(BpfDecline::NoBtf)?;
        let cpus = cpu_samples::online_cpus().map_err(refused("list the CPUs"))?;
        let own = std::process::id().to_ne_bytes();
        let globals: [(&str, &[u8]); 2] =
            [("own_process", &own), ("image_bytes", &image_bytes.to_ne_bytes())];
        let mut loaded =
            Loaded::load(object, &types, &globals, &[("places", entries(cpus.len()))])?;
        let program = loaded.program("sample", Some(Purpose::Samples))?;
        let open = |cpu: &i32| CpuTimer::open(*cpu, period_ns, &program);
        let timers: io::Result<Vec<CpuTimer>> = cpus.iter().map(open).collect();
        let mut map = |name: &str| {
            let missing = || io::Error::other(format!("the map `{name}` is missing"));
            loaded.maps.remove(name).ok_or_else(missing).map_err(refused("load the maps"))
        };
        Ok(Self {
            timers: timers.map_err(refused("open the timer of a CPU"))?,
            places: map("places")?,
            processes: map("processes")?,
            notes: map("notes")?,
            _program: program,
        })
    }

    /// How many CPUs are sampled.
    pub fn cpus(&self) -> usize {
        self.timers.len()
    }

    /// Starts all timers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(&self) -> io::Result<()> {
        self.timers.iter().try_for_each(CpuTimer::start)
    }

    /// Stops all timers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&self) -> io::Result<()> {
        self.timers.iter().try_for_each(CpuTimer::stop)
    }

    /// Sets a new period for each CPU.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_periods(&self, mut period_ns: impl FnMut() -> u64) -> io::Result<()> {
        self.timers.iter().try_for_each(|timer| timer.set_period_ns(period_ns()))
    }

    /// All samples so far, by process and place.
    ///
    /// # Errors
    /// The kernel's, in reading a map.
    pub fn places(&self) -> io::Result<Vec<PlaceSamples>> {
        let mut all = Vec::new();
        let add = |key: &[u8], value: &[u8]| all.push(place_samples(numbers(key), value));
        loader::each_entry(&self.places, add).map(|()| all)
    }

    /// The processes that were sampled.
    ///
    /// # Errors
    /// The kernel's, in reading a map.
    pub fn processes(&self) -> io::Result<Vec<Sampled>> {
        let mut all = Vec::new();
        let add = |key: &[u8], value: &[u8]| all.push(sampled(numbers(key), value));
        loader::each_entry(&self.processes, add).map(|()| all)
    }

    /// Number of samples, and number of samples lost because there were too many processes or places.
    ///
    /// # Errors
    /// The kernel's, in reading a map.
    pub fn samples(&self) -> io::Result<(u64, u64)> {
        Ok((loader::note(&self.notes, NOTE_SAMPLES)?, loader::note(&self.notes, NOTE_LOST)?))
    }
}

/// Entries of the map of places: fewer if there are very many CPUs, because each has its own values.
fn entries(cpus: usize) -> u32 {
    let most = MAP_BYTES / SAMPLES_BYTES / cpus.max(1);
    u32::try_from(most.clamp(ENTRIES_LEAST, ENTRIES_MOST)).unwrap_or(u32::MAX)
}

fn place_samples([process, at, place]: [u32; 3], by_cpu: &[u8]) -> PlaceSamples {
    let clock = u8::try_from(place >> 8 & 0xff).ok().filter(|clock| u32::from(*clock) != NO_CLOCK);
    let place = match place & 0xff {
        0 => Place::Vdso { offset: at, clock },
        1 => Place::Vdso32 { offset: at },
        called @ 2..=3 => Place::Call { from_vdso: called == 2, number: at, clock },
        4 => Place::User,
        _ => Place::Kernel,
    };
    let words: Vec<u64> = words(by_cpu).collect();
    let sums = words.as_chunks::<2>().0.iter().fold((0, 0), |sums, of_cpu| {
        let [samples, time_ns] = of_cpu;
        (sums.0 + samples, sums.1 + time_ns)
    });
    PlaceSamples { process: process.cast_signed(), place, samples: sums.0, time_ns: sums.1 }
}

fn sampled([process]: [u32; 1], value: &[u8]) -> Sampled {
    let name = value.get(..16).unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let cgroup = value.get(16..).and_then(|rest| words(rest).next()).unwrap_or_default();
    Sampled {
        process: process.cast_signed(),
        command: String::from_utf8_lossy(name).into_owned(),
        cgroup,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn places_are_what_the_kernels_half_means_by_them() {
        let by_cpu = bytes(&[3, 30, 0, 0, 2, 21]);
        let found = place_samples([7, 0xb46, 1 << 8], &by_cpu);
        assert_eq!((found.process, found.samples, found.time_ns), (7, 5, 51));
        let place = |at, place| place_samples([7, at, place], &[]).place;
        let nameless = NO_CLOCK << 8;
        assert_eq!(found.place, Place::Vdso { offset: 0xb46, clock: Some(1) });
        assert_eq!(place(9, nameless), Place::Vdso { offset: 9, clock: None });
        assert_eq!(place(9, nameless | 1), Place::Vdso32 { offset: 9 });
        assert_eq!(place(228, 2), Place::Call { from_vdso: true, number: 228, clock: Some(0) });
        let own = Place::Call { from_vdso: false, number: 96, clock: None };
        assert_eq!(place(96, nameless | 3), own);
        assert_eq!((place(0, 4), place(0, 5)), (Place::User, Place::Kernel));
    }

    #[test]
    fn a_process_has_a_name_and_a_control_group() {
        let mut value = b"redis-server\0\0\0\0".to_vec();
        value.extend(bytes(&[196]));
        let Sampled { process, command, cgroup } = sampled([4711], &value);
        assert_eq!((process, command.as_str(), cgroup), (4711, "redis-server", 196));
    }

    #[test]
    fn many_cpus_share_the_memory_of_few() {
        assert_eq!(entries(2), 65_536);
        assert_eq!(entries(256), 16_384);
        assert_eq!(entries(100_000), 4_096);
    }
}
