//! What is printed: the model is the JSON schema, text is made from the model.

pub mod model;
