//! The report of `bench`.

pub mod benchstat;
pub mod csv;
pub mod in_work;
pub mod instructions;
pub mod names;
pub mod notes;
pub mod text;
pub mod threads;

use clockscope_text::units;

/// A duration in picoseconds that may be negative.
fn signed_picos(ps: i64) -> String {
    let minus = if ps < 0 { "-" } else { "" };
    format!("{minus}{}", units::picos(ps.unsigned_abs()))
}
