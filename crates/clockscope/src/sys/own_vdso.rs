//! The vDSO image that the kernel gave to this process.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The bytes of the mapping `[vdso]`, or `None` if there is none.
///
/// Not by `AT_SYSINFO_EHDR`: under another clockscope that names its image, not the kernel's.
#[must_use]
pub fn bytes() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}
