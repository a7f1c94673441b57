//! Tests of the reports' text and of its width.

use super::*;

mod samples;
mod snapshots;
mod width;
