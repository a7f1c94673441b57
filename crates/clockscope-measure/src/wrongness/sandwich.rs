//! One route between two readings by another: `outer <= inner <= outer` on the same clock.

use std::time::{Duration, Instant};

use super::source::{NotNormal, Readable};

/// Sandwiches between two looks at the time.
const BATCH: u32 = 64;

/// What the sandwiches of one pair of routes showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandwich {
    /// How many sandwiches were made.
    pub count: u64,
    /// The inner reading was before the outer one that preceded it.
    pub early: Disorder,
    /// The outer reading that followed was before the inner one.
    pub late: Disorder,
    /// The first reading that was not in normal form.
    pub not_normal: Option<NotNormal>,
}

/// Readings in the wrong order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// How many pairs of readings were in the wrong order.
    pub count: u64,
    /// By how much at worst.
    pub worst: u64,
}

impl Disorder {
    fn compare(&mut self, first: i64, second: i64) {
        if second < first {
            self.count += 1;
            self.worst = self.worst.max(first.abs_diff(second));
        }
    }
}

impl Sandwich {
    /// Adds three readings in the order in which they were taken.
    pub(crate) fn add(&mut self, readings: [Result<i64, NotNormal>; 3]) {
        self.count += 1;
        match readings {
            [Ok(before), Ok(inner), Ok(after)] => {
                self.early.compare(before, inner);
                self.late.compare(inner, after);
            }
            [Err(bad), ..] | [_, Err(bad), _] | [.., Err(bad)] => {
                self.not_normal.get_or_insert(bad);
            }
        }
    }

    /// What was wrong, one clause each, with the names of the two routes.
    pub(crate) fn faults(&self, outer: &str, inner: &str) -> Vec<String> {
        let clause = |disorder: Disorder, what: &str| {
            (disorder.count > 0).then(|| {
                format!(
                    "{inner} is {what} {outer} in {} of {} reads, by up to {} ns",
                    disorder.count, self.count, disorder.worst
                )
            })
        };
        let bad = self.not_normal.map(|bad| format!("{inner} or {outer} gave {bad}"));
        [clause(self.early, "behind"), clause(self.late, "ahead of"), bad]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Makes sandwiches until the time is over.
///
/// # References
///
/// - `clock_gettime_verify` of vdsotest
pub fn measure(outer: &dyn Readable, inner: &dyn Readable, time: Duration) -> Sandwich {
    let mut sandwich = Sandwich::default();
    let start = Instant::now();
    while start.elapsed() < time || sandwich.count == 0 {
        for _ in 0..BATCH {
            let before = outer.read_checked();
            let between = inner.read_checked();
            let after = outer.read_checked();
            sandwich.add([before, between, after]);
        }
    }
    sandwich
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_form_are_checked() {
        let mut sandwich = Sandwich::default();
        sandwich.add([Ok(1), Ok(1), Ok(2)]);
        assert!(sandwich.faults("syscall", "vdso").is_empty());
        sandwich.add([Ok(10), Ok(4), Ok(12)]);
        sandwich.add([Ok(10), Ok(14), Ok(12)]);
        sandwich.add([Ok(10), Err(NotNormal((1, -5))), Ok(12)]);
        assert_eq!(
            sandwich.faults("syscall", "vdso"),
            [
                "vdso is behind syscall in 1 of 4 reads, by up to 6 ns",
                "vdso is ahead of syscall in 1 of 4 reads, by up to 2 ns",
                "vdso or syscall gave tv_sec 1, tv_nsec -5",
            ]
        );
    }
}
