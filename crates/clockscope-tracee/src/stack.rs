//! The stack of a new program: argument count, arguments, environment, auxiliary vector.
//!
//! Pure: a closure reads the memory.
//!
//! # References
//!
//! System V ABI, AMD64 supplement, 3.4.1 "Initial Stack and Register State"; `getauxval(3)`

/// Words read at a time.
const CHUNK: usize = 512;
/// More words than any kernel allows (arguments may fill 6 MiB).
const WORDS_MAX: u64 = 2 << 20;

/// `AT_NULL`: the end of the vector.
const AT_NULL: u64 = 0;
/// `AT_SYSINFO_EHDR`: address of the kernel's vDSO.
const AT_SYSINFO_EHDR: u64 = 33;

/// `AT_EXECFN`: address of the path that was executed.
const AT_EXECFN: u64 = 31;

/// The entry of the auxiliary vector with the vDSO's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VdsoEntry {
    /// Address of the entry's value on the stack.
    pub slot: u64,
    /// The entry's value: the address of the kernel's image.
    pub base: u64,
    /// Address of the whole vector.
    pub vector: u64,
    /// Size of the whole vector in bytes, including its end.
    pub vector_size: u32,
    /// Address of the path that was executed.
    pub path: Option<u64>,
}

/// Words of memory from an address on, read in chunks.
struct Words<F> {
    read: F,
    chunk: Vec<u8>,
    chunk_at: u64,
    at: u64,
    end: u64,
}

impl<F: FnMut(u64, &mut [u8]) -> Option<usize>> Words<F> {
    /// Starts at the auxiliary vector.
    fn at_vector(stack_pointer: u64, read: F) -> Option<Self> {
        let (at, end) = (stack_pointer, stack_pointer.checked_add(WORDS_MAX * 8)?);
        let mut words = Self { read, chunk: Vec::new(), chunk_at: at, at, end };
        words.next()?; // the argument count
        words.skip_past_zero()?;
        words.skip_past_zero()?;
        Some(words)
    }

    fn next(&mut self) -> Option<u64> {
        if self.at >= self.end {
            return None;
        }
        let mut offset = usize::try_from(self.at - self.chunk_at).ok()?;
        if offset + 8 > self.chunk.len() {
            self.chunk.resize(CHUNK * 8, 0);
            let read = (self.read)(self.at, &mut self.chunk)?;
            self.chunk.truncate(read);
            self.chunk_at = self.at;
            offset = 0;
        }
        let word = self.chunk.get(offset..offset + 8)?;
        self.at += 8;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    fn skip_past_zero(&mut self) -> Option<()> {
        while self.next()? != 0 {}
        Some(())
    }
}

/// Finds `AT_SYSINFO_EHDR` from the stack pointer of a program that has not run yet.
///
/// `read(address, buffer)` returns the number of bytes that it could read. `None` if the stack does not have the
/// expected layout, or the vector has no such entry.
pub(crate) fn find_vdso(
    stack_pointer: u64,
    read: impl FnMut(u64, &mut [u8]) -> Option<usize>,
) -> Option<VdsoEntry> {
    let mut words = Words::at_vector(stack_pointer, read)?;
    let vector = words.at;
    let (mut found, mut path) = (None, None);
    loop {
        match (words.next()?, words.next()?) {
            (AT_NULL, _) => break,
            (AT_SYSINFO_EHDR, base) if base != 0 => found = Some((words.at - 8, base)),
            (AT_EXECFN, at) => path = path.or(Some(at)),
            _ => {}
        }
    }
    let (slot, base) = found?;
    let vector_size = u32::try_from(words.at - vector).ok()?;
    Some(VdsoEntry { slot, base, vector, vector_size, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: u64 = 0x7ffc_0000_1000;

    fn find(words: &[u64]) -> Option<VdsoEntry> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        find_vdso(AT, |address, into| {
            let from = usize::try_from(address - AT).ok()?;
            let rest = bytes.get(from..)?;
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            Some(count)
        })
    }

    #[test]
    fn the_entry_is_found_behind_arguments_and_environment() {
        let stack = [2, 11, 12, 0, 21, 0, 31, 100, 33, 0x7fff_0000, 6, 4096, 0, 0];
        let entry = VdsoEntry {
            slot: AT + 9 * 8,
            base: 0x7fff_0000,
            vector: AT + 6 * 8,
            vector_size: 4 * 16,
            path: Some(100),
        };
        assert_eq!(find(&stack), Some(entry));
    }

    #[test]
    fn a_vector_without_the_entry_gives_none() {
        assert_eq!(find(&[0, 0, 0, 3, 100, 0, 0]), None);
        assert_eq!(find(&[0, 0, 0, 33, 0, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_number_of_arguments_is_skipped(args in 0_usize..3000, env in 0_usize..3000) {
            let mut stack = vec![args as u64];
            stack.extend(std::iter::repeat_n(7, args));
            stack.push(0);
            stack.extend(std::iter::repeat_n(9, env));
            stack.extend([0, 16, 5, 33, 0x1000, 0, 0]);
            let slot = AT + 8 * (stack.len() as u64 - 3);
            let vector = slot - 24;
            let entry = VdsoEntry { slot, base: 0x1000, vector, vector_size: 48, path: None };
            prop_assert_eq!(find(&stack), Some(entry));
        }

        #[test]
        fn garbage_never_panics(words: Vec<u64>) {
            find(&words);
        }
    }
}
