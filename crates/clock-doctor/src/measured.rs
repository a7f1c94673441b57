//! A machine's measurements of itself, as data. A capture carries them to the host that judges. Fields are added, never
//! renamed; an unknown value is `null`.

use serde::{Deserialize, Serialize};

use super::utc::Comparison;
use clockscope_model::host::HostState;

/// The file in a capture that holds a [`Measured`].
pub const FILE: &str = "clockscope/measured.json";

/// Measurements of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// The state of the host as `bench` records it: vDSO, TSC rate against the kernel's clock,
    /// seccomp, time namespace, tracing of system calls, load.
    pub host: HostState,
    /// The cost of a read of each clock.
    pub reads: Vec<ReadCost>,
    /// Worst lag of one CPU's TSC behind another's.
    pub warp: Option<WarpMeasured>,
    /// The result of `prctl(PR_GET_TSC)`: this process may execute `rdtsc`.
    pub tsc_allowed: Option<bool>,
    /// The state of the kernel clock's synchronisation (`adjtimex(2)`).
    pub discipline: Option<Discipline>,
    /// CPUID leaves about the TSC.
    pub cpuid: Option<Cpuid>,
    /// The paravirtual clock's page that the vDSO reads, if it is mapped.
    pub pvclock: Option<Pvclock>,
    /// `CLOCK_REALTIME` beside clocks outside of this kernel.
    pub utc: Option<Comparison>,
    /// Duration of measuring, in microseconds.
    pub took_us: u64,
    /// Measurements that failed, with the reason: one clause each.
    pub unmeasured: Vec<String>,
}

impl Measured {
    /// The cost of reading that clock.
    pub(crate) fn read(&self, clock: &str) -> Option<&ReadCost> {
        self.reads.iter().find(|read| read.clock == clock)
    }
}

/// The cost of a read of one clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCost {
    /// The clock, such as `CLOCK_MONOTONIC`.
    pub clock: String,
    /// Median cost through the vDSO, in nanoseconds; `None` if the vDSO has no such function.
    pub vdso_ns: Option<f64>,
    /// Median cost by system call, in nanoseconds.
    pub syscall_ns: Option<f64>,
    /// The vDSO answers by making a system call.
    pub falls_back: Option<bool>,
}

/// The TSCs of all CPUs against each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WarpMeasured {
    /// Pairs of CPUs that were compared.
    pub pairs: u64,
    /// Number of readings that followed a reading on the other CPU.
    pub handovers: u64,
    /// Number of readings lower than an earlier one on another CPU.
    pub backwards: u64,
    /// The largest step back, in ticks of the TSC; 0 if there was none.
    pub worst_ticks: u64,
    /// Widest bound on the offset of a pair, in nanoseconds: smaller offsets are not seen.
    pub bound_ns: Option<f64>,
    /// The offset between two CPUs that exceeds its own bound by the most, with its pair, in nanoseconds; positive if
    /// the second CPU is ahead.
    pub offset_ns: Option<(u32, u32, f64)>,
    /// Bound on the error of that estimate, in nanoseconds.
    pub offset_bound_ns: Option<f64>,
}

/// `adjtimex(2)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Discipline {
    /// `STA_UNSYNC` is not set.
    pub is_synchronised: bool,
    /// Offset that is being slewed, in nanoseconds.
    pub offset_ns: i64,
    /// Frequency correction, in parts per million.
    pub frequency_ppm: f64,
    /// Greatest error that the kernel states, in microseconds.
    pub max_error_us: i64,
    /// A leap second is pending: `insert`, `delete` or `none`.
    pub leap: String,
    /// Microseconds per tick (10000 unless adjusted).
    pub tick_us: i64,
    /// TAI minus UTC in seconds; 0 if no daemon has set it.
    pub tai_s: i32,
}

/// CPUID leaves about the TSC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpuid {
    /// Leaf 0x8000_0007, EDX bit 8: the TSC is invariant.
    pub invariant_tsc: bool,
    /// Leaf 0x15: EAX, EBX, ECX: ratio TSC/crystal and the crystal's hertz; zeros if unknown.
    pub leaf_15: Option<[u32; 3]>,
    /// Leaf 0x16: EAX, base frequency in MHz.
    pub leaf_16: Option<u32>,
    /// Leaf 0x4000_0000: the hypervisor's signature.
    pub hypervisor: Option<String>,
    /// Leaf 0x4000_0010: EAX, the TSC's kHz as VMware, KVM and others state it.
    pub hypervisor_tsc_khz: Option<u32>,
    /// Leaf 0x4000_0001 EAX of KVM: feature bits; bit 24 is the stable clocksource bit.
    pub kvm_features: Option<u32>,
}

/// The page of a paravirtual clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pvclock {
    /// `kvm` or `xen` (`struct pvclock_vcpu_time_info`), or `hyperv` (TSC reference page).
    pub kind: String,
    /// `PVCLOCK_TSC_STABLE_BIT`, or a sequence number that is not 0 for Hyper-V.
    pub is_stable: bool,
}
