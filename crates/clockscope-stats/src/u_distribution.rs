//! The exact distribution of Mann and Whitney's U, ties included.

/// How likely each value of U is if both sets are of one distribution, given which values are tied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UDistribution {
    /// `at_most[i]` is the probability of `U <= i / steps`.
    at_most: Vec<f64>,
    /// Steps of `at_most` in 1 of U: 2 with ties, because a tie counts a half.
    steps: f64,
}

impl UDistribution {
    /// For `base` and `other` values, all different; at most 60 each.
    ///
    /// # References
    ///
    /// The generating function is a Gaussian binomial coefficient: the product over i from 1 to
    /// `other` of `(1 - q^(base + i)) / (1 - q^i)`.
    pub(crate) fn untied(base: usize, other: usize) -> Self {
        let mut ways = vec![0_i128; base * other + 1];
        ways[0] = 1;
        for i in 1..=other {
            for u in (base + i..ways.len()).rev() {
                ways[u] -= ways[u - base - i];
            }
            for u in i..ways.len() {
                ways[u] += ways[u - i];
            }
        }
        let ways: Vec<f64> = ways.iter().map(|count| *count as f64).collect();
        Self::of_ways(&ways, 1)
    }

    /// For values of which `groups[0]` are the least and equal, `groups[1]` the next, and so on;
    /// `other` of them are of the other set.
    ///
    /// Time and memory grow with the product of the sets' sizes and their sum; meant for up to 50
    /// values each without, and 25 each with ties.
    pub(crate) fn tied(groups: &[usize], other: usize) -> Self {
        let total: usize = groups.iter().sum();
        let steps = if groups.iter().any(|size| *size > 1) { 2 } else { 1 };
        let length = steps * other * (total - other) + 1;
        // ways[k][u]: in how many ways k values of the other set, among those seen, make u.
        let mut ways = vec![vec![0.0; length]; other + 1];
        ways[0][0] = 1.0;
        let mut seen = 0;
        for &size in groups {
            ways = with_group(&ways, size, seen, total - other, steps);
            seen += size;
        }
        Self::of_ways(&ways[other], steps)
    }

    fn of_ways(ways: &[f64], steps: usize) -> Self {
        let all: f64 = ways.iter().sum();
        let mut below = 0.0;
        let accumulate = |count: &f64| {
            below += count;
            below / all
        };
        Self { at_most: ways.iter().map(accumulate).collect(), steps: steps as f64 }
    }

    /// The probability of U or less.
    pub(crate) fn at_most(&self, u: f64) -> f64 {
        self.index(u).map_or(0.0, |index| self.at_most[index])
    }

    /// Twice the probability of U, or what is as far out on its side, at most 1.
    pub(crate) fn two_sided(&self, u: f64) -> f64 {
        // The distribution is symmetric only without ties; the upper tail is counted by itself.
        let below = self.index(u - 0.5 / self.steps).map_or(0.0, |index| self.at_most[index]);
        (2.0 * self.at_most(u).min(1.0 - below)).min(1.0)
    }

    /// The greatest whole k for which U < k is no likelier than `share`; 0 if there is none.
    pub(crate) fn rank_below(&self, share: f64) -> usize {
        let values = self.at_most.iter();
        values.take_while(|probability| **probability <= share * (1.0 + 1e-12)).count()
    }

    fn index(&self, u: f64) -> Option<usize> {
        let place = (u * self.steps + 1e-9).floor();
        if place < 0.0 {
            return None;
        }
        // Not negative, and cut to the length.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some((place as usize).min(self.at_most.len() - 1))
    }
}

