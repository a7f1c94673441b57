//! What reports look like, and that none is too wide.

use super::*;

mod samples;
mod snapshots;
mod width;
