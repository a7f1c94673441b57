//! The kernel's door: the only place in the command with `unsafe`.
//!
//! Each file wraps one facility and gives out safe functions with `io::Result`.
#![allow(unsafe_code, reason = "system calls and shared memory; every block says why it is sound")]

pub mod access;
pub mod heap;
pub mod memory;
pub mod own_vdso;
pub mod ptrace;
pub mod robust;
pub mod shm;
pub mod signals;
pub mod spawn;
pub mod tsc;
pub mod vdso_call;
pub mod wait;
