//! What is printed: the model is the JSON schema, text is made from the model.

mod answers;
pub mod bench;
pub mod callers;
mod chart;
pub mod clock_page;
pub mod columns;
pub mod compare;
mod declines;
pub mod doctor;
mod entries;
pub mod host;
pub mod json;
pub mod latency;
pub mod model;
mod overhead;
mod page;
mod page_answers;
pub mod reads;
mod spread;
mod table;
pub mod text;
pub mod top;
pub mod trace_page;
pub mod wrongness;
