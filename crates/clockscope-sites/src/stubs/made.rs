//! The addresses of a stub, as its code is written and as a thread is moved out of it.

use crate::site::Calls;

/// Where the instructions of a stub are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) begin: u64,
    pub(super) limit: u64,
    /// Address of the displaced instructions.
    pub(super) window: u64,
    /// Address at which the thread goes on.
    pub(super) goes_on: u64,
    pub(super) calls: Calls,
    /// Whether calls are timed.
    pub(super) is_timed: bool,
    /// Whether the displaced instruction is a `call`, which has pushed its return address.
    pub(super) is_call: bool,
    /// Address of the byte that the displaced instruction compares with zero.
    pub(super) compared: Option<u64>,
    /// Address of the code that saves the number and the flags.
    pub(super) keeps: Option<u64>,
    /// Addresses behind the count in the process's own part, and in a shard.
    pub(super) counted: [u64; 2],
    /// Address behind the note of a call that makes memory executable.
    pub(super) noted: Option<u64>,
    /// Address of the code that counts in a shard, of its end, and of the jump behind which the registers have all their
    /// values.
    pub(super) shard: u64,
    pub(super) shard_ends: u64,
    pub(super) restored: u64,
    pub(super) behind: Option<Behind>,
}

/// The code behind a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Its begin.
    pub(super) at: u64,
    /// Address of the program's comparison, and what it compares with.
    pub(super) after: u64,
    pub(super) with: u64,
    /// Address of the displaced comparison, of the code that counts an error, and behind the count.
    pub(super) compares: u64,
    pub(super) errors: u64,
    pub(super) counted: u64,
    /// Address of the code that ends the timing of a call.
    pub(super) timed: u64,
}
