//! The present memory of a process, for the data structures of runtimes.

use std::cell::RefCell;
use std::collections::HashMap;

const PAGE: u64 = PAGE_BYTES as u64;
const PAGE_BYTES: usize = 4096;
/// Most pages that are kept; a walk through a deep stack reads a few hundred.
const PAGES_MAX: usize = 4096;
/// The longest text.
const TEXT_MAX: usize = 512;

/// Fills bytes from an address on; false if that is not possible.
type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;
type Page = Box<[u8; PAGE_BYTES]>;

/// Reads memory page by page, each page once. A later read from a kept page may return older
/// content than the process has by then.
pub(super) struct Memory<'a> {
    read: Box<Read<'a>>,
    pages: RefCell<HashMap<u64, Option<Page>>>,
}

impl<'a> Memory<'a> {
    /// The memory of a process.
    pub(super) fn of(pid: i32) -> Memory<'static> {
        Memory::by(move |at, into| clockscope_sys::memory::read_exact(pid, at, into).is_ok())
    }

    /// Memory that a function provides: it fills bytes from an address on, or returns false.
    pub(super) fn by(read: impl Fn(u64, &mut [u8]) -> bool + 'a) -> Memory<'a> {
        Memory { read: Box::new(read), pages: RefCell::default() }
    }

    /// Fills `into` from an address on; `None` if a part cannot be read.
    pub(super) fn fill(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let mut at = at;
        let mut rest = into;
        let mut pages = self.pages.borrow_mut();
        while !rest.is_empty() {
            let (page, offset) = (at & !(PAGE - 1), usize::try_from(at % PAGE).ok()?);
            let length = rest.len().min(PAGE_BYTES - offset);
            if pages.len() >= PAGES_MAX {
                pages.clear();
            }
            let bytes = pages.entry(page).or_insert_with(|| {
                let mut bytes = Box::new([0; PAGE_BYTES]);
                (self.read)(page, &mut bytes[..]).then_some(bytes)
            });
            let (filled, left) = rest.split_at_mut(length);
            filled.copy_from_slice(bytes.as_ref()?.get(offset..offset + length)?);
            rest = left;
            at = at.checked_add(length as u64)?;
        }
        Some(())
    }

    fn array<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(at, &mut bytes).map(|()| bytes)
    }

    pub(super) fn u8(&self, at: u64) -> Option<u8> {
        self.array(at).map(|[byte]| byte)
    }

    pub(super) fn u16(&self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&self, at: u64) -> Option<i32> {
        self.array(at).map(i32::from_le_bytes)
    }

    pub(super) fn u64(&self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// `length` bytes from an address on.
    pub(super) fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.fill(at, &mut bytes).map(|()| bytes)
    }

    /// The text that ends with a zero, if the zero comes within [`TEXT_MAX`] bytes.
    pub(super) fn text(&self, at: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < TEXT_MAX {
            match self.u8(at.checked_add(text.len() as u64)?)? {
                0 => return Some(text),
                byte => text.push(byte),
            }
        }
        None
    }
}

#[cfg(test)]
impl Memory<'static> {
    /// Memory from 0x1000 on in which about every second word points into this memory, tagged or
    /// not.
    pub(super) fn maze(seed: u64) -> Memory<'static> {
        const WORDS: u64 = 0x1000;
        let random = move |at: u64| {
            let mut word = (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word ^= word >> 29;
            word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word ^ word >> 32
        };
        Memory::by(move |page, into| {
            for (word, at) in into.chunks_exact_mut(8).zip((page..).step_by(8)) {
                let value = random(at);
                let pointer = PAGE + value % WORDS * 8 + (value >> 60 & 1);
                let small = value >> 40;
                let value = match value >> 61 & 3 {
                    0 => value,
                    1 => small,
                    _ => pointer,
                };
                word.copy_from_slice(&value.to_le_bytes());
            }
            (PAGE..PAGE + 8 * WORDS).contains(&page)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn pages_are_read_once_and_what_is_not_there_is_not_made_up() {
        let reads = Cell::new(0);
        let memory = Memory::by(|at, into| {
            reads.set(reads.get() + 1);
            into.fill(u8::try_from(at / PAGE).unwrap_or(9));
            at < 3 * PAGE
        });
        assert_eq!(memory.u64(PAGE - 4), Some(0x0101_0101_0000_0000));
        assert_eq!(memory.u8(5), Some(0));
        assert_eq!(memory.u16(PAGE + 1), Some(0x0101));
        assert_eq!(memory.bytes(2 * PAGE, 3), Some(vec![2, 2, 2]));
        assert_eq!(reads.get(), 3);
        assert_eq!(memory.u32(3 * PAGE - 2), None);
        assert_eq!(memory.u8(u64::MAX), None);
        assert_eq!(memory.u64(u64::MAX - 3), None);
        assert_eq!(memory.text(PAGE), None, "no end within reach");
        assert_eq!(memory.text(10), Some(Vec::new()));
    }

    #[test]
    fn own_memory_is_read() {
        let text = *b"own memory\0";
        let own = Memory::of(std::process::id().cast_signed());
        assert_eq!(own.text(text.as_ptr() as u64), Some(b"own memory".to_vec()));
    }
}
