//! The memory that memory-bound work reaches into.

use std::sync::OnceLock;

use super::loops::WORK_MEMORY;

/// The words of that memory, every page touched; a power of two of them.
pub fn shared() -> &'static [u64] {
    static MEMORY: OnceLock<Vec<u64>> = OnceLock::new();
    MEMORY.get_or_init(|| {
        let words = u64::try_from(WORK_MEMORY / size_of::<u64>()).unwrap_or(0);
        (0..words).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
    })
}
