//! The kernel's rate of the TSC, from a perf page and from the kernel's log. Pure.

/// Hertz from the scale on a perf page: a tick is `mult / 2^shift` nanoseconds.
///
/// The kernel computes the scale from whole kilohertz, so the result is rounded to whole kilohertz.
pub(super) fn hz_from_scale(shift: u16, mult: u32) -> f64 {
    let hertz = 1e9 * f64::from(shift).exp2() / f64::from(mult);
    (hertz / 1e3).round() * 1e3
}

/// Hertz from the kernel's log: the last rate that the kernel settled on.
///
/// Known lines: `tsc: Detected 2596.152 MHz processor` (also `... TSC`),
/// `tsc: Refined TSC clocksource calibration: 2593.906 MHz`.
pub(super) fn hz_from_log(log: &str) -> Option<f64> {
    let rate = |line: &str| {
        let (_, rest) = line.split_once("tsc: ")?;
        let known = rest.starts_with("Detected ") || rest.starts_with("Refined TSC clocksource");
        let (before, _) = rest.split_once(" MHz").filter(|_| known)?;
        before.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let of_tsc = |line: &&str| !line.contains(" MHz processor");
    // "processor" is the CPU's own rate; a line about the TSC goes first.
    let last = |lines: &mut dyn Iterator<Item = &str>| lines.filter_map(rate).last();
    let refined = last(&mut log.lines().filter(of_tsc));
    let megahertz = refined.or_else(|| last(&mut log.lines()))?;
    (megahertz > 0.0).then_some(megahertz * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_gives_whole_kilohertz() {
        assert_eq!(hz_from_scale(31, 827180431), 2_596_149_000.0);
        assert_eq!(hz_from_scale(30, 1 << 30), 1e9);
    }

    #[test]
    fn the_log_tells_the_rate_it_settled_on() {
        let detected = "<6>[    0.000069] tsc: Detected 2596.152 MHz processor\n";
        assert_eq!(hz_from_log(detected), Some(2_596_152_000.0));
        let refined = "[ 0.1] tsc: Fast TSC calibration using PIT\n\
                       [ 0.1] tsc: Detected 3400.000 MHz processor\n\
                       [ 0.1] tsc: Detected 3399.906 MHz TSC\n\
                       [ 1.2] tsc: Refined TSC clocksource calibration: 3393.625 MHz\n";
        assert_eq!(hz_from_log(refined), Some(3_393_625_000.0));
        let both = refined.lines().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(hz_from_log(&both), Some(3_399_906_000.0));
        assert_eq!(hz_from_log("tsc: Detected much MHz TSC\ntsc: Marking TSC unstable"), None);
        assert_eq!(hz_from_log(""), None);
    }
}
