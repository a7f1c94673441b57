//! The report of `clockscope wrongness`.

mod histogram;
pub mod html;
mod sentences;
pub mod text;
pub mod verdict;
