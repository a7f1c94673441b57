//! vdso
