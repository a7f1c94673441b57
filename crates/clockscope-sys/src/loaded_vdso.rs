//! Address and bytes of the vDSO image of a process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::proc_text;
use vdso_reader::maps::{self, Mapping};
use vdso_reader::{Class, auxv};

/// Upper limit for the size of an image, in bytes; an address in a larger mapping is not the address of an image.
const SIZE_MAX: u64 = 1 << 20;

/// The vDSO image of a process as mapped in its memory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Id of the process that has it mapped.
    pub pid: u32,
    /// The address of the image.
    pub base: u64,
    /// From `base` to the end of the mapping.
    pub bytes: Vec<u8>,
    /// All mappings of the process.
    pub mappings: Vec<Mapping>,
}

/// Why a process's image cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// `/proc` is not mounted, so no process can be inspected.
    #[error("{}", proc_text::NOT_MOUNTED)]
    NoProc,
    /// There is no such process.
    #[error("there is no such process")]
    NoProcess,
    /// The kernel does not let us read the process's memory.
    #[error("its memory may not be read; try as its user or with CAP_SYS_PTRACE")]
    Forbidden,
    /// The process has no vDSO: a kernel thread, one that is ending, or a kernel with `vdso=0`.
    #[error("it has no vDSO; kernel threads, ending processes and kernels with vdso=0 have none")]
    NoVdso,
    /// A file below `/proc` cannot be read for another reason.
    #[error("cannot read {0}: {1}")]
    Read(&'static str, io::Error),
}

/// Reads the image of this process, or of another one.
///
/// The image of this process is the one that the auxiliary vector on its stack names, which its C library uses. For
/// another process the kernel's copy of the vector is read, which may differ.
/// # Errors
///
/// If the process does not exist, may not be read or has no image.
pub fn load(pid: Option<u32>) -> Result<Loaded, LoadError> {
    if !proc_text::is_mounted() {
        return Err(LoadError::NoProc);
    }
    let dir = pid.map_or_else(|| "/proc/self".to_owned(), |pid| format!("/proc/{pid}"));
    let vector = read(fs::read(format!("{dir}/auxv")), "its auxiliary vector")?;
    let copied = auxv::sysinfo_ehdr(&vector, class_of(&dir));
    let own_base = if pid.is_none() { own_base() } else { None };
    let base = own_base.or(copied).ok_or(LoadError::NoVdso)?;
    let text = read(proc_text::read(format!("{dir}/maps")), "its mappings")?;
    let mappings = maps::parse(&text);
    let mapping = mappings.iter().find(|mapping| mapping.contains(base));
    let size = (mapping.ok_or(LoadError::NoVdso)?.end - base).min(SIZE_MAX);
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| LoadError::NoVdso)?];
    let memory = read(File::open(format!("{dir}/mem")), "its memory")?;
    read(memory.read_exact_at(&mut bytes, base), "its memory")?;
    Ok(Loaded { pid: pid.unwrap_or_else(std::process::id), base, bytes, mappings })
}

/// `AT_SYSINFO_EHDR` in the auxiliary vector on this process's stack.
///
/// # References
///
/// - `getauxval(3)`
pub fn own_base() -> Option<u64> {
    // SAFETY: getauxval takes a number and only reads the vector that the process was started with.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    (base != 0).then_some(base)
}

fn read<T>(result: io::Result<T>, what: &'static str) -> Result<T, LoadError> {
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => LoadError::NoProcess,
        Some(libc::EACCES | libc::EPERM) => LoadError::Forbidden,
        _ => LoadError::Read(what, error),
    })
}

/// The width of addresses in a process with this folder in `/proc`, by the ELF header of its program; 64 bits if that
/// cannot be read.
pub fn class_of(dir: &str) -> Class {
    let mut ident = [0; 5];
    let header =
        File::open(format!("{dir}/exe")).and_then(|file| file.read_exact_at(&mut ident, 0));
    if header.is_ok() && ident[4] == 1 { Class::Elf32 } else { Class::Elf64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vdso_reader::Image;

    #[test]
    fn this_process_has_the_image_that_maps_names() {
        let own = load(None).unwrap();
        let by_pid = load(Some(std::process::id())).unwrap();
        assert_eq!(own.base, by_pid.base);
        let mapping = own.mappings.iter().find(|mapping| mapping.name == "[vdso]").unwrap();
        assert_eq!(by_pid.base, mapping.start);
        assert_eq!(by_pid.bytes.len() as u64, mapping.size());
        assert!(Image::parse(&own.bytes).is_ok());
    }

    #[test]
    fn there_is_no_process_zero_and_kernel_threads_have_no_vdso() {
        assert!(matches!(load(Some(0)), Err(LoadError::NoProcess)));
        let error = load(Some(2)).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
