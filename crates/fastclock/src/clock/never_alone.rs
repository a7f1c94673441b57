//! Where there is no counter to keep a clock by.

use super::Clock;
use crate::units::Nanos;

/// Has no value.
#[derive(Debug)]
pub(super) enum Alone {}

impl Alone {
    pub(super) const fn new() -> Option<Self> {
        None
    }
}

impl Clock {
    /// Never.
    pub(super) const fn renew(&self) -> bool {
        self.alone.is_some()
    }

    /// Never.
    pub(super) const fn is_due(&self, _: Nanos) -> bool {
        self.alone.is_some()
    }
}
