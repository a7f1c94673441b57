//! The report of `clockscope survey`.

pub mod text;
