//! Parses times, and the cost of a read, for `run --read-cost` and `trace --what-if`.

use std::time::Duration;

use clockscope_report::what_if::Question;

/// Limit: no vDSO call is faster.
const LEAST: Duration = Duration::from_nanos(20);
/// Limit: no clocksource is slower.
const MOST: Duration = Duration::from_millis(1);
/// Largest ratio of `--what-if`.
const MOST_TIMES: f64 = 10_000.0;

/// A time: a number and a unit, or seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let seconds_of_unit = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * seconds_of_unit).ok()
}

/// The cost of a read: a number and a unit.
pub(super) fn read_cost(text: &str) -> Result<Duration, String> {
    match time(text).filter(|_| text.ends_with(char::is_alphabetic)) {
        Some(cost) if (LEAST..=MOST).contains(&cost) => Ok(cost),
        Some(_) => {
            Err(format!("`{text}` is out of range: a read costs 20 ns at least and 1 ms at most"))
        }
        None => Err(format!(
            "`{text}` is no cost of a read: give a time with its unit, as in 1.2us or 900ns"
        )),
    }
}

/// Parses the value of `--what-if`: the cost of a read, or a ratio.
pub(super) fn question(text: &str) -> Result<Question, String> {
    let Some(times) = text.strip_suffix('x') else {
        return read_cost(text).map(Question::Read).map_err(|error| {
            let hint = if text.ends_with(char::is_alphabetic) {
                ""
            } else {
                ", or 3x for 3 times as long"
            };
            format!("{error}{hint}")
        });
    };
    let times = times.parse::<f64>().ok().filter(|times| (1.0..=MOST_TIMES).contains(times));
    times.map(Question::Times).ok_or_else(|| {
        format!("`{text}` is no ratio: give how many times as long, as in 3x or 1.5x, at least 1x")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_number_and_a_unit() {
        for (text, nanos) in [
            ("1.2us", 1_200),
            ("900ns", 900),
            ("20ns", 20),
            ("1ms", 1_000_000),
            ("1.226 us", 1_226),
            ("2µs", 2_000),
        ] {
            assert_eq!(read_cost(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in
            ["", "1.2", "us", "nanus", "1e999us", "-1us", "nanns", "infus", "1,2us", "1.2usx"]
        {
            assert!(read_cost(text).unwrap_err().contains("as in 1.2us"), "{text}");
        }
        for text in ["19ns", "0us", "1.1ms", "1e6us", "1.2s"] {
            assert!(
                read_cost(text).unwrap_err().contains("20 ns at least and 1 ms at most"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_question_is_a_cost_or_a_ratio() {
        assert_eq!(question("1.2us"), Ok(Question::Read(Duration::from_nanos(1_200))));
        assert_eq!(question("3x"), Ok(Question::Times(3.0)));
        assert_eq!(question("1.5x"), Ok(Question::Times(1.5)));
        for text in ["x", "0.5x", "-3x", "nanx", "infx", "1e9x"] {
            assert!(question(text).unwrap_err().contains("is no ratio"), "{text}");
        }
        assert!(question("3").unwrap_err().ends_with("or 3x for 3 times as long"));
    }
}
