//! Asking the kernel about BPF programs: `bpf(2)` without a library.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Arguments of `bpf(2)`: room for the part of `union bpf_attr` that is used here, zeroed.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    const fn new() -> Self {
        Self([0; 128])
    }

    fn with_u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn with_address<T>(mut self, offset: usize, pointer: *const T) -> Self {
        let address = u64::try_from(pointer.expose_provenance()).unwrap_or(0);
        self.0[offset..offset + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    fn u32_at(&self, offset: usize) -> u32 {
        u32_at(&self.0, offset)
    }

    /// Calls the kernel with the first `size` bytes.
    fn call(&mut self, command: u32, size: usize) -> io::Result<i32> {
        // SAFETY: the kernel reads and writes at most `size` bytes of `self` and, beyond it, only
        // what the addresses in it point to, which each caller answers for.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size.min(128)) };
        match i32::try_from(result) {
            Ok(value) if value >= 0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Calls the kernel with the first `size` bytes for a descriptor.
    fn open(&mut self, command: u32, size: usize) -> io::Result<OwnedFd> {
        let fd = self.call(command, size)?;
        // SAFETY: the commands used with this return a fresh descriptor, nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let bytes = bytes.get(offset..offset + 4).and_then(|four| four.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

fn raw_fd(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

const BPF_PROG_LOAD: u32 = 5;
const BPF_PROG_TEST_RUN: u32 = 10;
const BPF_OBJ_GET_INFO_BY_FD: u32 = 15;
const BPF_TASK_FD_QUERY: u32 = 20;
const BPF_LINK_GET_FD_BY_ID: u32 = 30;
const BPF_LINK_GET_NEXT_ID: u32 = 31;

/// An instruction of the BPF machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    const fn new(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Self {
        Self { code, registers: to | from << 4, offset, value }
    }

    /// Calls a helper function of the kernel.
    #[must_use]
    pub const fn call(helper: i32) -> Self {
        Self::new(0x85, 0, 0, 0, helper)
    }

    /// Copies a register.
    #[must_use]
    pub const fn copy(to: u8, from: u8) -> Self {
        Self::new(0xbf, to, from, 0, 0)
    }

    /// Adds a number to a register.
    #[must_use]
    pub const fn add(to: u8, value: i32) -> Self {
        Self::new(0x07, to, 0, 0, value)
    }

    /// Sets a register.
    #[must_use]
    pub const fn set(to: u8, value: i32) -> Self {
        Self::new(0xb7, to, 0, 0, value)
    }

    /// Skips instructions if a register is zero.
    #[must_use]
    pub(crate) const fn jump_if_zero(register: u8, skipped: i16) -> Self {
        Self::new(0x15, register, 0, skipped, 0)
    }

    /// Loads eight bytes from an address in a register.
    #[must_use]
    pub const fn load(to: u8, address: u8, offset: i16) -> Self {
        Self::new(0x79, to, address, offset, 0)
    }

    /// Returns register 0.
    #[must_use]
    pub const fn exit() -> Self {
        Self::new(0x95, 0, 0, 0, 0)
    }
}

/// Loads a program of the kind that raw tracepoints run. It is attached to nothing.
///
/// # Errors
///
/// `EPERM` without the right to, `EINVAL` or `EACCES` if the kernel's verifier refuses it.
pub(crate) fn load_raw_tracepoint(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
    const LICENSE: &CStr = c"Dual MIT/GPL";
    let count = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    // The instructions and the licence outlive the call, in which the kernel copies them.
    Attributes::new()
        .with_u32(0, BPF_PROG_TYPE_RAW_TRACEPOINT)
        .with_u32(4, count)
        .with_address(8, instructions.as_ptr())
        .with_address(16, LICENSE.as_ptr())
        .open(BPF_PROG_LOAD, 48)
}

/// Runs a program once on the calling thread; gives what it returns.
///
/// # Errors
///
/// The kernel's; before Linux 5.10 there is no such call for these programs.
pub fn run(program: &OwnedFd) -> io::Result<u32> {
    let mut attributes = Attributes::new().with_u32(0, raw_fd(program));
    attributes.call(BPF_PROG_TEST_RUN, 80)?;
    Ok(attributes.u32_at(4))
}

/// What a BPF link or a descriptor of perf events hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A tracepoint, by BPF directly (`tp_btf`, `raw_tp`).
    RawTracepoint,
    /// A tracepoint, by a perf event.
    Tracepoint,
    /// A kernel function.
    Function,
    /// Anything else.
    Other,
}

/// A BPF link: a program attached to something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub id: u32,
    /// What it hangs on.
    pub kind: ProbeKind,
    /// The name of the tracepoint or function.
    pub name: String,
}

/// All BPF links of the host.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn links() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    let mut id = 0;
    loop {
        let mut next = Attributes::new().with_u32(0, id);
        match next.call(BPF_LINK_GET_NEXT_ID, 12) {
            Ok(_) => id = next.u32_at(4),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(links),
            Err(error) => return Err(error),
        }
        // A link may be gone by now, which is no error.
        links.extend(link(id).ok());
    }
}

const LINK_RAW_TRACEPOINT: u32 = 1;
const LINK_PERF_EVENT: u32 = 7;
const PERF_EVENT_KPROBE: u32 = 3;
const PERF_EVENT_KRETPROBE: u32 = 4;
const PERF_EVENT_TRACEPOINT: u32 = 5;

/// `struct bpf_link_info`, as far as it is used: type, number, program; then for a raw tracepoint
/// the address and size of the name; for perf events the kind, and from 24 on the same.
const INFO_BYTES: usize = 80;

fn link(id: u32) -> io::Result<Link> {
    let fd = Attributes::new().with_u32(0, id).open(BPF_LINK_GET_FD_BY_ID, 12)?;
    let mut name = [0_u8; NAME_BYTES];
    let first = link_info(&fd, None, &mut name)?;
    let (kind, name_at) = match (u32_at(&first, 0), u32_at(&first, 16)) {
        (LINK_RAW_TRACEPOINT, _) => (ProbeKind::RawTracepoint, 16),
        (LINK_PERF_EVENT, PERF_EVENT_TRACEPOINT) => (ProbeKind::Tracepoint, 24),
        (LINK_PERF_EVENT, PERF_EVENT_KPROBE | PERF_EVENT_KRETPROBE) => (ProbeKind::Function, 24),
        _ => return Ok(Link { id, kind: ProbeKind::Other, name: String::new() }),
    };
    link_info(&fd, Some(name_at), &mut name)?;
    Ok(Link { id, kind, name: text(&name) })
}

const NAME_BYTES: usize = 128;

/// Asks for the description of a link; with the offset of the name's address, also for the name.
fn link_info(
    fd: &OwnedFd,
    name_at: Option<usize>,
    name: &mut [u8; NAME_BYTES],
) -> io::Result<[u8; INFO_BYTES]> {
    let mut info = Attributes::new();
    if let Some(at) = name_at {
        info = info
            .with_address(at, name.as_mut_ptr())
            .with_u32(at + 8, u32::try_from(NAME_BYTES).unwrap_or(0));
    }
    let size = u32::try_from(INFO_BYTES).unwrap_or(0);
    // The kernel writes at most INFO_BYTES to `info` and NAME_BYTES to `name`; both are ours.
    Attributes::new()
        .with_u32(0, raw_fd(fd))
        .with_u32(4, size)
        .with_address(8, info.0.as_mut_ptr())
        .call(BPF_OBJ_GET_INFO_BY_FD, 16)?;
    let mut bytes = [0; INFO_BYTES];
    bytes.copy_from_slice(&info.0[..INFO_BYTES]);
    Ok(bytes)
}

fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes)
        .map(CString::from)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What a descriptor of a process hangs on, if a BPF program hangs there too.
