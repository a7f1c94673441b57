//! Numbers as C's `printf("%g")` prints them.

/// `%.{digits}g`: that many significant digits without trailing zeros, with an exponent if the number is very
/// large or small.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        // NaN comes only from the square root of a negative number, which has a sign on this machine.
        return "-nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= places {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(places - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are those of the C library.
    #[test]
    fn numbers_look_as_in_c() {
        let table = [
            (0.0, 6, "0"),
            (-0.0, 6, "-0"),
            (1e9, 8, "1e+09"),
            (12_345_678.0, 8, "12345678"),
            (123_456_789.0, 8, "1.2345679e+08"),
            (0.0001, 6, "0.0001"),
            (0.000_012_345_67, 6, "1.23457e-05"),
            (-898.166_66, 6, "-898.167"),
            (482.98, 6, "482.98"),
            (999_999.5, 6, "1e+06"),
            (1e100, 8, "1e+100"),
            (2.5, 1, "2"),
            (f64::INFINITY, 6, "inf"),
            (f64::NEG_INFINITY, 6, "-inf"),
            (f64::NAN, 6, "-nan"),
        ];
        for (value, digits, text) in table {
            assert_eq!(general(value, digits), text);
        }
    }
}
