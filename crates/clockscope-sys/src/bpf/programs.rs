//! BPF programs for tracepoints, iterators and perf events: loading, attaching, running once.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use aya_obj::generated::bpf_attach_type::{BPF_TRACE_ITER, BPF_TRACE_RAW_TP};
use aya_obj::generated::bpf_cmd::{
    BPF_ITER_CREATE, BPF_LINK_CREATE, BPF_PROG_LOAD, BPF_PROG_TEST_RUN, BPF_RAW_TRACEPOINT_OPEN,
};
use aya_obj::generated::bpf_insn;
use aya_obj::generated::bpf_prog_type::{
    BPF_PROG_TYPE_PERF_EVENT, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_TRACEPOINT,
    BPF_PROG_TYPE_TRACING,
};
use aya_obj::generated::perf_type_id::PERF_TYPE_TRACEPOINT;

use super::{address, attributes, call, open, put_name, raw_fd};
use crate::{affinity, perf_samples, proc_text};

/// Size of the verifier's log, in bytes.
const LOG_BYTES: usize = 1 << 20;

/// The hook that a program is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A tracepoint: the BTF id of its type `btf_trace_NAME` in the kernel.
    Tracepoint(u32),
    /// A perf event of a tracepoint.
    Event,
    /// An iterator: the BTF id of its function `bpf_iter_NAME` in the kernel.
    Iterator(u32),
    /// To be run once, by [`Program::run`].
    Once,
    /// The samples of perf events: [`crate::cpu_samples`].
    Samples,
}

