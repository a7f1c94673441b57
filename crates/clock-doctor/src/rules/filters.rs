//! Seccomp filters that refuse clock reads which the vDSO leaves to the kernel.

use super::{Evidence, Facts, Finding, Label, State, Verdict};
use crate::facts::ReadFilter;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let falls_back = facts.falls_back().unwrap_or(verdict.state == State::Slow);
    let key = if falls_back { "refused-now" } else { "refused-later" };
    let refused = |filter: &ReadFilter| {
        let found = Finding::new(Label::FallbackRefused).tell_with(key, &[("of", &filter.of)]);
        filter.refuses.iter().fold(found, |found, one| {
            found.seen(&Evidence::of("seccomp filter", &format!("{}: {one}", filter.of)))
        })
    };
    let refusing = facts.read_filters.iter().filter(|filter| !filter.refuses.is_empty());
    refusing.map(refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Measured;
    use crate::rules::examine;
    use crate::rules::finding::Severity;

    fn facts(refuses: &[&str], falls_back: Option<bool>) -> Facts {
        let mut measured = Measured::default();
        measured.host.vdso.present = true;
        measured.host.vdso.falls_back = falls_back;
        let refuses = refuses.iter().map(|one| (*one).to_owned()).collect();
        Facts {
            measured: Some(measured),
            read_filters: vec![ReadFilter { of: "container web".to_owned(), refuses }],
            ..Facts::default()
        }
    }

    fn found(facts: &Facts) -> Vec<Finding> {
        let findings = examine(facts).findings;
        findings.into_iter().filter(|one| one.label == Label::FallbackRefused).collect()
    }

    #[test]
    fn a_filter_that_refuses_nothing_is_not_told() {
        assert_eq!(found(&facts(&[], Some(true))), []);
        assert_eq!(found(&Facts::default()), []);
    }

    #[test]
    fn a_filter_that_refuses_reads_is_told_with_what_it_refuses_and_since_when() {
        let reads = ["clock_gettime fails with EPERM", "gettimeofday fails with EPERM"];
        for (falls_back, words) in [
            (Some(false), "The vDSO answers here now"),
            (None, "The vDSO answers here now"),
            (Some(true), "Here the vDSO makes the system call"),
        ] {
            let found = found(&facts(&reads, falls_back));
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].severity, Severity::Wrong);
            assert!(found[0].detail[0].starts_with(words), "{:?}", found[0].detail);
            let seen: Vec<&str> = found[0].evidence.iter().map(|one| one.text.as_str()).collect();
            assert_eq!(seen, reads.map(|read| format!("container web: {read}")));
        }
    }
}
