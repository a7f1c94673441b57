//! Traced programs: launching them with the shim, following them, and taking their counts.
//!
//! | file | what is in it |
//! |---|---|
//! | `session.rs` | what all processes of one trace share: the image, ready to be attached |
//! | `live_pages.rs` | the pages that the tracer changes, one for each IPC namespace |
//! | `image.rs` | making the built image ready: names, values, hash tables; pure |
//! | `unwind.rs` | one unwind table for the shim and the kernel's; pure |
//! | `spare_pages.rs` | shared pages that nobody counts in any more, for the next program |
//! | `stack.rs` | finding the auxiliary vector on a new program's stack; pure |
//! | `launch_code.rs` | the few instructions that attach the image; pure |
//! | `install.rs` | at `execve`: putting the launch code into the process |
//! | `follow/` | the two loops over everything that the kernel tells of the tracees |
//! | `forbidden_counter.rs` | a program that has forbidden itself the counter, which the shim reads |
//! | `read_cost.rs` | how many ticks a read takes with `run --clock slow` |
//! | `image_mapped.rs` | when the image has come to lie in a process |
//! | `attach/` | counting in a process that is running already |
//! | `new_tasks.rs` | new threads and processes, and keeping their counts apart |
//! | `proc_stat.rs` | the name of a program and where its memory lies |
//! | `processes.rs` | which processes and threads there are |
//! | `counts.rs` | adding up the slots and histograms of shared pages |
//! | `observers.rs` | who looks on |
//! | `sites.rs` | counting system calls by jumps in the program |
//! | `watchers.rs` | several that look on, each in its own interval |
//! | `decline.rs` | why a process is not counted |

mod arch;
pub mod attach;
pub mod counts;
pub mod decline;
pub mod follow;
mod forbidden_counter;
pub mod image;
mod image_mapped;
pub mod install;
mod launch_code;
pub mod live_pages;
pub mod new_tasks;
pub mod observers;
mod proc_stat;
pub mod processes;
mod read_cost;
pub mod session;
pub mod sites;
mod spare_pages;
mod stack;
mod stepping;
mod unwind;
pub mod watchers;

pub use arch::lacks;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
