//! A timer on each CPU whose ticks run a BPF program: samples of the work of all CPUs.
//!
//! The timer is `cpu-clock`, which needs no hardware counter and so exists in every virtual machine. The timer belongs
//! to a CPU, so no process is modified.
//!
//! # References
//!
//! `perf_event_open(2)`: `PERF_COUNT_SW_CPU_CLOCK`, `PERF_EVENT_IOC_PERIOD`

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use aya_obj::generated::perf_sw_ids::PERF_COUNT_SW_CPU_CLOCK;
use aya_obj::generated::perf_type_id::PERF_TYPE_SOFTWARE;
use aya_obj::generated::{PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_PERIOD};

use super::bpf::programs::Program;
use super::perf_samples::{attributes, open_with, set_program};
use super::{affinity, check};

/// The list of online CPUs.
const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";

/// The timer of a CPU; deleted when this is dropped.
#[derive(Debug)]
pub struct CpuTimer(OwnedFd);

impl CpuTimer {
    /// Opens the timer of a CPU. Once started, it runs a program every `period_ns`, unless the CPU is idle.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`: `EACCES` or `EPERM` without the privilege, `ENODEV` if the CPU is offline.
    pub fn open(cpu: i32, period_ns: u64, program: &Program) -> io::Result<Self> {
        let mut wanted = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK as u64);
        wanted.__bindgen_anon_1.sample_period = period_ns;
        wanted.set_disabled(1);
        wanted.set_exclude_idle(1);
        wanted.set_exclude_hv(1);
        let timer = Self(open_with(&wanted, -1, cpu, -1)?);
        set_program(&timer.0, program.as_fd())?;
        Ok(timer)
    }

    /// Starts the timer.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn start(&self) -> io::Result<()> {
        self.control(PERF_EVENT_IOC_ENABLE)
    }

    /// Stops the timer.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn stop(&self) -> io::Result<()> {
        self.control(PERF_EVENT_IOC_DISABLE)
    }

    /// Changes the period. The timer begins a new period; the elapsed part of the old one is lost.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_period_ns(&self, period_ns: u64) -> io::Result<()> {
        let period = &raw const period_ns;
        // SAFETY: the kernel reads one number there.
        let result = unsafe {
            libc::ioctl(self.0.as_raw_fd(), PERF_EVENT_IOC_PERIOD as libc::Ioctl, period)
        };
        check(result).map(drop)
    }

    fn control(&self, request: u32) -> io::Result<()> {
        // SAFETY: the request takes a number.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request as libc::Ioctl, 0) }).map(drop)
    }
}

/// The CPUs that are online, in ascending order.
///
/// # Errors
///
/// If `/sys` does not list them.
pub fn online_cpus() -> io::Result<Vec<i32>> {
    affinity::listed(ONLINE_CPUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_cpu_is_online() {
        assert!(!online_cpus().unwrap().is_empty());
    }
}
