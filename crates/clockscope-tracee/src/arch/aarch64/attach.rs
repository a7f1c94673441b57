//! Processes that run already are left alone on arm64.

use clockscope_containers::filter::Instruction;

use crate::attach::{Attached, Detached, How, Refusal};
use crate::new_tasks::NewTasks;
use crate::processes::Processes;

/// How the functions of a process are redirected: those of none are.
#[derive(Clone, Copy, Debug)]
pub enum Patch {}

impl Patch {
    /// Address of the shim.
    pub fn base(&self) -> u64 {
        match *self {}
    }

    /// Functions that are not counted: name and reason.
    pub fn left(&self) -> &[(&'static str, String)] {
        match *self {}
    }
}

/// Attaches to no running process.
///
/// # Errors
///
/// [`Refusal::Architecture`].
pub fn attach(_number: i32, _how: &mut How<'_>) -> Result<Attached, Refusal> {
    Err(Refusal::Architecture)
}

/// Whether a process can be attached to.
///
/// # Errors
///
/// [`Refusal::Architecture`].
pub fn look(_number: i32) -> Result<(), Refusal> {
    Err(Refusal::Architecture)
}

/// The filters of a process that runs, which would have to be attached to.
///
/// # Errors
///
/// [`Refusal::Architecture`].
pub fn of_running(_number: i32) -> Result<Vec<Vec<Instruction>>, Refusal> {
    Err(Refusal::Architecture)
}

/// Restores nobody.
pub fn restore_all(_processes: &mut Processes, new_tasks: &mut NewTasks) -> Vec<Detached> {
    new_tasks.followed_no_more();
    Vec::new()
}

/// Leaves a call that a stop has ended: when arm64's kernel lets a tracer see a thread, it has decided already how
/// the thread's system call goes on (`do_signal` in arch/arm64/kernel/signal.c, Linux 6.18).
pub(crate) fn go_on_if(_thread: i32, _is_so: impl FnOnce() -> bool) {}
