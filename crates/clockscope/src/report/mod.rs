//! What `doctor` prints.

pub mod doctor;
