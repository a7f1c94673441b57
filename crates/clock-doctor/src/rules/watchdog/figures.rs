//! Formats durations, rates and shares for the sentences of these rules.

pub(crate) use clockscope_text::units::count;
use clockscope_text::units::picos;

/// Nanoseconds in a unit, and the unit's name.
const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

/// A duration in nanoseconds with three digits: `704 us`, `4.69 s`, `-485 ms`.
pub(crate) fn duration(ns: f64) -> String {
    fine(ns, ns.abs() / 100.0)
}

/// A duration in nanoseconds with enough digits to show a difference of `detail_ns`: `511.303 ms`.
pub(crate) fn fine(ns: f64, detail_ns: f64) -> String {
    if !ns.is_finite() {
        return "an unknown time".to_owned();
    }
    let size = ns.abs();
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| size >= *unit).unwrap_or((1.0, "ns"));
    // The rounding error is less than a tenth of the difference to show.
    let steps = unit / detail_ns.abs().max(1e-3);
    let decimals = match name {
        "ns" => 0,
        _ if steps <= 1.0 => 0,
        _ => (1..=9).find(|decimals| 10_f64.powi(*decimals) >= steps).unwrap_or(9),
    };
    let decimals = usize::try_from(decimals).unwrap_or(0);
    format!("{:.decimals$} {name}", ns / unit)
}

/// The cost of a read in nanoseconds, with up to three digits: `22.7 ns`, `1.2 us`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
pub(crate) fn cost(ns: f64) -> String {
    picos((ns * 1e3).round() as u64)
}

/// Seconds since the start: `12 s`, `40 min`, `2.5 h`, `12 days`.
pub(crate) fn since_start(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{:.0} days", s / 86_400.0),
        s if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 120.0 => format!("{:.0} min", s / 60.0),
        s => format!("{s:.0} s"),
    }
}

/// A rate in hertz: `2593.906 MHz`, `3.580 MHz`, `250 Hz`.
pub(crate) fn hertz(hz: f64) -> String {
    match hz {
        hz if hz >= 1e4 => format!("{:.3} MHz", hz / 1e6),
        hz => format!("{hz:.0} Hz"),
    }
}

/// A rate in gigahertz, for a rate that is known only roughly: `3.49 GHz`.
pub(crate) fn gigahertz(hz: f64) -> String {
    if hz >= 1e7 { format!("{:.2} GHz", hz / 1e9) } else { hertz(hz) }
}

/// Parts per million: `1376 ppm`, `4.17 %`, `0.97 ppm`.
pub(crate) fn share(ppm: f64) -> String {
    match ppm.abs() {
        size if size >= 1e5 => format!("{:.0} %", size / 1e4),
        size if size >= 1e4 => format!("{:.2} %", size / 1e4),
        size if size >= 10.0 => format!("{size:.0} ppm"),
        size => format!("{size:.2} ppm"),
    }
}

/// The accumulated error per day of a rate error: `1.0 h a day`, `3.5 s a day`.
pub(crate) fn a_day(ppm: f64) -> String {
    let seconds = ppm.abs() * 0.0864;
    match seconds {
        s if s >= 3_000.0 => format!("{:.1} h a day", s / 3_600.0),
        s if s >= 120.0 => format!("{:.0} min a day", s / 60.0),
        s if s >= 9.95 => format!("{s:.0} s a day"),
        s => format!("{s:.1} s a day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_what_matters() {
        assert_eq!(duration(633_206_175.0), "633 ms");
        assert_eq!(duration(5_320_282_620.0), "5.32 s");
        assert_eq!(duration(-485_515_617.0), "-486 ms");
        assert_eq!(duration(703_664.0), "704 us");
        assert_eq!(duration(110.0), "110 ns");
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(f64::NAN), "an unknown time");
        assert_eq!(fine(511_302_794.0, 7_000.0), "511.303 ms");
        assert_eq!(fine(5_320_282_620.0, 46_870_764.0), "5.32 s");
        assert_eq!(fine(4404.0, 1.0), "4.404 us");
    }

    #[test]
    fn rates_and_shares_are_in_words() {
        assert_eq!(hertz(1_974_999_000.0), "1974.999 MHz");
        assert_eq!(hertz(1000.0), "1000 Hz");
        assert_eq!(gigahertz(3.4934e9), "3.49 GHz");
        assert_eq!(share(1376.2), "1376 ppm");
        assert_eq!(share(-41_666.1), "4.17 %");
        assert_eq!(share(166_889.0), "17 %");
        assert_eq!(share(0.97), "0.97 ppm");
        assert_eq!(a_day(41_666.0), "1.0 h a day");
        assert_eq!(a_day(1376.0), "119 s a day");
        assert_eq!(since_start(8_996.1), "2.5 h");
        assert_eq!(since_start(41.9), "42 s");
        assert_eq!(since_start(1e6), "12 days");
        assert_eq!(count(9_123_456_789), "9,123,456,789");
    }
}
