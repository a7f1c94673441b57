//! The functions of the image.

use clockscope_sys::tsc;

/// What the names of those begin with that read the counter in order: by `rdtscp` where the CPU has it.
pub(crate) fn ordered_prefix() -> &'static str {
    if tsc::has_read_after() { "tscp_" } else { "tsc_" }
}