/// A program that the kernel has checked and compiled.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// A program attached to its tracepoint until this value is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Program {
    /// Has the kernel verify and compile a program, whose instructions already refer to its maps.
    ///
    /// # Errors
    ///
    /// `EPERM` without the privilege; otherwise the verifier's message.
    pub fn load(
        name: &str,
        purpose: Purpose,
        instructions: &[bpf_insn],
        license: &CStr,
    ) -> io::Result<Self> {
        let mut silent = [];
        let error = match load(name, purpose, instructions, license, &mut silent) {
            Ok(program) => return Ok(program),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
            Err(error) => error,
        };
        let mut log = vec![0; LOG_BYTES];
        load(name, purpose, instructions, license, &mut log).map_err(|_| {
            let said = String::from_utf8_lossy(&log);
            io::Error::new(error.kind(), format!("{error}\n{}", said.trim_end_matches('\0')))
        })
    }

    /// Attaches the program to its tracepoint.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn attach(&self) -> io::Result<Attached> {
        let mut wanted = attributes();
        wanted.raw_tracepoint.prog_fd = raw_fd(&self.0);
        Ok(Attached { _link: open(BPF_RAW_TRACEPOINT_OPEN, &mut wanted)? })
    }

    /// Attaches the program to a perf event of tracepoint number `tracepoint` ([`crate::tracefs::tracepoint`]). The
    /// program then runs for every thread on every CPU.
    ///
    /// # Errors
    ///
    /// Those of `perf_event_open(2)`.
    pub fn attach_to_event(&self, tracepoint: u64) -> io::Result<Attached> {
        // The kernel runs the program for every thread and CPU. The event itself records nothing of its CPU; it stays
        // disabled. Its CPU must be online, which CPU 0 need not be.
        let mut wanted = perf_samples::attributes(PERF_TYPE_TRACEPOINT, tracepoint);
        wanted.set_disabled(1);
        let cpu = affinity::current().cast_signed();
        let event = perf_samples::open_with(&wanted, -1, cpu, -1)?;
        perf_samples::set_program(&event, self.as_fd())?;
        Ok(Attached { _link: event })
    }

    /// How often the kernel skipped the program because that CPU was already running this program or another one
    /// (`recursion_misses`); 0 before Linux 5.12, which does not report it.
    pub fn left_out(&self) -> u64 {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value = proc_text::field(&text, "recursion_misses:");
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Runs an iterator over everything that it iterates over.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn iterate(&self) -> io::Result<()> {
        let mut wanted = attributes();
        wanted.link_create.__bindgen_anon_1.prog_fd = raw_fd(&self.0);
        wanted.link_create.attach_type = BPF_TRACE_ITER as u32;
        let link = open(BPF_LINK_CREATE, &mut wanted)?;
        let mut wanted = attributes();
        wanted.iter_create.link_fd = raw_fd(&link);
        let mut file = File::from(open(BPF_ITER_CREATE, &mut wanted)?);
        io::copy(&mut file, &mut io::sink()).map(drop)
    }

    /// Runs the program once on the calling thread, with these arguments; gives its return value.
    ///
    /// # Errors
    ///
    /// The kernel's; Linux before 5.10 has no such call.
    pub fn run(&self, arguments: &[u64; 12]) -> io::Result<u32> {
        let mut wanted = attributes();
        wanted.test.prog_fd = raw_fd(&self.0);
        // The kernel reads the arguments and nothing beyond them.
        wanted.test.ctx_in = address(arguments.as_ptr());
        wanted.test.ctx_size_in =
            u32::try_from(size_of_val(arguments)).map_err(io::Error::other)?;
        call(BPF_PROG_TEST_RUN, &mut wanted)?;
        // SAFETY: a number, which the kernel has filled in.
        Ok(unsafe { wanted.test.retval })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A BPF instruction: operation code, destination and source register, offset, immediate value.
pub(crate) fn instruction(code: u8, to: u8, from: u8, off: i16, imm: i32) -> bpf_insn {
    let _bitfield_1 = bpf_insn::new_bitfield_1(to, from);
    bpf_insn { code, _bitfield_align_1: [], _bitfield_1, off, imm }
}

/// Loads the program once; the verifier writes into `log` unless it is empty.
fn load(
    name: &str,
    purpose: Purpose,
    instructions: &[bpf_insn],
    license: &CStr,
    log: &mut [u8],
) -> io::Result<Program> {
    let (kind, attach, types) = match purpose {
        Purpose::Tracepoint(types) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP as u32, types),
        Purpose::Event => (BPF_PROG_TYPE_TRACEPOINT, 0, 0),
        Purpose::Iterator(types) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER as u32, types),
        Purpose::Once => (BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0),
        Purpose::Samples => (BPF_PROG_TYPE_PERF_EVENT, 0, 0),
    };
    let mut wanted = attributes();
    // SAFETY: all fields are numbers, zeroed above.
    let program = unsafe { &mut wanted.__bindgen_anon_3 };
    program.prog_type = kind as u32;
    program.expected_attach_type = attach;
    program.attach_btf_id = types;
    // The kernel copies the instructions and the licence during the call, and writes at most `log_size` bytes to the
    // log.
    program.insn_cnt = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    program.insns = address(instructions.as_ptr());
    program.license = address(license.as_ptr());
    if !log.is_empty() {
        program.log_level = 1;
        program.log_size = u32::try_from(log.len()).map_err(io::Error::other)?;
        program.log_buf = address(log.as_mut_ptr());
    }
    put_name(name, &mut program.prog_name);
    open(BPF_PROG_LOAD, &mut wanted).map(Program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_once_or_is_forbidden() {
        let program = [instruction(0xb7, 0, 0, 0, 4711), instruction(0x95, 0, 0, 0, 0)];
        match Program::load("number", Purpose::Once, &program, c"GPL") {
            Ok(program) => assert_eq!(program.run(&[0; 12]).unwrap(), 4711),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }

    #[test]
    fn what_the_verifier_says_of_a_bad_program_is_told() {
        let endless = [instruction(0xb7, 0, 0, 0, 1)];
        let error = Program::load("endless", Purpose::Once, &endless, c"GPL").unwrap_err();
        assert!(
            error.raw_os_error() == Some(libc::EPERM) || error.to_string().contains('\n'),
            "{error}"
        );
    }
}
