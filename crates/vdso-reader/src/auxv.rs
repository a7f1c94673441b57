//! The auxiliary vector in the format of `/proc/PID/auxv`.

use super::Class;

/// The tag of the address of the vDSO image.
pub const AT_SYSINFO_EHDR: u64 = 33;

/// The pairs of tag and value in the bytes of `/proc/PID/auxv`, up to `AT_NULL`.
///
/// `class` is that of the process, which may differ from ours: a 32-bit process has pairs of 32-bit words. The byte
/// order is this machine's.
///
/// # References
///
/// - `getauxval(3)`, `proc_pid_auxv(5)`
pub fn parse(bytes: &[u8], class: Class) -> Vec<(u64, u64)> {
    let width = class as usize / 8;
    let pairs = bytes.chunks_exact(2 * width).map(|pair| {
        let (tag, value) = pair.split_at(width);
        (word(tag), word(value))
    });
    pairs.take_while(|pair| pair.0 != 0).collect()
}

/// The address of the vDSO image, if the vector has one.
pub fn sysinfo_ehdr(bytes: &[u8], class: Class) -> Option<u64> {
    let pairs = parse(bytes, class);
    pairs.iter().find(|pair| pair.0 == AT_SYSINFO_EHDR).map(|pair| pair.1).filter(|at| *at != 0)
}

/// A number of 4 or 8 bytes in this machine's byte order.
fn word(bytes: &[u8]) -> u64 {
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        return u64::from_ne_bytes(bytes);
    }
    <[u8; 4]>::try_from(bytes).map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(pairs: &[(u64, u64)]) -> Vec<u8> {
        pairs.iter().flat_map(|pair| [pair.0, pair.1]).flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn the_image_is_found_before_the_end_only() {
        let bytes = vector(&[(6, 4096), (AT_SYSINFO_EHDR, 0x7fff_1000), (0, 0)]);
        assert_eq!(sysinfo_ehdr(&bytes, Class::Elf64), Some(0x7fff_1000));
        let bytes = vector(&[(6, 4096), (0, 0), (AT_SYSINFO_EHDR, 0x7fff_1000)]);
        assert_eq!(sysinfo_ehdr(&bytes, Class::Elf64), None);
    }

    #[test]
    fn a_null_address_is_no_image() {
        let bytes = vector(&[(AT_SYSINFO_EHDR, 0), (0, 0)]);
        assert_eq!(sysinfo_ehdr(&bytes, Class::Elf64), None);
        assert_eq!(sysinfo_ehdr(&[], Class::Elf64), None);
    }

    #[test]
    fn narrow_processes_have_narrow_words() {
        let words = [6u32, 4096, 33, 0xf7fc_1000, 0, 0];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(sysinfo_ehdr(&bytes, Class::Elf32), Some(0xf7fc_1000));
    }

    #[test]
    fn a_cut_pair_is_left_out() {
        let bytes = vector(&[(6, 4096), (AT_SYSINFO_EHDR, 0x7fff_1000)]);
        assert_eq!(parse(&bytes[..31], Class::Elf64), [(6, 4096)]);
    }
}
