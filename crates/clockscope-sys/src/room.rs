//! Memory and descriptors of this process: whether it has as many as it needs, and how it comes by
//! more. A stack that cannot grow and memory that is refused end a program without a word that anybody
//! understands, so the limits are read first.

use rustix::process::{Resource, getrlimit, setrlimit};

/// What the deepest path needs, in bytes, with a margin; measured in a build without optimisation.
const STACK: u64 = 512 << 10;
/// The same for all memory that is mapped, threads' stacks and libraries among it; and for what of it is private and
/// writable (`RLIMIT_DATA`, since Linux 4.7).
const ADDRESSES: u64 = 64 << 20;

/// What it lacks and how that is mended, if it does.
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

/// Whether the address space is limited to less than several threads' heaps may reserve.
pub fn has_few_addresses() -> bool {
    getrlimit(Resource::As).current.is_some_and(|limit| limit < 1 << 30)
}

/// Raises the limit on open descriptors (`RLIMIT_NOFILE`) as far as is allowed without asking. Programs
/// started before keep theirs; a refusal leaves the limit as it is.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}
