//! The step size of a clock, from consecutive readings.

/// Statistics of the steps between consecutive readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepAccount {
    /// Steps, zero ones included.
    pub count: u64,
    /// How many steps were zero.
    pub zeros: u64,
    /// Least step that is not zero; 0 if there was none.
    pub min: u64,
    /// The greatest step, in the unit of the readings.
    pub max: u64,
    /// Greatest common divisor of all steps; 0 if all were zero.
    pub gcd: u64,
}

impl StepAccount {
    /// Adds the step from one reading to the next.
    pub fn add(&mut self, step: u64) {
        self.count += 1;
        if step == 0 {
            self.zeros += 1;
            return;
        }
        self.min = if self.min == 0 { step } else { self.min.min(step) };
        self.max = self.max.max(step);
        if self.gcd != 1 {
            self.gcd = divisor(self.gcd, step);
        }
    }

    /// Share (0 to 1) of zero steps.
    pub fn zero_share(&self) -> f64 {
        self.zeros as f64 / self.count.max(1) as f64
    }
}

/// The greatest common divisor, by Euclid.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_steps_are_apart() {
        let mut account = StepAccount::default();
        [0, 0, 12, 18, 0, 3_000].into_iter().for_each(|step| account.add(step));
        assert_eq!((account.min, account.max, account.gcd), (12, 3_000, 6));
        assert_eq!((account.count, account.zeros, account.zero_share()), (6, 3, 0.5));
    }

    #[test]
    fn a_clock_that_stands_still_has_no_least_step() {
        let mut account = StepAccount::default();
        account.add(0);
        assert_eq!((account.min, account.gcd, account.zero_share()), (0, 0, 1.0));
    }
}