///
/// # Errors
///
/// `ENOENT` if it is a perf event without a program; `EPERM` without `CAP_SYS_ADMIN`; others if it
/// is neither a perf event nor a raw tracepoint, or is gone.
///
/// # References
///
/// - `BPF_TASK_FD_QUERY` in include/uapi/linux/bpf.h (Linux 6.18)
pub fn probe_of(pid: u32, fd: u32) -> io::Result<(ProbeKind, String)> {
    let mut name = [0_u8; NAME_BYTES];
    let mut attributes = Attributes::new()
        .with_u32(0, pid)
        .with_u32(4, fd)
        .with_u32(12, u32::try_from(NAME_BYTES).unwrap_or(0))
        .with_address(16, name.as_mut_ptr());
    // The kernel writes at most NAME_BYTES to `name`.
    attributes.call(BPF_TASK_FD_QUERY, 48)?;
    let kind = match attributes.u32_at(28) {
        0 => ProbeKind::RawTracepoint,
        1 => ProbeKind::Tracepoint,
        2 | 3 => ProbeKind::Function,
        _ => ProbeKind::Other,
    };
    Ok((kind, text(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernel_documents() {
        let bytes = |one: Instruction| -> [u8; 8] {
            let [low, high] = one.offset.to_le_bytes();
            let [a, b, c, d] = one.value.to_le_bytes();
            [one.code, one.registers, low, high, a, b, c, d]
        };
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(bytes(Instruction::copy(3, 0)), [0xbf, 0x03, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(Instruction::load(0, 10, -8)), [0x79, 0xa0, 0xf8, 0xff, 0, 0, 0, 0]);
        assert_eq!(bytes(Instruction::call(35)), [0x85, 0, 0, 0, 35, 0, 0, 0]);
    }

    #[test]
    fn a_program_that_returns_a_number_returns_it_or_is_forbidden() {
        let program = [Instruction::set(0, 4711), Instruction::exit()];
        match load_raw_tracepoint(&program) {
            Ok(program) => assert_eq!(run(&program).unwrap(), 4711),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }

    #[test]
    fn a_program_without_an_end_is_refused() {
        assert!(load_raw_tracepoint(&[Instruction::set(0, 1)]).is_err());
    }

    #[test]
    fn links_are_listed_or_forbidden() {
        match links() {
            Ok(links) => assert!(links.iter().all(|link| link.id > 0)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }

    #[test]
    fn an_ordinary_file_is_no_probe() {
        assert!(probe_of(std::process::id(), 0).is_err());
    }
}
