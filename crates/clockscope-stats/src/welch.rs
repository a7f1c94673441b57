//! Student's and Welch's comparison of two means.

use super::probability::{t_enclosing, t_two_sided};
use super::summary::Sorted;

/// What a t test says of two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanTest {
    /// t of the difference other - base.
    pub t: f64,
    /// Degrees of freedom; by Welch not a whole number.
    pub df: f64,
    /// The two-sided p, from 0 to 1.
    pub p: f64,
    /// Interval of the difference of the means, other - base.
    pub interval: (f64, f64),
}

/// Compares the means of sets whose variances may differ; `None` if a set has less than two values
/// or both are constant.
///
/// # References
///
/// Welch, Biometrika 34 (1947) 28; degrees of freedom by Satterthwaite.
pub fn welch(base: &Sorted, other: &Sorted, confidence: f64) -> Option<MeanTest> {
    let (n1, n2) = counts(base, other)?;
    let (v1, v2) = (base.variance() / n1, other.variance() / n2);
    let error = (v1 + v2).sqrt();
    // As shares of the sum, so that tiny variances do not underflow when squared.
    let (s1, s2) = (v1 / (v1 + v2), v2 / (v1 + v2));
    let df = 1.0 / (s1 * s1 / (n1 - 1.0) + s2 * s2 / (n2 - 1.0));
    test(other.mean() - base.mean(), error, df, confidence)
}

/// Compares the means of sets with one variance; `None` as with [`welch`].
///
/// # References
///
/// "Student", Biometrika 6 (1908) 1.
pub fn pooled(base: &Sorted, other: &Sorted, confidence: f64) -> Option<MeanTest> {
    let (n1, n2) = counts(base, other)?;
    let df = n1 + n2 - 2.0;
    let variance = ((n1 - 1.0) * base.variance() + (n2 - 1.0) * other.variance()) / df;
    let error = (variance * (1.0 / n1 + 1.0 / n2)).sqrt();
    test(other.mean() - base.mean(), error, df, confidence)
}

fn counts(base: &Sorted, other: &Sorted) -> Option<(f64, f64)> {
    let enough = base.count() >= 2 && other.count() >= 2;
    enough.then_some((base.count() as f64, other.count() as f64))
}

fn test(difference: f64, error: f64, df: f64, confidence: f64) -> Option<MeanTest> {
    let t = difference / error;
    if !t.is_finite() || !df.is_finite() {
        return None;
    }
    let reach = t_enclosing(confidence, df) * error;
    let interval = (difference - reach, difference + reach);
    Some(MeanTest { t, df, p: t_two_sided(t, df), interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{same_digits, set};

    /// Base, other, Student's p, Welch's t, df, p and 95 % interval, by scipy 1.17.1.
    #[rustfmt::skip]
    const BY_SCIPY: [[&str; 8]; 6] = [
        ["c1_up_gtod.txt", "c1_up_poor.txt", "2.08048e-25", "-57.084960", "17.25290", "4.19858e-21", "-931.325", "-865.008"],
        ["c1_up_gtod.txt", "c1_up_realtime.txt", "0.345822", "0.963391", "18.48648", "0.347785", "-16.3751", "44.2085"],
        ["c2_vdso_a.txt", "c2_vdso_b.txt", "0.63387", "-0.647746", "30.76054", "0.521955", "-1.08709", "0.563145"],
        ["c2_vdso_a.txt", "c2_syscall.txt", "1.07193e-52", "188.522070", "25.81553", "4.70352e-42", "104.996", "107.312"],
        ["c3_n60a.txt", "c3_n60b.txt", "0.0718715", "1.816245", "117.55519", "0.0718811", "-0.0871645", "2.01656"],
        ["c3_bigmean.txt", "c3_bigmean2.txt", "3.20655e-06", "9.258201", "10", "3.20655e-06", "7.59333", "12.4067"],
    ];

    #[test]
    fn the_reference_values_come_out_to_the_digits_given() {
        for [base, other, student_p, t, df, p, low, high] in BY_SCIPY {
            let (base, other) = (set(base), set(other));
            let found = welch(&base, &other, 0.95).unwrap();
            same_digits(pooled(&base, &other, 0.95).unwrap().p, student_p);
            same_digits(found.t, t);
            same_digits(found.df, df);
            same_digits(found.p, p);
            same_digits(found.interval.0, low);
            same_digits(found.interval.1, high);
        }
    }

    #[test]
    fn constant_sets_and_single_values_have_no_t() {
        let five = Sorted::new(vec![5.0; 4]).unwrap();
        let six = Sorted::new(vec![6.0; 4]).unwrap();
        let one = Sorted::new(vec![1.0]).unwrap();
        assert_eq!(welch(&five, &six, 0.95), None);
        assert_eq!(welch(&five, &five, 0.95), None);
        assert_eq!(welch(&one, &five, 0.95), None);
        assert_eq!(pooled(&five, &one, 0.95), None);
        let varied = Sorted::new(vec![4.0, 5.0, 7.0]).unwrap();
        assert!(welch(&five, &varied, 0.95).unwrap().df > 1.9);
    }

    proptest::proptest! {
        #[test]
        fn exchanged_sets_give_the_opposite(
            a in proptest::collection::vec(-1e3..1e3_f64, 2..30),
            b in proptest::collection::vec(-1e3..1e3_f64, 2..30),
        ) {
            let (a, b) = (Sorted::new(a).unwrap(), Sorted::new(b).unwrap());
            if let (Some(there), Some(back)) = (welch(&a, &b, 0.95), welch(&b, &a, 0.95)) {
                proptest::prop_assert!((there.t + back.t).abs() <= 1e-9 * there.t.abs());
                proptest::prop_assert!((there.p - back.p).abs() < 1e-9);
                let (low, high) = there.interval;
                let difference = b.mean() - a.mean();
                proptest::prop_assert!(low <= difference && difference <= high);
            }
        }
    }
}
