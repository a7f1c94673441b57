//! Statistics: pure functions over numbers.

pub mod distribution;
pub mod gate;
pub mod gated;
pub mod histogram;
pub mod holm;
pub mod launches;
pub mod median;
pub mod ministat;
pub mod poisson;
mod probability;
pub mod proportion;
pub mod rank_test;
pub mod resolution;
pub mod shift;
pub mod summary;
pub mod timed;
mod u_distribution;
pub mod welch;

#[cfg(test)]
mod reference {
    //! The sets of `fixtures/ministat`, whose statistics by scipy 1.17.1 and benchstat are known.

    use std::path::Path;

    use crate::summary::Sorted;

    /// A file of `fixtures/ministat` with one number a line, sorted.
    pub(crate) fn set(name: &str) -> Sorted {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ministat").join(name);
        let text = std::fs::read_to_string(&path).expect("read a fixture");
        let parse = |line: &str| line.trim().parse().expect("a number");
        Sorted::new(text.lines().map(parse).collect()).expect("finite numbers")
    }

    /// Fails unless `found` has the digits of `expected` when printed with as many.
    #[track_caller]
    pub(crate) fn same_digits(found: f64, expected: &str) {
        let value: f64 = expected.parse().expect("a number");
        let (mantissa, exponent) = expected.split_once('e').unwrap_or((expected, "0"));
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let decimals = i32::try_from(decimals).expect("few");
        let unit = 10_f64.powi(exponent.parse::<i32>().expect("an exponent") - decimals);
        assert!((found - value).abs() <= unit * 0.500_001, "{found} is not {expected}");
    }
}

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
