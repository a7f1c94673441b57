//! Features that are missing on this architecture, as clauses; `None`: available.

/// Functions of Java.
pub(crate) const JAVA: Option<&str> = None;
/// Functions of Python.
pub(crate) const PYTHON: Option<&str> = None;
/// Following frame pointers through code made at run time.
pub(crate) const RUN_TIME_CODE: Option<&str> = None;
