//! Tests of the reports' text and of its width.

use super::*;

mod snapshots;
mod width;
