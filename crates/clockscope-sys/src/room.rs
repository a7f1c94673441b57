//! Limits of this process on memory and file descriptors. A stack that cannot grow, or memory that is refused, ends a
//! program without a clear message, so the limits are checked first.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Stack that the deepest path needs, in bytes, with a margin; measured in a build without optimisation.
const STACK: u64 = 512 << 10;
/// Mapped memory that this process needs, in bytes, including stacks of threads and libraries. Also its private
/// writable part (`RLIMIT_DATA`, since Linux 4.7).
const ADDRESSES: u64 = 64 << 20;

/// The first limit that is too low and the command that raises it; `None` if all suffice.
pub fn lacks() -> Option<String> {
    let all = [
        (Resource::Stack, STACK, "stack", "ulimit -s"),
        (Resource::As, ADDRESSES, "address space", "ulimit -v"),
        (Resource::Data, ADDRESSES, "data segment", "ulimit -d"),
    ];
    all.into_iter().find_map(|(resource, needed, what, set_by)| {
        let limit = getrlimit(resource).current.filter(|limit| *limit < needed)?;
        let (limit, needed) = (limit >> 10, needed >> 10);
        Some(format!(
            "the {what} is limited to {limit} KiB ({set_by}); at least {needed} KiB are needed"
        ))
    })
}

/// Whether the limit on the address space is below the sum that the heaps of several threads may reserve.
pub fn has_few_addresses() -> bool {
    getrlimit(Resource::As).current.is_some_and(|limit| limit < 1 << 30)
}

/// Raises the soft limit on open descriptors (`RLIMIT_NOFILE`) to the hard limit. Programs started before keep theirs;
/// if the call is refused, the limit stays as it is.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}
