//! The functions of the image.

/// What the names of those begin with that read the counter in order.
pub(crate) fn ordered_prefix() -> &'static str {
    "tsc_"
}
