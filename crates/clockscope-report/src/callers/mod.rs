//! Who makes the calls: from sampled stacks to trees, flame graphs, profiles, and the lines to
//! change.

mod advice;
pub mod folded;
pub mod interval;
pub mod pprof;
#[cfg(test)]
pub mod samples;
mod shares;
pub mod sites;
pub mod text;
mod tree;
mod wrappers;

use super::declines;
use clockscope_model::callers::Callers;

/// Whose callers could not be sampled and why, a sentence each: for forms without words.
pub fn not_sampled(callers: &Callers) -> Vec<String> {
    declines::sentences(&callers.declines)
}
