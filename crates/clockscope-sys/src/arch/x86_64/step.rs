//! x86-64 needs no single step at a breakpoint, because the resume flag (`RF`) lets the CPU execute one instruction
//! without testing breakpoints.

/// Always `None`: no such step is ever pending.
pub(crate) fn own_step(_pid: i32, _signal: i32) -> Option<i32> {
    None
}
