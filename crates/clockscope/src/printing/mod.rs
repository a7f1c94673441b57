//! Output to standard streams and files, and the colours of text.

pub(crate) mod colour;
pub(crate) mod replace_file;
pub(crate) mod report;
pub(crate) mod spinner;
pub(crate) mod streams;
pub(crate) mod summary;

pub(crate) use streams::warn_user;
