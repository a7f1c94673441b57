//! Names as users write them: forgiving about case and separators; pure.

/// A name in its plain form: small letters and digits, `_` between words, without the `CLOCK_` and
/// `_ID` of C.
#[must_use]
pub fn plain(name: &str) -> String {
    let letters = name.chars().map(|c| c.to_ascii_lowercase());
    let words: String = letters.map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
    let from = usize::from(words.len() > 1 && words[0] == "clock");
    let to = words.len() - usize::from(words.len() > from + 1 && words[words.len() - 1] == "id");
    words[from..to].join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_separators_and_the_affixes_of_c_do_not_matter() {
        for word in ["CLOCK_MONOTONIC_RAW", "monotonic-raw", "Monotonic_Raw", "clock monotonic raw"]
        {
            assert_eq!(plain(word), "monotonic_raw");
        }
        assert_eq!(plain("CLOCK_THREAD_CPUTIME_ID"), "thread_cputime");
        assert_eq!(plain("std::time::Instant"), "std_time_instant");
        assert_eq!(plain("lfence; rdtsc"), "lfence_rdtsc");
        assert_eq!(
            (plain("clock"), plain("id"), plain("--")),
            ("clock".into(), "id".into(), "".into())
        );
    }

    proptest::proptest! {
        #[test]
        fn a_plain_name_stays_as_it_is(word in "[a-z]{1,8}(_[a-z]{3,6})?") {
            let once = plain(&word);
            proptest::prop_assert_eq!(&plain(&once), &once);
        }
    }
}
