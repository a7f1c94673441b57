//! The state of a host that decides the numbers, as data. Part of the JSON schema of `bench`, `compare` and
//! `wrongness`: fields are added, never renamed. Unknown values are `null`.

use serde::{Deserialize, Serialize};

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostState {
    /// When the measurement began, RFC 3339, UTC.
    pub date: String,
    /// Version of clockscope.
    pub clockscope: String,
    /// Release of the kernel (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// Name of the CPU.
    pub cpu_model: Option<String>,
    /// CPUs that are online.
    pub cpus_online: u32,
    /// The current clocksource.
    pub clocksource: Option<String>,
    /// The available clocksources.
    pub clocksources_available: Vec<String>,
    /// Timer ticks a second, from the resolution of the coarse clocks.
    pub hz: Option<u32>,
    /// Rate of the TSC as the kernel knows it, in hertz.
    pub tsc_hz_kernel: Option<f64>,
    /// Where `tsc_hz_kernel` was read.
    pub tsc_hz_source: Option<String>,
    /// Rate of the TSC measured against `CLOCK_MONOTONIC_RAW`, in hertz.
    pub tsc_hz_measured: Option<f64>,
    /// How wrong `tsc_hz_measured` can be, in parts per million.
    pub tsc_bound_ppm: Option<f64>,
    /// Whether the vDSO answers clock reads without a system call.
    pub vdso: VdsoState,
    /// The hypervisor, `none` if there is none; `null` if it cannot be told.
    pub virtualisation: Option<String>,
    /// Load average of the last minute at the start.
    pub load: Option<f64>,
    /// Seccomp mode of this process: `none`, `strict` or `filter`.
    pub seccomp: Option<String>,
    /// Offsets of this process's time namespace, `none` if it is the initial one.
    pub time_namespace: Option<String>,
    /// Process id of this process's ptrace tracer; `null` if there is none.
    pub traced_by: Option<i32>,
    /// Whether a process or BPF program traces system calls on this host.
    pub syscall_tracing: SyscallTracing,
    /// The kernel's command line.
    pub command_line: Option<String>,
}

/// Whether the vDSO answers clock reads without a system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VdsoState {
    /// Whether this process has a vDSO.
    pub present: bool,
    /// Whether the vDSO's `CLOCK_MONOTONIC` makes a system call itself; `null` if that cannot be tested.
    pub falls_back: Option<bool>,
    /// Cost of the system call through the C library's `syscall(2)` divided by the cost of the vDSO
    /// call, for `CLOCK_MONOTONIC`.
    pub ratio: Option<f64>,
}

/// Tracing of system calls on this host, which makes every system call of every process dearer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyscallTracing {
    /// Whether there is such tracing; `null` if unknown, for lack of rights for example.
    pub active: Option<bool>,
    /// The tracers: BPF programs, processes with perf events, ftrace; one clause each.
    pub who: Vec<String>,
    /// Why `active` is unknown, or which sources could not be read.
    pub note: Option<String>,
}
