//! Whether this process has the memory that it needs, before it is too late to say so: a stack that
//! cannot grow and memory that is refused end a program without a word that anybody understands.

/// What the deepest path needs, with a margin; measured in a build without optimisation.
const STACK: u64 = 512 << 10;
/// The same for all memory that is mapped, threads' stacks and libraries among it.
const ADDRESSES: u64 = 64 << 20;

/// What it lacks and how that is mended, if it does.
#[must_use]
pub fn lacks() -> Option<String> {
    let all = [
        (libc::RLIMIT_STACK, STACK, "stack", "ulimit -s"),
        (libc::RLIMIT_AS, ADDRESSES, "address space", "ulimit -v"),
    ];
    all.into_iter().find_map(|(resource, needed, what, set_by)| {
        let limit = soft_limit(resource).filter(|limit| *limit < needed)?;
        let (limit, needed) = (limit >> 10, needed >> 10);
        Some(format!(
            "the {what} is limited to {limit} KiB ({set_by}); at least {needed} KiB are needed"
        ))
    })
}

/// A limit of this process; `None` if it has none.
pub(super) fn soft_limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local of the right type.
    let known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
