//! The report of `clockscope wrongness`.

mod answer;
mod sentences;
pub mod text;
pub mod verdict;
