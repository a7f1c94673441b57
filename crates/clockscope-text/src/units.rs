//! Numbers in words: durations, counts, shares and rates.

/// Picoseconds in a unit, and the unit's name.
const UNITS: [(u128, &str); 4] =
    [(1_000, "ns"), (1_000_000, "us"), (1_000_000_000, "ms"), (1_000_000_000_000, "s")];

/// A duration given in picoseconds, with three digits: `21.4 ns`, `1.23 us`, `152 ms`, `3725 s`.
pub fn picos(ps: u64) -> String {
    picos_wide(u128::from(ps))
}

/// A duration given in nanoseconds, with three digits: `21 ns`, `1.23 us`, `152 ms`, `3725 s`.
pub fn nanos(ns: u64) -> String {
    picos_wide(u128::from(ns) * 1_000)
}

/// [`picos`], for products and sums that need more than 64 bits.
pub fn picos_wide(ps: u128) -> String {
    let said = |(unit, name)| Some(format!("{} {name}", three_digits(ps, unit)?));
    if let Some(said) = UNITS.into_iter().find_map(said) {
        return said;
    }
    let seconds = ps.saturating_add(UNITS[3].0 / 2) / UNITS[3].0;
    if seconds < 1_000_000_000_000 { format!("{seconds} s") } else { format!("{seconds:.2e} s") }
}

/// A number in this unit with three digits, or `None` if it has more before the point.
fn three_digits(number: u128, unit: u128) -> Option<String> {
    [2, 1, 0].into_iter().find_map(|decimals| {
        let digits = number.saturating_mul(10_u128.pow(decimals)).saturating_add(unit / 2) / unit;
        (digits < 1_000).then(|| with_decimals(digits, decimals))
    })
}

/// `digits / 10^decimals`, without zeros at the end.
fn with_decimals(digits: u128, decimals: u32) -> String {
    let power = 10_u128.pow(decimals);
    let whole = digits / power;
    let rest = format!("{:0width$}", digits % power, width = decimals as usize);
    let rest = rest.trim_end_matches('0');
    if rest.is_empty() { whole.to_string() } else { format!("{whole}.{rest}") }
}

/// A whole number with a comma after each three digits.
pub fn count(number: u64) -> String {
    group(&number.to_string())
}

/// A number with its noun: `1 thread`, `2 threads`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A rate a second with three digits, from 10,000 on with an SI prefix; `None` if it is no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
pub fn brief_rate(per_second: f64) -> Option<String> {
    let rate = rate(per_second)?;
    Some(if per_second < 1e4 { rate } else { brief(per_second as u64) })
}

/// A number with three digits and an SI prefix if it has more than four digits: `9,066`, `12.3k`, `400k`, `35.7M`.
pub fn brief(number: u64) -> String {
    const PREFIXES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if number < 10_000 {
        return count(number);
    }
    let units = (1..).map(|power| 1_000_u128.pow(power));
    let said = |(prefix, unit)| Some(three_digits(number.into(), unit)? + prefix);
    PREFIXES.into_iter().zip(units).find_map(said).unwrap_or_else(|| count(number))
}

fn group(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share (1 is the whole) in percent: `62 %`, `3.1 %`, `0.04 %`, `less than 0.01 %`.
pub fn share(part: f64) -> String {
    match part * 100.0 {
        percent if !percent.is_finite() => "an unknown share".to_owned(),
        ..=0.0 => "0 %".to_owned(),
        ..0.01 => "less than 0.01 %".to_owned(),
        percent @ ..0.995 => format!("{percent:.2} %"),
        percent @ ..9.95 => format!("{percent:.1} %"),
        percent @ ..1e6 => format!("{percent:.0} %"),
        percent => format!("{percent:.1e} %"),
    }
}

/// Events per second: `0.25`, `4.5`, `433,000`; `None` if the value is negative or not finite.
pub fn rate(per_second: f64) -> Option<String> {
    match per_second {
        _ if !per_second.is_finite() || per_second < 0.0 => None,
        ..1.0 => Some(format!("{per_second:.2}")),
        ..99.95 => Some(format!("{per_second:.1}")),
        ..1e12 => Some(group(&format!("{per_second:.0}"))),
        _ => Some(format!("{per_second:.2e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_sensible_unit() {
        let table = [
            (0, "0 ns"),
            (4, "0 ns"),
            (350, "0.35 ns"),
            (21_400, "21.4 ns"),
            (26_000, "26 ns"),
            (152_300, "152 ns"),
            (999_499, "999 ns"),
            (999_500, "1 us"),
            (1_234_000, "1.23 us"),
            (9_995_000, "10 us"),
            (12_345_000, "12.3 us"),
            (4_000_000_000, "4 ms"),
            (2_310_000_000_000, "2.31 s"),
            (999_600_000_000_000, "1000 s"),
            (3_725_000_000_000_000, "3725 s"),
            (u64::MAX, "18446744 s"),
        ];
        for (ps, text) in table {
            assert_eq!(picos(ps), text, "{ps} ps");
        }
        assert_eq!(nanos(21), "21 ns");
        assert_eq!(nanos(1_200), "1.2 us");
        assert_eq!(nanos(u64::MAX), "18446744074 s");
        assert_eq!(picos_wide(u128::MAX / 2), "1.70e26 s");
    }

    #[test]
    fn counts_are_grouped_by_three() {
        let table = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345, "12,345"),
            (1_000_000, "1,000,000"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "thread", "threads"), "1 thread");
        assert_eq!(counted(2_000, "thread", "threads"), "2,000 threads");
    }

    #[test]
    fn brief_numbers_have_at_most_five_letters() {
        let table = [
            (0, "0"),
            (9_999, "9,999"),
            (10_000, "10k"),
            (12_345, "12.3k"),
            (193_825, "194k"),
            (999_499, "999k"),
            (999_500, "1M"),
            (35_742_018, "35.7M"),
            (u64::MAX, "18.4E"),
        ];
        for (number, text) in table {
            assert_eq!(brief(number), text);
        }
    }

    #[test]
    fn shares_keep_the_digits_that_matter() {
        let table = [
            (0.0, "0 %"),
            (-0.1, "0 %"),
            (0.000_01, "less than 0.01 %"),
            (0.000_4, "0.04 %"),
            (0.009_96, "1.0 %"),
            (0.031, "3.1 %"),
            (0.099_6, "10 %"),
            (0.62, "62 %"),
            (2.3, "230 %"),
            (1e9, "1.0e11 %"),
            (f64::NAN, "an unknown share"),
        ];
        for (part, text) in table {
            assert_eq!(share(part), text, "{part}");
        }
    }

    #[test]
    fn rates_keep_the_digits_that_matter() {
        let table = [
            (0.25, Some("0.25")),
            (4.52, Some("4.5")),
            (99.96, Some("100")),
            (432_900.4, Some("432,900")),
            (1e13, Some("1.00e13")),
            (f64::INFINITY, None),
            (f64::NAN, None),
            (-1.0, None),
        ];
        for (per_second, text) in table {
            assert_eq!(rate(per_second).as_deref(), text, "{per_second}");
        }
    }
}
