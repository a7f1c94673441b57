//! The error of opening a clock page.

use core::fmt;
use std::io;

use crate::decline::Decline;

/// The error of opening a clock page.
#[derive(Debug)]
pub struct AttachError {
    /// The reason.
    pub reason: Decline,
    /// The kernel's error, if the kernel refused.
    pub source: Option<io::Error>,
}

impl From<Decline> for AttachError {
    fn from(reason: Decline) -> Self {
        Self { reason, source: None }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.reason),
            None => write!(f, "{}", self.reason),
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
