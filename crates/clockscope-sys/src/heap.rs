//! Memory of this process that nobody needs any more.

/// Gives free memory back to the kernel. Loading an eBPF program reads all of the kernel's types,
/// some 30 MB, of which nothing is kept.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; frees only what is free.
    unsafe {
        libc::malloc_trim(0)
    };
}
