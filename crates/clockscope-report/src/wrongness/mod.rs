//! The report of `clockscope wrongness`.

mod answer;
mod histogram;
mod sentences;
pub mod text;
pub mod verdict;
