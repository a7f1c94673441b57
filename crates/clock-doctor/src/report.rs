//! What doctor says, in every form: [`model`] is made from a diagnosis, the rest from the model.

pub mod labels;
pub mod metrics;
pub mod model;
pub mod text;
