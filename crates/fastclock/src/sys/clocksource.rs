//! The kernel's clocksource.

use super::look::{now, now_by_syscall};
use super::small_file::beginning;
use crate::clock_id::ClockId;
use crate::decline::Decline;
use crate::page::Counter;
use crate::system::facts::{COUNTERS, SCALED_COUNTERS};

/// The name of a clocksource; the kernel's longest has 31 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocksource {
    name: [u8; 32],
    length: usize,
}

impl Clocksource {
    fn new(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let mut name = [0; 32];
        name.get_mut(..text.len())?.copy_from_slice(text);
        (!text.is_empty()).then_some(Self { name, length: text.len() })
    }

    /// The name, for example `tsc`.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.length]).unwrap_or("")
    }
}

/// The clocksource that the kernel uses now; `None` where sysfs does not give it. Safe to call in a
/// signal handler.
///
/// # References
///
/// - `current_clocksource_show` in kernel/time/clocksource.c (Linux 6.18); the neighbouring
///   `available_clocksource` lists all usable clocksources, with a counter that the kernel no
///   longer uses
pub fn clocksource() -> Option<Clocksource> {
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut buffer = [0; 64];
    Clocksource::new(beginning(path, &mut buffer))
}

/// Whether the kernel's clocksource is the counter. A hypervisor's scaled counter (`kvm-clock`,
/// `hyperv_clocksource_tsc_page`) counts if the vDSO reads it without a system call: the vDSO does
/// so only if the hypervisor promises a counter that is stable across CPUs.
///
/// # Errors
///
/// [`Decline::Clocksource`] if it is another clocksource, or unknown.
///
/// # References
///
/// - `vread_pvclock` in arch/x86/include/asm/vdso/gettimeofday.h, `PVCLOCK_TSC_STABLE_BIT` in
///   arch/x86/include/asm/pvclock-abi.h (Linux 6.18)
pub fn counter_is_clocksource(counter: &impl Counter) -> Result<(), Decline> {
    let source = clocksource().ok_or(Decline::Clocksource)?;
    let good = is_counter(source.name(), || answers_without_system_call(counter));
    if good { Ok(()) } else { Err(Decline::Clocksource) }
}

/// Whether the clocksource of this name is the counter that programs can read, directly or scaled
/// by a hypervisor, whose vDSO then has to answer.
fn is_counter(name: &str, vdso_answers: impl FnOnce() -> bool) -> bool {
    COUNTERS.contains(&name) || SCALED_COUNTERS.contains(&name) && vdso_answers()
}

/// Whether the vDSO reads a clock without a system call: then a read takes less than half as long
/// as a system call. Otherwise the vDSO makes the system call itself and takes longer than that.
fn answers_without_system_call(counter: &impl Counter) -> bool {
    let cost = |read: fn(ClockId) -> crate::units::Nanos| {
        let once = |_| {
            let before = counter.ordered().0;
            core::hint::black_box(read(ClockId::Monotonic));
            counter.ordered().0.saturating_sub(before)
        };
        (0..64).map(once).min().unwrap_or(u64::MAX)
    };
    cost(now).saturating_mul(2) < cost(now_by_syscall).saturating_add(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_of_a_file() {
        let source = Clocksource::new(b"acpi_pm\n").unwrap();
        assert_eq!(source.name(), "acpi_pm");
        assert_eq!(Clocksource::new(b"\n"), None);
        assert_eq!(Clocksource::new(&[b'x'; 33]), None);
        assert!(Clocksource::new(&[b'x'; 32]).is_some());
    }

    #[test]
    fn the_available_counter_is_not_the_current_one() {
        let kind = |name: &str| [false, true].map(|answers| is_counter(name, || answers));
        for counter in COUNTERS {
            assert_eq!(kind(counter), [true, true], "{counter}");
            // The list of available clocksources has several names.
            let listed = std::format!("{counter} hpet");
            assert_eq!(kind(&listed), [false, false], "{listed}");
        }
        for scaled in SCALED_COUNTERS {
            assert_eq!(kind(scaled), [false, true], "{scaled}");
        }
        for other in ["hpet", "xen", "acpi_pm", "jiffies", "tsc2", "kvm-clock tsc"] {
            assert_eq!(kind(other), [false, false], "{other}");
        }
    }
}
