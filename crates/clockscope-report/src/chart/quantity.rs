//! Numbers with units for axes, labels and sentences of the pages.

/// What a number is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Picoseconds; printed in the unit that fits.
    Picos,
    /// Nanoseconds; printed in the unit that fits.
    Nanos,
    /// Seconds; printed in the unit that fits.
    Seconds,
    /// Percent.
    Percent,
    /// A share, 1 being all; printed in percent.
    Share,
    /// Events a second.
    PerSecond,
    /// A number with a unit of the user's, or none.
    Plain(String),
}

impl Unit {
    /// The number in words, with three digits; `?` if it is not a finite one.
    #[must_use]
    pub(crate) fn text(&self, value: f64) -> String {
        if !value.is_finite() {
            return "?".to_owned();
        }
        match self {
            Unit::Picos => duration(value),
            Unit::Nanos => duration(value * 1e3),
            Unit::Seconds => duration(value * 1e12),
            Unit::Percent => format!("{} %", digits(value)),
            Unit::Share => format!("{} %", digits(value * 100.0)),
            Unit::PerSecond => scaled(value, "/s"),
            Unit::Plain(name) if name.is_empty() => digits(value),
            Unit::Plain(name) => format!("{} {name}", digits(value)),
        }
    }

    /// [`Unit::text`] with the sign always there, for differences.
    #[must_use]
    pub(crate) fn signed(&self, value: f64) -> String {
        if value > 0.0 { format!("+{}", self.text(value)) } else { self.text(value) }
    }
}

/// Three digits without zeros at the end; powers of ten where the number is far from 1; `?` if it
/// is not finite.
#[must_use]
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return "?".to_owned();
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(5e-5..999_999.5).contains(&size) {
        let text = format!("{value:.2e}");
        let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", number.trim_end_matches('0').trim_end_matches('.'));
    }
    let decimals = if size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.095 {
        2
    } else if size >= 0.0095 {
        3
    } else {
        5
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Picoseconds in the unit that fits.
fn duration(ps: f64) -> String {
    let size = ps.abs();
    let (scale, name) = if size < 999_500.0 {
        (1e3, "ns")
    } else if size < 999_500_000.0 {
        (1e6, "us")
    } else if size < 999_500_000_000.0 {
        (1e9, "ms")
    } else {
        (1e12, "s")
    };
    if size < 0.5 && size > 0.0 {
        return format!("{} s", digits(ps / 1e12));
    }
    format!("{} {name}", digits(ps / scale))
}

/// A number in thousands, millions or billions.
fn scaled(value: f64, what: &str) -> String {
    let (scale, name) = match value.abs() {
        size if size >= 999.5e6 => (1e9, " G"),
        size if size >= 999.5e3 => (1e6, " M"),
        size if size >= 9_999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{name}{what}", digits(value / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let table = [
            (Unit::Picos, 21_640.0, "21.6 ns"),
            (Unit::Picos, -3_100.0, "-3.1 ns"),
            (Unit::Picos, 0.0, "0 ns"),
            (Unit::Picos, 320.0, "0.32 ns"),
            (Unit::Picos, 0.2, "2e-13 s"),
            (Unit::Nanos, 4_000_000.0, "4 ms"),
            (Unit::Nanos, 999_600.0, "1 ms"),
            (Unit::Seconds, 2.5, "2.5 s"),
            (Unit::Seconds, 1e-6, "1 us"),
            (Unit::Percent, 0.93, "0.93 %"),
            (Unit::Share, 0.3, "30 %"),
            (Unit::PerSecond, 46_200_000.0, "46.2 M/s"),
            (Unit::PerSecond, 12.0, "12/s"),
            (Unit::Plain(String::new()), 1_493.8, "1494"),
            (Unit::Plain("ms".to_owned()), 0.001_25, "0.00125 ms"),
            (Unit::Plain(String::new()), 1e20, "1e20"),
            (Unit::Picos, f64::NAN, "?"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.text(value), text, "{value} {unit:?}");
        }
        assert_eq!(Unit::Percent.signed(2.0), "+2 %");
        assert_eq!(Unit::Percent.signed(-2.0), "-2 %");
    }
}
