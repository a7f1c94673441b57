//! What is printed: the model is the JSON schema, text is made from the model.

mod answers;
pub mod columns;
mod declines;
mod entries;
pub mod json;
pub mod latency;
mod lines;
pub mod model;
mod overhead;
mod spread;
mod table;
pub mod text;
pub mod units;
