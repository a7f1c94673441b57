//! BPF maps: kernel memory in which BPF programs count.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aya_obj::generated::bpf_attr;
use aya_obj::generated::bpf_cmd::{
    BPF_MAP_CREATE, BPF_MAP_FREEZE, BPF_MAP_GET_NEXT_KEY, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM,
};
use aya_obj::generated::bpf_map_type::{
    BPF_MAP_TYPE_LRU_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_PERCPU_HASH,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::affinity::listed;

use super::{address, attributes, call, open, put_name, raw_fd};

const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// One more than the greatest number of a CPU that this machine can have. There may be fewer CPUs than numbers.
///
/// # Errors
///
/// If `/sys` does not list the CPUs.
pub fn cpu_numbers() -> io::Result<usize> {
    Ok(numbers_of(&listed(POSSIBLE_CPUS)?))
}

fn numbers_of(cpus: &[i32]) -> usize {
    cpus.iter()
        .filter_map(|cpu| usize::try_from(*cpu).ok())
        .max()
        .map_or(0, |greatest| greatest + 1)
}

/// Type, sizes and flags of a map, as `bpf(2)` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value (of each CPU).
    pub value_bytes: u32,
    /// Entries at most.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// A map; the kernel frees it when no descriptor and no program refers to it.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    /// Size of a value, of all CPUs together.
    value_bytes: usize,
}

impl Map {
    /// Makes a map. Its name is cut to 15 bytes.
    ///
    /// # Errors
    ///
    /// `EPERM` without the privilege, `ENOMEM` or `E2BIG` if it is too large.
    pub fn new(name: &str, shape: &Shape) -> io::Result<Self> {
        let mut wanted = attributes();
        wanted.__bindgen_anon_1.map_type = shape.kind;
        wanted.__bindgen_anon_1.key_size = shape.key_bytes;
        wanted.__bindgen_anon_1.value_size = shape.value_bytes;
        wanted.__bindgen_anon_1.max_entries = shape.entries;
        wanted.__bindgen_anon_1.map_flags = shape.flags;
        // SAFETY: an array of bytes, zeroed above.
        put_name(name, unsafe { &mut wanted.__bindgen_anon_1.map_name });
        let descriptor = open(BPF_MAP_CREATE, &mut wanted)?;
        let by_cpu =
            [BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_LRU_PERCPU_HASH]
                .iter()
                .any(|kind| *kind as u32 == shape.kind);
        let of_one = shape.value_bytes as usize;
        let value_bytes =
            if by_cpu { of_one.next_multiple_of(8) * listed(POSSIBLE_CPUS)?.len() } else { of_one };
        Ok(Self { descriptor, key_bytes: shape.key_bytes as usize, value_bytes })
    }

    /// The value of a key; in a per-CPU map the values of all CPUs, each padded to a multiple of 8 bytes. `None` if the
    /// key is not in the map.
    ///
    /// # Errors
    ///
    /// The kernel's; `InvalidInput` for a key of another size.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_bytes];
        let mut wanted = self.about(Some(key))?;
        // The kernel writes one value, of all CPUs together.
        wanted.__bindgen_anon_2.__bindgen_anon_1.value = address(value.as_mut_ptr());
        found(call(BPF_MAP_LOOKUP_ELEM, &mut wanted)).map(|found| found.map(|_| value))
    }

    /// Sets the value of a key; adds the key if it is not in the map.
    ///
    /// # Errors
    ///
    /// The kernel's; `InvalidInput` for a key or value of another size.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if value.len() != self.value_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut wanted = self.about(Some(key))?;
        wanted.__bindgen_anon_2.__bindgen_anon_1.value = address(value.as_ptr());
        call(BPF_MAP_UPDATE_ELEM, &mut wanted).map(drop)
    }

    /// The key after `after`, or the first key; `None` after the last.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn next_key(&self, after: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        let mut next = vec![0; self.key_bytes];
        let mut wanted = self.about(after)?;
        // The kernel writes one key.
        wanted.__bindgen_anon_2.__bindgen_anon_1.next_key = address(next.as_mut_ptr());
        found(call(BPF_MAP_GET_NEXT_KEY, &mut wanted)).map(|found| found.map(|_| next))
    }

    /// Makes the map read-only for user space, after which the verifier takes its values for constants.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn freeze(&self) -> io::Result<()> {
        call(BPF_MAP_FREEZE, &mut self.about(None)?).map(drop)
    }

    /// The attributes of a command about this map, or about the element with this key.
    fn about(&self, key: Option<&[u8]>) -> io::Result<bpf_attr> {
        let mut wanted = attributes();
        wanted.__bindgen_anon_2.map_fd = raw_fd(&self.descriptor);
        if let Some(key) = key {
            if key.len() != self.key_bytes {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            wanted.__bindgen_anon_2.key = address(key.as_ptr());
        }
        Ok(wanted)
    }
}

