//! Finds the clock or counter that a user's word names.

use anyhow::{Result, bail};

use clockscope_text::names::{nearest, plain};

/// The name in `names` that `word` means: in upper or lower case, with or without `CLOCK_` and `_ID`, and
/// with `-` or `_`.
///
/// # Errors
///
/// When there is none: the error suggests the nearest name and lists all.
pub(super) fn resolve(word: &str, names: &[&'static str]) -> Result<&'static str> {
    let wanted = plain(word);
    if let Some(name) = names.iter().find(|name| plain(name) == wanted) {
        return Ok(name);
    }
    let plain_names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    let meant = nearest(&wanted, plain_names.iter().map(String::as_str));
    let hint = meant.map_or(String::new(), |meant| format!(" did you mean {meant}?"));
    bail!("there is no clock {word:?};{hint} there are: {}", plain_names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] =
        ["CLOCK_MONOTONIC", "CLOCK_REALTIME_COARSE", "CLOCK_THREAD_CPUTIME_ID", "rdtsc"];

    #[test]
    fn names_are_taken_as_people_write_them() {
        for (word, name) in [
            ("monotonic", "CLOCK_MONOTONIC"),
            ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC"),
            ("Realtime-Coarse", "CLOCK_REALTIME_COARSE"),
            ("thread_cputime", "CLOCK_THREAD_CPUTIME_ID"),
            ("RDTSC", "rdtsc"),
        ] {
            assert_eq!(resolve(word, &NAMES).unwrap(), name);
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_name_and_the_list() {
        let error = resolve("monotnic", &NAMES).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no clock \"monotnic\"; did you mean monotonic? there are: monotonic, \
             realtime_coarse, thread_cputime, rdtsc"
        );
        let error = resolve("x", &NAMES).unwrap_err().to_string();
        assert!(error.starts_with("there is no clock \"x\"; there are: monotonic"), "{error}");
    }
}
