//! The page, who keeps it and who reads it.

mod arch;
