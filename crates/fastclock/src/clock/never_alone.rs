//! For systems without a counter to keep a clock by.

use crate::clock::Clock;
use crate::units::Nanos;

/// Has no value.
#[derive(Debug)]
pub(crate) enum Alone {}

impl Alone {
    pub(crate) const fn new() -> Option<Self> {
        None
    }
}

impl Clock {
    /// Always false: `Alone` has no value.
    pub(crate) const fn renew(&self) -> bool {
        self.alone.is_some()
    }

    /// Always false: `Alone` has no value.
    pub(crate) const fn is_due(&self, _: Nanos) -> bool {
        self.alone.is_some()
    }
}
