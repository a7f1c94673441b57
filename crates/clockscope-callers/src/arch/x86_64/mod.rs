//! x86-64.

pub(crate) mod calls;
pub(crate) mod code;
pub(crate) mod go;
pub(crate) mod lacks;
pub(crate) mod registers;
pub(crate) mod signals;
