//! `bpf(2)`: maps, programs, and who else has attached some: the names that links and perf events hang on.

pub mod kernel_types;
pub mod maps;
pub mod programs;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use aya_obj::generated::bpf_cmd::{
    self, BPF_LINK_GET_FD_BY_ID, BPF_LINK_GET_NEXT_ID, BPF_OBJ_GET_INFO_BY_FD, BPF_PROG_LOAD,
    BPF_PROG_TEST_RUN, BPF_TASK_FD_QUERY,
};
use aya_obj::generated::bpf_link_type::{BPF_LINK_TYPE_PERF_EVENT, BPF_LINK_TYPE_RAW_TRACEPOINT};
use aya_obj::generated::bpf_perf_event_type::{
    BPF_PERF_EVENT_KPROBE, BPF_PERF_EVENT_KRETPROBE, BPF_PERF_EVENT_TRACEPOINT,
};
use aya_obj::generated::bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT;
use aya_obj::generated::bpf_task_fd_type::{
    BPF_FD_TYPE_KPROBE, BPF_FD_TYPE_KRETPROBE, BPF_FD_TYPE_RAW_TRACEPOINT, BPF_FD_TYPE_TRACEPOINT,
};
use aya_obj::generated::{bpf_attr, bpf_link_info};

use super::descriptor;

/// Arguments of `bpf(2)`, all zero.
fn attributes() -> bpf_attr {
    // SAFETY: all-zero is a value of this union of plain structs.
    unsafe { std::mem::zeroed() }
}

/// Calls the kernel; gives its answer, which is not negative.
fn call(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<libc::c_long> {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<bpf_attr>());
    // SAFETY: the kernel reads and writes at most `size` bytes of the attributes and, beyond them, only
    // what the addresses in them point to, which each caller answers for.
    super::check(unsafe { libc::syscall(libc::SYS_bpf, command as u32, attributes, size) })
}

/// Calls the kernel for a descriptor.
fn open(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    let number = call(command, attributes)?;
    // SAFETY: the commands used with this return a fresh descriptor, nobody else's.
    unsafe { descriptor(number) }
}

fn raw_fd(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// The address of memory that the kernel reads or writes, as it takes it.
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Gives a map or program its name, which the kernel cuts here: letters, digits, `_` and `.`.
fn put_name(name: &str, into: &mut [libc::c_char; 16]) {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    for (to, byte) in into.iter_mut().take(15).zip(name.bytes().filter(allowed)) {
        *to = libc::c_char::from_ne_bytes([byte]);
    }
}

/// An instruction of the BPF machine: `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    /// An instruction by its code (`BPF_*`), the registers that it goes to and from, its offset and its
    /// immediate value.
    pub(crate) const fn new(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Self {
        Self { code, registers: to | from << 4, offset, value }
    }
}

/// Loads a program of the kind that raw tracepoints run. It is attached to nothing.
///
/// # Errors
///
/// `EPERM` without the right to, `EINVAL` or `EACCES` if the kernel's verifier refuses it.
pub(crate) fn load_raw_tracepoint(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"Dual MIT/GPL";
    let mut wanted = attributes();
    // The instructions and the licence outlive the call, in which the kernel copies them.
    wanted.__bindgen_anon_3.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT as u32;
    wanted.__bindgen_anon_3.insn_cnt =
        u32::try_from(instructions.len()).map_err(io::Error::other)?;
    wanted.__bindgen_anon_3.insns = address(instructions.as_ptr());
    wanted.__bindgen_anon_3.license = address(LICENSE.as_ptr());
    open(BPF_PROG_LOAD, &mut wanted)
}

/// Runs a program once on the calling thread; gives what it returns.
///
/// # Errors
///
/// The kernel's; before Linux 5.10 there is no such call for these programs.
pub(crate) fn run(program: &OwnedFd) -> io::Result<u32> {
    let mut wanted = attributes();
    wanted.test.prog_fd = raw_fd(program);
    call(BPF_PROG_TEST_RUN, &mut wanted)?;
    // SAFETY: a number, which the kernel has filled in.
    Ok(unsafe { wanted.test.retval })
}

/// What a BPF link or a descriptor of perf events hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A tracepoint, by BPF directly (`tp_btf`, `raw_tp`).
    RawTracepoint,
    /// A tracepoint, by a perf event.
    Tracepoint,
    /// A kernel function (kprobe or kretprobe).
    Function,
    /// Anything else, such as a network device or a control group.
    Other,
}

/// A BPF link: a program attached to something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number, by which the kernel lists it.
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
        let mut wanted = attributes();
        wanted.__bindgen_anon_6.__bindgen_anon_1.start_id = id;
        match call(BPF_LINK_GET_NEXT_ID, &mut wanted) {
            // SAFETY: a number, which the kernel has filled in.
            Ok(_) => id = unsafe { wanted.__bindgen_anon_6.next_id },
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(links),
            Err(error) => return Err(error),
        }
        // A link may be gone by now, which is no error.
        links.extend(link(id).ok());
    }
}