/// The ways when the next `size` values, all equal, are seen too.
fn with_group(
    ways: &[Vec<f64>],
    size: usize,
    seen: usize,
    base: usize,
    steps: usize,
) -> Vec<Vec<f64>> {
    let length = ways[0].len();
    let other = ways.len() - 1;
    let mut next = vec![vec![0.0; length]; other + 1];
    for (taken, counts) in ways.iter().enumerate().take(seen + 1) {
        let base_below = seen - taken;
        let mut choices = 1.0;
        for more in 0..=size.min(other - taken) {
            let rest = size - more;
            if base_below + rest <= base {
                let add = steps * more * base_below + more * rest * steps / 2;
                for (u, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
                    next[taken + more][u + add] += count * choices;
                }
            }
            choices = choices * rest as f64 / (more + 1) as f64;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All choices of `other` among `values`, with the U of each.
    fn every_u(values: &[u32], other: usize) -> Vec<f64> {
        let mut all = Vec::new();
        for chosen in 0_u32..1 << values.len() {
            if chosen.count_ones() as usize != other {
                continue;
            }
            let is_other = |index: usize| chosen >> index & 1 == 1;
            let mut u = 0.0;
            for (i, a) in values.iter().enumerate().filter(|(i, _)| is_other(*i)) {
                for (j, b) in values.iter().enumerate().filter(|(j, _)| !is_other(*j)) {
                    debug_assert!(i != j);
                    u += if a > b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
            all.push(u);
        }
        all
    }

    #[test]
    fn it_counts_what_trying_every_choice_counts() {
        let cases: [&[u32]; 5] =
            [&[1, 2, 3, 4, 5, 6, 7], &[1, 1, 2, 2, 2, 3], &[4; 8], &[1, 1, 1, 2, 3, 4, 5], &[1, 2]];
        for values in cases {
            let mut groups: Vec<usize> = Vec::new();
            for (index, value) in values.iter().enumerate() {
                match groups.last_mut() {
                    Some(size) if values[index - 1] == *value => *size += 1,
                    _ => groups.push(1),
                }
            }
            for other in 1..values.len() {
                let distribution = UDistribution::tied(&groups, other);
                if groups.len() == values.len() {
                    assert_eq!(distribution, UDistribution::untied(values.len() - other, other));
                }
                let all = every_u(values, other);
                for u in &all {
                    let share = |count: usize| count as f64 / all.len() as f64;
                    let below = share(all.iter().filter(|v| *v <= u).count());
                    let above = share(all.iter().filter(|v| *v >= u).count());
                    assert!((distribution.at_most(*u) - below).abs() < 1e-12);
                    let expected = (2.0 * below.min(above)).min(1.0);
                    assert!((distribution.two_sided(*u) - expected).abs() < 1e-12, "{values:?}");
                }
            }
        }
    }

    #[test]
    fn extremes_have_the_probability_of_one_choice() {
        let distribution = UDistribution::untied(6, 6);
        assert!((distribution.two_sided(36.0) - 2.0 / 924.0).abs() < 1e-15);
        assert!((distribution.two_sided(0.0) - 2.0 / 924.0).abs() < 1e-15);
        assert_eq!(distribution.at_most(-1.0), 0.0);
        assert_eq!(UDistribution::untied(3, 0).two_sided(0.0), 1.0);
    }

    /// Critical values of the published tables, two-sided 5 percent.
    #[test]
    fn ranks_agree_with_the_published_table() {
        for (base, other, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 8, 13), (12, 12, 37), (20, 20, 127)]
        {
            let rank = UDistribution::untied(base, other).rank_below(0.025);
            assert_eq!(rank, critical + 1, "{base} {other}");
        }
        assert_eq!(UDistribution::untied(3, 3).rank_below(0.025), 0);
    }

    #[test]
    fn fifty_each_are_exact() {
        let distribution = UDistribution::untied(50, 50);
        assert!((distribution.at_most(1249.5) - 0.5).abs() < 0.01);
        assert!((distribution.at_most(2500.0) - 1.0).abs() < 1e-12);
        // One choice of 100 over 50.
        assert!((distribution.at_most(0.0) * 1.008_913_445_455_641_9e29 - 1.0).abs() < 1e-12);
    }
}
