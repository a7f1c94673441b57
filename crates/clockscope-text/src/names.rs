//! Names as users write them: differences of case and separators, and typing errors, are tolerated.

/// A name in its plain form: small letters and digits, `_` between words, without the `CLOCK_` and
/// `_ID` of C.
pub fn plain(name: &str) -> String {
    let letters = name.chars().map(|c| c.to_ascii_lowercase());
    let words: String = letters.map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
    let from = usize::from(words.len() > 1 && words[0] == "clock");
    let to = words.len() - usize::from(words.len() > from + 1 && words[words.len() - 1] == "id");
    words[from..to].join("_")
}

/// The name that needs the fewest letters inserted, deleted, replaced or swapped with their neighbour to become `word`,
/// regardless of case. `None` if it needs more than one plus a third of the length of the shorter one.
///
/// The end of a name, from one of its underscores on, is tried too, at the cost of one more edit: `gettime` matches
/// `clock_gettime` rather than `getitimer`. Among equally near names the first one is taken.
///
/// # References
///
/// - F. J. Damerau, "A technique for computer detection and correction of spelling errors", 1964;
///   the form in which no part is edited twice (`strsim::osa_distance`)
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near = names.into_iter().map(|name| (cost(&word, &name.to_lowercase()), name));
    let (cost, name) = near.min_by_key(|((edits, is_end, _), _)| (*edits, *is_end))?;
    let (edits, _, length) = cost;
    (edits <= 1 + length.min(word.chars().count()) / 3).then_some(name)
}

/// Edits from `word` to the whole name or to its nearest end, whether it is an end, and the number of letters of it.
fn cost(word: &str, name: &str) -> (usize, bool, usize) {
    let of = |text: &str| (strsim::osa_distance(word, text), text.chars().count());
    let (edits, length) = of(name);
    let ends = name.match_indices('_').map(|(at, _)| of(&name[at + 1..]));
    let ends = ends.map(|(edits, length)| (edits + 1, true, length));
    ends.chain([(edits, false, length)]).min().unwrap_or((edits, false, length))
}

/// The first `most` of the names, and the number of the others: `a, b and 3 more`.
pub fn listed(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The names without repetitions, in the order of first sight.
pub fn distinct<T: PartialEq>(names: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// An unknown name; prints as a clause that suggests a similar name and lists all names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchName(String);

impl NoSuchName {
    /// `what` has no name such as `word`. The suggestion is the name among `known` that is nearest to `wanted`, which
    /// is `word` in their form.
    pub fn new(what: &str, word: &str, wanted: &str, known: &[&str]) -> Self {
        let meant = nearest(wanted, known.iter().copied());
        let hint = meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
        Self(format!("no {what} is called {word:?}; {hint}there are {}", known.join(", ")))
    }
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
        assert_eq!(["clock", "id", "--"].map(plain), ["clock", "id", ""]);
    }

    proptest::proptest! {
        #[test]
        fn a_plain_name_stays_as_it_is(word in "[a-z]{1,8}(_[a-z]{3,6})?") {
            let once = plain(&word);
            proptest::prop_assert_eq!(&plain(&once), &once);
        }
    }

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["monotonic", "monotonic_raw", "realtime", "TAI", "rdtsc", "rdtscp"];
        assert_eq!(nearest("monotnic", names), Some("monotonic"));
        assert_eq!(nearest("raeltime", names), Some("realtime"));
        assert_eq!(nearest("rtdsc", names), Some("rdtsc"));
        assert_eq!(nearest("tia", names), Some("TAI"));
        assert_eq!(nearest("zebra crossing", names), None);
        assert_eq!(nearest("gettime", ["getitimer", "clock_gettime"]), Some("clock_gettime"));
        assert_eq!(nearest("getime", ["getitimer", "clock_gettime"]), Some("clock_gettime"));
        assert_eq!(nearest("wait", ["epoll_wait", "wait4"]), Some("wait4"));
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
