//! Which container, pod and systemd unit a process belongs to, and which processes belong to one.
//!
//! `/proc/PID/cgroup` tells the control groups of a process, and their names tell the rest. This works on cgroup v1,
//! v2 and both together, in a container that sees the processes of its host, and without asking a daemon.
//!
//! | module | what is in it |
//! |---|---|
//! | [`place`] | from control groups to container, pod and unit; pure |
//! | [`state`] | names of containers, from the files in which their runtimes keep their state; pure |
//! | [`files`] | where these files are; reads them, whatever they are |
//! | [`choice`] | what a user has chosen by a name, and which processes that is; pure |
//! | [`filter`] | what a seccomp filter makes of a system call; pure |
//! | [`clock_reads`] | whether a filter would refuse a read of the clock by system call; pure |
//! | [`processes`] | all processes of this host, and their control groups |

pub mod choice;
pub mod clock_reads;
pub mod files;
pub mod filter;
pub mod place;
pub mod processes;
pub mod state;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
