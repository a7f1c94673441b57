//! What is not there on this architecture, as a clause; `None`: it is there.

/// Functions of Java.
pub(crate) const JAVA: Option<&str> = None;
/// Functions of Python.
pub(crate) const PYTHON: Option<&str> = None;
/// Following frame pointers through code that is made at run time.
pub(crate) const RUN_TIME_CODE: Option<&str> = None;