/// The values of an array made with `BPF_F_MMAPABLE`, mapped one after another: reading them takes no system call.
#[derive(Debug)]
pub struct Mapped {
    at: NonNull<u64>,
    words: usize,
}

impl Mapped {
    /// Maps the first `words` words of a map's values.
    ///
    /// # Errors
    ///
    /// Those of `mmap(2)`: `EPERM` if the map was made without that flag, `EINVAL` if it is shorter.
    pub fn new(map: &Map, words: usize) -> io::Result<Self> {
        let (null, access) = (std::ptr::null_mut(), ProtFlags::READ);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { mmap(null, words * 8, access, MapFlags::SHARED, &map.descriptor, 0)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, words })
    }

    /// The current value of a word, 0 beyond the last.
    pub fn word(&self, index: usize) -> u64 {
        if index >= self.words {
            return 0;
        }
        // SAFETY: the word lies aligned in the mapping, which lives as long as `self`. The kernel writes it at the same
        // time, so it is read as an atomic.
        unsafe { self.at.add(index).cast::<AtomicU64>().as_ref() }.load(Relaxed)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own, and nothing refers to it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Turns `ENOENT` (no such key) into `None`.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use aya_obj::generated::bpf_map_type::{BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH};

    use super::*;

    fn map(kind: u32) -> Option<Map> {
        let shape = Shape { kind, key_bytes: 4, value_bytes: 12, entries: 8, flags: 0 };
        match Map::new("a name that is cut to its length", &shape) {
            Ok(map) => Some(map),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                None
            }
        }
    }

    #[test]
    fn keys_come_one_after_another_with_their_values() {
        let Some(map) = map(BPF_MAP_TYPE_HASH as u32) else { return };
        assert_eq!(map.next_key(None).unwrap(), None);
        for key in [7_u8, 9] {
            map.set(&[key, 0, 0, 0], &[key; 12]).unwrap();
        }
        let first = map.next_key(None).unwrap().unwrap();
        let second = map.next_key(Some(&first)).unwrap().unwrap();
        assert_eq!(map.next_key(Some(&second)).unwrap(), None);
        for key in [first, second] {
            assert_eq!(map.get(&key).unwrap(), Some(vec![key[0]; 12]));
        }
        assert_eq!(map.get(&[8, 0, 0, 0]).unwrap(), None);
        assert!(map.get(&[1]).is_err() && map.set(&[1; 4], &[1]).is_err());
    }

    #[test]
    fn a_value_by_cpu_is_one_of_each() {
        let Some(map) = map(BPF_MAP_TYPE_PERCPU_ARRAY as u32) else { return };
        let value = map.get(&[0; 4]).unwrap().unwrap();
        assert_eq!(value, vec![0; 16 * listed(POSSIBLE_CPUS).unwrap().len()]);
    }

    #[test]
    fn numbers_of_cpus_may_have_gaps() {
        assert_eq!(numbers_of(&[0, 1, 2, 3]), 4);
        assert_eq!(numbers_of(&[0, 1, 8, 9]), 10);
        assert_eq!(numbers_of(&[]), 0);
    }

    #[test]
    fn values_are_read_from_memory_where_the_map_allows_it() {
        const MAPPABLE: u32 = 1 << 10;
        let Some(other) = map(BPF_MAP_TYPE_ARRAY as u32) else { return };
        assert!(Mapped::new(&other, 8).is_err());
        let kind = BPF_MAP_TYPE_ARRAY as u32;
        let shape = Shape { kind, key_bytes: 4, value_bytes: 16, entries: 3, flags: MAPPABLE };
        let map = Map::new("mapped", &shape).unwrap();
        let mapped = Mapped::new(&map, 6).unwrap();
        map.set(&[2, 0, 0, 0], &[[1; 8], [2; 8]].concat()).unwrap();
        let words: Vec<u64> = (0..7).map(|index| mapped.word(index)).collect();
        let ones = u64::from_ne_bytes([1; 8]);
        assert_eq!(words, [0, 0, 0, 0, ones, 2 * ones, 0]);
    }

    #[test]
    fn a_frozen_map_cannot_be_changed() {
        let Some(map) = map(BPF_MAP_TYPE_ARRAY as u32) else { return };
        map.freeze().unwrap();
        assert!(map.set(&[0; 4], &[1; 12]).is_err());
    }
}
