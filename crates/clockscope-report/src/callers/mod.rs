//! Who makes the calls: from sampled stacks to trees, flame graphs, profiles, and the lines to
//! change.

mod advice;
pub mod flamegraph;
pub mod folded;
pub mod interval;
mod long_names;
pub mod pprof;
#[cfg(test)]
pub mod samples;
mod shares;
pub mod sites;
pub mod text;
mod tree;

use super::declines;
use clockscope_model::callers::Callers;

/// Callers below this share are left out of a live tree.
const LIVE_SHARE: f64 = 0.02;

/// Whose callers could not be sampled and why, a sentence each: for forms without words.
pub fn not_sampled(callers: &Callers) -> Vec<String> {
    declines::sentences(&callers.declines)
}

/// The callers of the first row of `called` as lines of a tree: from the first function on that has several, if
/// there is one, and which that is.
pub fn live_tree(callers: &Callers, width: usize) -> (Option<String>, Vec<String>) {
    if callers.called.is_empty() {
        return (None, Vec::new());
    }
    let limits = tree::Limits { share: LIVE_SHARE, width, whole: false };
    let (below, lines) =
        tree::Tree::of(callers, 0, &tree::Classes::of(callers)).below_first_branch(limits);
    (below, lines.lines().map(str::to_owned).collect())
}
