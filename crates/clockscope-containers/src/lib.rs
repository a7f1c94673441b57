//! Maps a process to its container, pod and systemd unit, and each of these to its processes.
//!
//! `/proc/PID/cgroup` gives the control groups of a process, and their names give the rest. This works with cgroup v1,
//! v2 and both together, in a container that sees the processes of its host, and without asking a daemon.
//!
//! | module | content |
//! |---|---|
//! | [`place`] | container, pod and unit from control groups; pure |
//! | [`state`] | names of containers, from the state files of their runtimes; pure |
//! | [`files`] | finds and reads these files, without trusting them |
//! | [`choice`] | a user's choice, and its processes; pure |
//! | [`filter`] | a seccomp filter's result for a system call; pure |
//! | [`clock_reads`] | whether a filter would refuse a read of the clock by system call; pure |
//! | [`processes`] | all processes of this host, and their control groups |

pub mod choice;
pub mod clock_reads;
pub mod files;
pub mod filter;
pub mod place;
pub mod processes;
pub mod state;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
