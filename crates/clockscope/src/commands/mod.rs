//! One file for each subcommand: wiring only.

pub mod bench;
pub mod capture;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod program;
pub mod run;
pub mod serve;
pub mod survey;
pub mod trace;
pub mod tsc_guard;
pub mod vdso;
pub mod view;
pub mod wrongness;

use crate::printing::{streams, warn_user};
use clockscope_trace::plan::Voice;

/// Passes messages to standard error while programs are traced; notes only if not `quiet`.
pub(crate) fn voice(quiet: bool) -> Voice {
    let warn: fn(&str) = warn_user;
    Voice { note: if quiet { |_| () } else { warn }, warn, line: streams::print_line }
}
