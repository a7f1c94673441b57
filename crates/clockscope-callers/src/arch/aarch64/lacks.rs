//! Features that are missing on this architecture, as clauses; `None`: available.

/// Functions of Java.
pub(crate) const JAVA: Option<&str> =
    Some("on arm64 clockscope does not read the functions that a JVM executes");
/// Functions of Python.
pub(crate) const PYTHON: Option<&str> =
    Some("on arm64 clockscope does not read the functions that Python executes");
/// Following frame pointers through code made at run time.
pub(crate) const RUN_TIME_CODE: Option<&str> = Some(
    "on arm64 clockscope does not follow frame pointers through code that is made at run time",
);
