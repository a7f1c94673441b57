//! The clock page, its writers and its readers.

mod arch;
