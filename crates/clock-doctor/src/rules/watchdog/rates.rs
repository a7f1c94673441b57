//! The rate of each clocksource, from the kernel's log.

use crate::rules::{EventKind, Facts, is_tsc};

/// Rate of the ACPI power management timer, in hertz (`drivers/clocksource/acpi_pm.c`).
pub(crate) const ACPI_PM_HZ: f64 = 3_579_545.0;
/// Rates of HPETs, in hertz: the classic one, that of Intel's Skylake and later, that of some older chipsets, and
/// QEMU's.
pub(crate) const HPET_HZ: [f64; 4] = [14_318_180.0, 24_000_000.0, 25_000_000.0, 100_000_000.0];

/// The origin of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A clocksource's registration line, by arithmetic.
    Registration,
    /// `Refined`, `Detected`, or `read from hypervisor`.
    Stated,
    /// `@ 3.60GHz` in the name of the CPU: rounded.
    ModelName,
    /// The usual rate of such a device.
    Usual,
}

/// The rate of a clocksource as the kernel assumes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// In hertz; above 0.
    pub hz: f64,
    /// Its origin.
    pub origin: Origin,
}

impl Rate {
    /// Relative error bound against the kernel's own value: 1e-6 is a ppm.
    pub(crate) fn doubt(&self) -> f64 {
        match self.origin {
            Origin::Registration => 1e-6,
            // Before refinement the kernel's own value has this precision, and so does the printed one.
            Origin::Stated => 5e-6,
            Origin::Usual => 2e-5,
            Origin::ModelName => 2e-2,
        }
    }
}

/// The rate in hertz from a registration line: 0.445e9 x `max_cycles` / `max_idle_ns`.
///
/// `clocks_calc_max_nsecs` of `kernel/time/clocksource.c` computes `max_cycles` from `2^64 / (1.11 mult)`, and
/// `max_idle_ns` as half the duration of these cycles. The ratio gives the rate to a few parts in 10^7. `None` if a
/// number is 0 or the result is not a rate.
pub(crate) fn from_registration(max_cycles: u64, max_idle_ns: u64) -> Option<f64> {
    let hz = 0.445e9 * max_cycles as f64 / max_idle_ns as f64;
    (hz.is_finite() && hz > 0.0).then_some(hz)
}

/// Rates of the clocksources of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    registered: Vec<(String, Rate)>,
    stated: Option<Rate>,
    processor: Option<Rate>,
    model: Option<Rate>,
}

impl Rates {
    /// Reads the rates from the log, and the model name.
    pub(crate) fn of(facts: &Facts) -> Rates {
        let mut rates = Rates::default();
        for event in facts.events() {
            let stated = |mhz: f64| Rate { hz: mhz * 1e6, origin: Origin::Stated };
            match &event.kind {
                EventKind::Registered { name, max_cycles, max_idle_ns, .. } => {
                    let hz = from_registration(*max_cycles, *max_idle_ns);
                    // The TSC's is held against what is possible, because a line may be damaged.
                    let fits = |hz: &f64| !is_tsc(name) || plausible(hz / 1e6);
                    if let Some(hz) = hz.filter(fits) {
                        let rate = Rate { hz, origin: Origin::Registration };
                        rates.registered.push((name.clone(), rate));
                    }
                }
                EventKind::Refined(mhz)
                | EventKind::DetectedTsc(mhz)
                | EventKind::RateFromHypervisor(mhz)
                    if plausible(*mhz) =>
                {
                    rates.stated = Some(stated(*mhz));
                }
                EventKind::DetectedProcessor(mhz) if plausible(*mhz) => {
                    rates.processor = Some(stated(*mhz));
                }
                EventKind::CpuModel { name, .. } => rates.model = from_model(name).or(rates.model),
                _ => {}
            }
        }
        if let Some(model) = &facts.cpu.model {
            rates.model = from_model(&model.value).or(rates.model);
        }
        rates
    }

    /// Rate of the TSC under the clocksource name `name` (`tsc` or `tsc-early`).
    pub(crate) fn tsc(&self, name: &str) -> Option<Rate> {
        let other = if name == "tsc" { "tsc-early" } else { "tsc" };
        let registered = self.registration(name).or_else(|| self.registration(other));
        registered.or(self.stated).or(self.processor).or(self.model)
    }

    /// Rate of a reference, from its registration line or the usual one.
    pub(crate) fn reference(&self, name: &str) -> Option<Rate> {
        let usual = match name {
            "acpi_pm" => Some(ACPI_PM_HZ),
            "hpet" => Some(HPET_HZ[0]),
            // These clocksources count nanoseconds.
            "kvm-clock" | "xen" => Some(1e9),
            "hyperv_clocksource_tsc_page" | "hyperv_clocksource_msr" | "hyperv_clocksource" => {
                Some(1e7)
            }
            _ => None,
        };
        self.registration(name).or(usual.map(|hz| Rate { hz, origin: Origin::Usual }))
    }

    fn registration(&self, name: &str) -> Option<Rate> {
        self.registered.iter().rev().find(|(one, _)| one == name).map(|(_, rate)| *rate)
    }
}

/// A TSC runs at 0.1 to 10 GHz; a line with another rate is cut or garbled.
pub(crate) fn plausible(mhz: f64) -> bool {
    (100.0..=10_000.0).contains(&mhz)
}

fn from_model(name: &str) -> Option<Rate> {
    let (_, rate) = name.rsplit_once('@')?;
    let digits: String =
        rate.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let unit = rate.trim_start().strip_prefix(&digits)?.trim_start();
    let mhz = digits.parse::<f64>().ok()?;
    let mhz = match unit {
        unit if unit.starts_with("GHz") => mhz * 1e3,
        unit if unit.starts_with("MHz") => mhz,
        _ => return None,
    };
    plausible(mhz).then_some(Rate { hz: mhz * 1e6, origin: Origin::ModelName })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_lines_tell_rates() {
        let close = |max_cycles, max_idle_ns, hz: f64| {
            let found = from_registration(max_cycles, max_idle_ns).unwrap();
            assert!((found / hz - 1.0).abs() < 2e-6, "{found} is not {hz}");
        };
        close(0x02f7_a758_b259, 440_795_268_702, 3_293_811_000.0);
        close(0x0398_6e9f_5ad2, 881_590_531_620, 1_995_468_000.0);
        close(0x00ff_ffff, 2_085_701_024, 3_579_545.0);
        close(0x01cd_42e4_dffb, 881_590_591_483, 1e9);
        close(0x0002_4e6a_1710, 440_795_202_120, 1e7);
        close(0x0005_88fe_9dc0, 440_795_202_592, 2.4e7);
        assert_eq!(from_registration(0, 5), None);
        assert_eq!(from_registration(5, 0), None);
        assert_eq!(from_registration(0, 0), None);
    }

    #[test]
    fn a_model_name_tells_a_rounded_rate() {
        let hz = |name: &str| from_model(name).map(|rate| rate.hz);
        assert_eq!(hz("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz (family: 0x6)"), Some(3.7e9));
        assert_eq!(hz("Intel(R) Xeon(TM) CPU @ 2.80 GHz"), Some(2.8e9));
        for bad in ["AMD EPYC 7763", "@", "@ GHz", "@ 3.7.1GHz", "@ 1e9GHz", "@ 99GHz", "a@b.c"] {
            assert_eq!(hz(bad), None, "{bad}");
        }
    }
}
