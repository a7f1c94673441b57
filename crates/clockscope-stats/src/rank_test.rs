//! Mann and Whitney's rank test, and Cliff's delta.

use super::probability::normal_upper_tail;
use super::summary::Sorted;
use super::u_distribution::UDistribution;

/// Up to this many values each the test is exact if none are tied.
pub(crate) const EXACT_UNTIED_MAX: usize = 50;
/// Up to this many values each the test is exact also with ties.
pub(crate) const EXACT_TIED_MAX: usize = 25;

/// What the ranks of two sets say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// Pairs in which the value of the other set is greater, ties counting a half.
    pub u: f64,
    /// The two-sided p, from 0 to 1.
    pub p: f64,
    /// Whether `p` is exact, or by the normal approximation.
    pub exact: bool,
    /// Cliff's delta: share of pairs in which the other's value is greater, minus the share in which
    /// it is less; -1 to 1.
    pub cliff_delta: f64,
}

/// The two sets as ranks: the groups of equal values.
#[derive(Clone, Debug, PartialEq)]
struct Ranks {
    u: f64,
    /// Sizes of the groups of equal values, in order; empty if there are too many for an exact test.
    groups: Vec<usize>,
    /// Sum of `t^3 - t` over the groups.
    tie_term: f64,
}

/// Tests whether one set's values tend to be greater; exact for small sets, as benchstat does.
///
/// # References
///
/// Mann and Whitney, Ann. Math. Stat. 18 (1947) 50. With ties the exact distribution is the one
/// given which values are tied: Lehmann, Nonparametrics (1975), section 1.4.
pub fn mann_whitney(base: &Sorted, other: &Sorted) -> RankTest {
    let ranks = rank(base, other);
    let most = base.count().max(other.count());
    let limit = if ranks.tie_term > 0.0 { EXACT_TIED_MAX } else { EXACT_UNTIED_MAX };
    let exact = most <= limit;
    let p = if exact {
        let distribution = if ranks.tie_term > 0.0 {
            UDistribution::tied(&ranks.groups, other.count())
        } else {
            UDistribution::untied(base.count(), other.count())
        };
        distribution.two_sided(ranks.u)
    } else {
        by_normal(&ranks, base.count() as f64, other.count() as f64)
    };
    let pairs = base.count() as f64 * other.count() as f64;
    RankTest { u: ranks.u, p, exact, cliff_delta: 2.0 * ranks.u / pairs - 1.0 }
}

/// The two-sided p by the normal approximation, corrected for ties and for continuity, as scipy's
/// `mannwhitneyu(method="asymptotic")`.
fn by_normal(ranks: &Ranks, base: f64, other: f64) -> f64 {
    let (pairs, total) = (base * other, base + other);
    let variance = pairs / 12.0 * (total + 1.0 - ranks.tie_term / (total * (total - 1.0)));
    let reach = ranks.u.max(pairs - ranks.u) - pairs / 2.0 - 0.5;
    if variance <= 0.0 || reach <= 0.0 {
        return 1.0;
    }
    (2.0 * normal_upper_tail(reach / variance.sqrt())).min(1.0)
}

