//! syscalls
