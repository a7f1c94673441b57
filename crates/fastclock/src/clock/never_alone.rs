//! For systems without a counter to keep a clock by.

use crate::clock::Clock;
use crate::units::Nanos;

/// Has no value.
#[derive(Debug)]
pub(in crate::clock) enum Alone {}

impl Alone {
    pub(in crate::clock) const fn new() -> Option<Self> {
        None
    }
}

impl Clock {
    /// Always false: `Alone` has no value.
    pub(in crate::clock) const fn renew(&self) -> bool {
        self.alone.is_some()
    }

    /// Always false: `Alone` has no value.
    pub(in crate::clock) const fn is_due(&self, _: Nanos) -> bool {
        self.alone.is_some()
    }
}