fn link(id: u32) -> io::Result<Link> {
    const RAW_TRACEPOINT: u32 = BPF_LINK_TYPE_RAW_TRACEPOINT as u32;
    const PERF_EVENT: u32 = BPF_LINK_TYPE_PERF_EVENT as u32;
    const TRACEPOINT: u32 = BPF_PERF_EVENT_TRACEPOINT as u32;
    const KPROBE: u32 = BPF_PERF_EVENT_KPROBE as u32;
    const KRETPROBE: u32 = BPF_PERF_EVENT_KRETPROBE as u32;
    let mut wanted = attributes();
    wanted.__bindgen_anon_6.__bindgen_anon_1.link_id = id;
    let fd = open(BPF_LINK_GET_FD_BY_ID, &mut wanted)?;
    // SAFETY: all-zero is a value of this struct of numbers.
    let mut info: bpf_link_info = unsafe { std::mem::zeroed() };
    link_info(&fd, &mut info)?;
    // SAFETY: a number; whether it is one that the kernel has filled in, the type of the link says.
    let of_perf_event = unsafe { info.__bindgen_anon_1.perf_event.type_ };
    let mut name = [0_u8; NAME_BYTES as usize];
    let (buffer, length) = (address(name.as_mut_ptr()), NAME_BYTES);
    let kind = match (info.type_, of_perf_event) {
        (RAW_TRACEPOINT, _) => {
            info.__bindgen_anon_1.raw_tracepoint.tp_name = buffer;
            info.__bindgen_anon_1.raw_tracepoint.tp_name_len = length;
            ProbeKind::RawTracepoint
        }
        (PERF_EVENT, TRACEPOINT) => {
            info.__bindgen_anon_1.perf_event.__bindgen_anon_1.tracepoint.tp_name = buffer;
            info.__bindgen_anon_1.perf_event.__bindgen_anon_1.tracepoint.name_len = length;
            ProbeKind::Tracepoint
        }
        (PERF_EVENT, KPROBE | KRETPROBE) => {
            info.__bindgen_anon_1.perf_event.__bindgen_anon_1.kprobe.func_name = buffer;
            info.__bindgen_anon_1.perf_event.__bindgen_anon_1.kprobe.name_len = length;
            ProbeKind::Function
        }
        _ => return Ok(Link { id, kind: ProbeKind::Other, name: String::new() }),
    };
    link_info(&fd, &mut info)?;
    Ok(Link { id, kind, name: text(&name) })
}

/// Room for a name, with the zero byte at its end.
const NAME_BYTES: u32 = 128;

/// Asks for the description of a link; also for a name, if there is an address for one.
fn link_info(fd: &OwnedFd, info: &mut bpf_link_info) -> io::Result<()> {
    let mut wanted = attributes();
    wanted.info.bpf_fd = raw_fd(fd);
    wanted.info.info_len = u32::try_from(size_of_val(info)).map_err(io::Error::other)?;
    wanted.info.info = address(std::ptr::from_mut(info));
    // The kernel writes at most `info_len` bytes to `info`, and the name where `info` says.
    call(BPF_OBJ_GET_INFO_BY_FD, &mut wanted).map(drop)
}

fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
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
    const RAW_TRACEPOINT: u32 = BPF_FD_TYPE_RAW_TRACEPOINT as u32;
    const TRACEPOINT: u32 = BPF_FD_TYPE_TRACEPOINT as u32;
    const KPROBE: u32 = BPF_FD_TYPE_KPROBE as u32;
    const KRETPROBE: u32 = BPF_FD_TYPE_KRETPROBE as u32;
    let mut name = [0_u8; NAME_BYTES as usize];
    let mut wanted = attributes();
    wanted.task_fd_query.pid = pid;
    wanted.task_fd_query.fd = fd;
    wanted.task_fd_query.buf_len = NAME_BYTES;
    wanted.task_fd_query.buf = address(name.as_mut_ptr());
    // The kernel writes at most `buf_len` bytes to `name`.
    call(BPF_TASK_FD_QUERY, &mut wanted)?;
    // SAFETY: a number, which the kernel has filled in.
    let kind = match unsafe { wanted.task_fd_query.fd_type } {
        RAW_TRACEPOINT => ProbeKind::RawTracepoint,
        TRACEPOINT => ProbeKind::Tracepoint,
        KPROBE | KRETPROBE => ProbeKind::Function,
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
        let (copy, load) =
            (Instruction::new(0xbf, 3, 0, 0, 0), Instruction::new(0x79, 0, 10, -8, 0));
        assert_eq!(bytes(copy), [0xbf, 0x03, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(load), [0x79, 0xa0, 0xf8, 0xff, 0, 0, 0, 0]);
        assert_eq!(bytes(Instruction::new(0x85, 0, 0, 0, 35)), [0x85, 0, 0, 0, 35, 0, 0, 0]);
    }

    #[test]
    fn a_program_that_returns_a_number_returns_it_or_is_forbidden() {
        let program = [Instruction::new(0xb7, 0, 0, 0, 4711), Instruction::new(0x95, 0, 0, 0, 0)];
        match load_raw_tracepoint(&program) {
            Ok(program) => assert_eq!(run(&program).unwrap(), 4711),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }

    #[test]
    fn a_program_without_an_end_is_refused() {
        assert!(load_raw_tracepoint(&[Instruction::new(0xb7, 0, 0, 0, 1)]).is_err());
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