/// Walks over both sets at once.
fn rank(base: &Sorted, other: &Sorted) -> Ranks {
    let (base, other) = (base.values(), other.values());
    let keep = base.len().max(other.len()) <= EXACT_UNTIED_MAX;
    let mut ranks = Ranks { u: 0.0, groups: Vec::new(), tie_term: 0.0 };
    let (mut i, mut j) = (0, 0);
    while i < base.len() || j < other.len() {
        let value = match (base.get(i), other.get(j)) {
            (Some(a), Some(b)) => a.min(*b),
            (Some(a), None) => *a,
            (None, Some(b)) => *b,
            (None, None) => break,
        };
        let (first_i, first_j) = (i, j);
        while base.get(i) == Some(&value) {
            i += 1;
        }
        while other.get(j) == Some(&value) {
            j += 1;
        }
        let (of_base, of_other) = (i - first_i, j - first_j);
        ranks.u += of_other as f64 * (first_i as f64 + of_base as f64 / 2.0);
        let size = (of_base + of_other) as f64;
        ranks.tie_term += size * (size * size - 1.0);
        if keep {
            ranks.groups.push(of_base + of_other);
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference::{same_digits, set};

    /// Base, other, U of the other, p (asymptotic), Cliff's delta, by scipy 1.17.1.
    const BY_SCIPY: [[&str; 5]; 5] = [
        ["c1_up_gtod.txt", "c1_up_poor.txt", "0", "3.65846e-05", "-1"],
        ["c1_up_gtod.txt", "c1_up_realtime.txt", "88", "0.370844", "0.2222"],
        ["c2_vdso_a.txt", "c2_vdso_b.txt", "356", "0.0472206", "0.3510"],
        ["c2_vdso_a.txt", "c2_syscall.txt", "279", "6.66979e-06", "1"],
        ["c3_n60a.txt", "c3_n60b.txt", "2143", "0.0722311", "0.1906"],
    ];

    #[test]
    fn the_reference_values_come_out_to_the_digits_given() {
        for [base, other, u, p, delta] in BY_SCIPY {
            let (base, other) = (set(base), set(other));
            let found = mann_whitney(&base, &other);
            same_digits(found.u, u);
            same_digits(found.cliff_delta, delta);
            let ranks = rank(&base, &other);
            same_digits(by_normal(&ranks, base.count() as f64, other.count() as f64), p);
        }
    }

    #[test]
    fn small_sets_are_tested_exactly() {
        let exact = |base: &str, other: &str| mann_whitney(&set(base), &set(other));
        let bigmean = exact("c3_bigmean.txt", "c3_bigmean2.txt");
        assert!(bigmean.exact);
        same_digits(bigmean.u, "36");
        same_digits(bigmean.p, "0.0021645");
        // benchstat prints 0.378.
        same_digits(exact("c1_up_gtod.txt", "c1_up_realtime.txt").p, "0.378");
        assert!(!exact("c2_vdso_a.txt", "c2_vdso_b.txt").exact, "31 values, with ties");
        assert!(!exact("c3_n60a.txt", "c3_n60b.txt").exact, "60 values");
    }

    #[test]
    fn sets_of_one_value_prove_nothing() {
        let five = Sorted::new(vec![5.0; 60]).unwrap();
        let few = Sorted::new(vec![5.0; 4]).unwrap();
        for (a, b) in [(&five, &five), (&five, &few), (&few, &few)] {
            let found = mann_whitney(a, b);
            assert_eq!((found.p, found.cliff_delta), (1.0, 0.0));
        }
    }

    fn numbers() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((-20..20_i32).prop_map(f64::from), 1..70)
    }

    proptest! {
        #[test]
        fn the_two_u_add_up_to_the_pairs(a in numbers(), b in numbers()) {
            let pairs = (a.len() * b.len()) as f64;
            let (a, b) = (Sorted::new(a).unwrap(), Sorted::new(b).unwrap());
            let (there, back) = (mann_whitney(&a, &b), mann_whitney(&b, &a));
            prop_assert_eq!(there.u + back.u, pairs);
            prop_assert!((there.p - back.p).abs() < 1e-9);
            prop_assert!((there.cliff_delta + back.cliff_delta).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&there.p));
        }

        #[test]
        fn a_growing_function_of_all_values_changes_nothing(a in numbers(), b in numbers()) {
            let map = |values: &[f64]| Sorted::new(values.iter().map(|v| (v / 7.0).exp()).collect());
            let mapped = mann_whitney(&map(&a).unwrap(), &map(&b).unwrap());
            let plain = mann_whitney(&Sorted::new(a).unwrap(), &Sorted::new(b).unwrap());
            prop_assert_eq!(mapped, plain);
        }
    }
}
