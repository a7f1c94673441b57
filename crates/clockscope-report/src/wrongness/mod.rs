//! The report of `clockscope wrongness`.

mod histogram;
mod sentences;
pub mod text;
pub mod verdict;
