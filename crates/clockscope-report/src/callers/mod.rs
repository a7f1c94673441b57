//! Callers: makes trees, flame graphs, profiles and the lines to change from sampled stacks.

mod advice;
pub mod folded;
pub mod interval;
pub mod intervals;
pub mod pprof;
mod shares;
pub mod sites;
pub mod text;
mod tree;
mod wrappers;

use super::declines;
use clockscope_model::callers::Callers;

/// Processes without sampled callers and the reasons, a sentence each: for formats that hold no text.
pub fn not_sampled(callers: &Callers) -> Vec<String> {
    declines::sentences(&callers.declines)
}
