//! Doctor's report in every format: [`model`] is made from a diagnosis, the others from the model.

#[cfg(test)]
pub(crate) mod case_tests;
mod families;
pub mod fleet;
pub mod labels;
pub mod metrics;
pub mod model;
#[cfg(test)]
mod mutation_tests;
pub mod plugins;
pub mod status;
pub mod text;
