//! A step that the kernel makes by itself: none, because the CPU can execute an instruction without looking at breakpoints
//! (`RF`).

/// The signal that a stopped tracee is to go on with for such a step.
pub(crate) fn own_step(_pid: i32, _signal: i32) -> Option<i32> {
    None
}
