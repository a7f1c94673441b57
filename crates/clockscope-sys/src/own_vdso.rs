//! The vDSO image that the kernel mapped into this process.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use vdso_reader::maps::{self, Mapping};

use super::proc_text;

/// The kernel's image as mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnVdso {
    /// The bytes of the mapping `[vdso]`.
    pub bytes: Vec<u8>,
    /// Distance from the start of the first mapping, and size: of the data (`[vvar]`, `[vvar_vclock]`) right before the
    /// code, and, as the last entry, of the code.
    pub mappings: Vec<(u64, u64)>,
}

/// The kernel's image, or `None` if there is none.
///
/// Does not use `AT_SYSINFO_EHDR`: under another clockscope, that names the image of that clockscope.
pub fn read() -> Option<OwnVdso> {
    let maps = proc_text::read("/proc/self/maps").ok()?;
    let mappings = mappings(&maps);
    let (start, end) = *mappings.last()?;
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    let first = mappings.first()?.0;
    let mappings = mappings.iter().map(|(from, to)| (from - first, to - from)).collect();
    Some(OwnVdso { bytes, mappings })
}

/// The addresses of the kernel's image in this process; empty if there is none.
pub fn code() -> Range<u64> {
    let maps = proc_text::read("/proc/self/maps").unwrap_or_default();
    mappings(&maps).last().map_or(0..0, |(start, end)| *start..*end)
}

/// The ranges of `[vdso]` and of the data right before it, in ascending order; pure.
fn mappings(maps: &str) -> Vec<(u64, u64)> {
    let mut data: Vec<(u64, u64)> = Vec::new();
    for Mapping { start, end, name, .. } in maps::parse(maps) {
        if start == end || name != "[vdso]" && !name.starts_with("[vvar") {
            continue;
        }
        if data.last().is_some_and(|(_, before)| *before != start) {
            data.clear();
        }
        data.push((start, end));
        if name == "[vdso]" {
            return data;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_right_before_the_code_belongs_to_it() {
        let maps = "1000-2000 r--p 0 00:00 0 /bin/a\n\
                    5000-9000 r--p 0 00:00 0 [vvar]\n\
                    9000-b000 r--p 0 00:00 0 [vvar_vclock]\n\
                    b000-d000 r-xp 0 00:00 0 [vdso]\n";
        assert_eq!(mappings(maps), [(0x5000, 0x9000), (0x9000, 0xb000), (0xb000, 0xd000)]);
        let apart = maps.replace("5000-9000", "5000-8000");
        assert_eq!(mappings(&apart), [(0x9000, 0xb000), (0xb000, 0xd000)]);
        assert_eq!(mappings("1000-2000 r--p 0 00:00 0 /bin/a\n"), []);
    }
}
