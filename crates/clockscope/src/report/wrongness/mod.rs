//! The report of `clockscope wrongness`.

mod histogram;
pub mod html;
pub mod model;
mod sentences;
pub mod text;
pub mod verdict;
