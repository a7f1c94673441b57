//! Why a page could not be used.

use core::fmt;
use std::io;

use crate::decline::Decline;

/// Why a page could not be used.
#[derive(Debug)]
pub struct AttachError {
    /// The reason.
    pub reason: Decline,
    /// What the kernel said, where it was the kernel.
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
