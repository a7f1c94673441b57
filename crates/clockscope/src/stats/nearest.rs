//! The name that somebody who mistyped it probably meant.

/// The one of `names` that needs the fewest letters inserted, deleted, replaced or swapped with
/// their neighbour to become `word`, regardless of case; `None` if that is more than a third of
/// the shorter one and one more.
///
/// # References
///
/// - F. J. Damerau, "A technique for computer detection and correction of spelling errors", 1964;
///   the form in which no part is edited twice (`strsim::osa_distance`)
#[must_use]
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near =
        names.into_iter().map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name));
    let (edits, name) = near.min_by_key(|(edits, _)| *edits)?;
    (edits <= 1 + name.chars().count().min(word.chars().count()) / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["monotonic", "monotonic_raw", "realtime", "TAI", "rdtsc", "rdtscp"];
        assert_eq!(nearest("monotnic", names), Some("monotonic"));
        assert_eq!(nearest("raeltime", names), Some("realtime"));
        assert_eq!(nearest("rtdsc", names), Some("rdtsc"));
        assert_eq!(nearest("tia", names), Some("TAI"));
        assert_eq!(nearest("zebra crossing", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
