//! Launches programs with clockscope's vDSO image (the shim), attaches to running ones, follows them, and reads their
//! counts.
//!
//! | file | contents |
//! |---|---|
//! | `session.rs` | data that all processes of a trace share: the image, ready to be installed |
//! | `live_pages.rs` | the pages that the tracer changes while processes run, one per IPC namespace |
//! | `image.rs` | prepares the built image: names, values, hash tables; pure |
//! | `unwind.rs` | merges the unwind tables of the shim and of the kernel's image; pure |
//! | `spare_pages.rs` | shared pages kept for the next program |
//! | `stack.rs` | finds the auxiliary vector on a new program's stack; pure |
//! | `launch_code.rs` | the stubs that install the image, with their slots filled; pure |
//! | `install.rs` | writes the launch code into a process at `execve` |
//! | `follow/` | the two loops that handle the tracees' stops |
//! | `forbidden_counter.rs` | handles programs that forbid themselves the counter, which the shim reads |
//! | `session/read_cost.rs` | converts the read time of `run --clock slow` to ticks |
//! | `image_mapped.rs` | notices when the image is mapped in a process |
//! | `attach/` | counts in a process that is already running |
//! | `new_tasks.rs` | recognises new threads and processes, and keeps their counts apart |
//! | `proc_stat.rs` | reads a program's name and memory layout |
//! | `processes.rs` | the list of processes and threads |
//! | `counts.rs` | adds up the slots and histograms of shared pages |
//! | `observers.rs` | traits for code that observes the tracees |
//! | `counter_search.rs` | instructions in the program's files that read the CPU's counter |
//! | `counted_places.rs` | the instructions that read the CPU's counter and are counted |
//! | `areas.rs` | the code in one process that counts its system calls, and the jumps to it |
//! | `site_files.rs` | executable mappings of files, and the system calls in these files |
//! | `site_words.rs` | adds up the system calls and times that the code has counted |
//! | `sites.rs` | counts system calls by jumps in the program |
//! | `watchers.rs` | combines several watchers, each with its own interval |
//! | `decline.rs` | reasons why a process is not counted |

mod arch;
pub mod areas;
pub mod attach;
pub mod counted_places;
pub mod counter_search;
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
pub mod session;
mod site_files;
pub mod site_words;
pub mod sites;
mod spare_pages;
mod stack;
mod unwind;
pub mod watchers;

pub use arch::lacks;

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
