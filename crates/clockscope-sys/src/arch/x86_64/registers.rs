//! The registers of a stopped tracee.

use std::io;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};

use crate::ptrace::{call, peek};

/// General registers of a stopped tracee. Registers that every architecture has are methods; the fields of the kernel's
/// structure are those of x86-64.
#[derive(Clone, Copy, Debug)]
pub struct Registers(libc::user_regs_struct);

/// Code segment of 64-bit programs: `__USER_CS` in arch/x86/include/asm/segment.h (Linux 6.18).
const USER_CS: u64 = 0x33;

/// The instruction that enters the kernel: `syscall`.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

impl Registers {
    /// All zero.
    pub fn zero() -> Self {
        // SAFETY: all-zero is a value of this plain struct of integers.
        Self(unsafe { std::mem::zeroed() })
    }

    /// True if the tracee executes 64-bit code.
    pub fn is_64_bit(&self) -> bool {
        self.0.cs == USER_CS
    }

    /// Address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.0.rip
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: u64) {
        self.0.rip = pc;
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// Return value of the last system call.
    pub fn result(&self) -> u64 {
        self.0.rax
    }

    /// Number of the system call that the tracee is in (`orig_rax`).
    pub fn call_number(&self) -> u64 {
        self.0.orig_rax
    }

    /// Number of the system call that the tracee enters with its next instruction, if that does.
    pub(crate) fn next_call_number(&self) -> u64 {
        self.0.rax
    }

    /// An argument of a system call, from 0 on.
    pub fn argument(&self, index: usize) -> u64 {
        let Registers(own) = self;
        [own.rdi, own.rsi, own.rdx, own.r10, own.r8, own.r9].get(index).copied().unwrap_or(0)
    }
}

impl Deref for Registers {
    type Target = libc::user_regs_struct;

    fn deref(&self) -> &libc::user_regs_struct {
        &self.0
    }
}

impl DerefMut for Registers {
    fn deref_mut(&mut self) -> &mut libc::user_regs_struct {
        &mut self.0
    }
}

/// Reads the registers of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn registers(pid: i32) -> io::Result<Registers> {
    let mut registers = Registers::zero();
    call(libc::PTRACE_GETREGS, pid, 0, (&raw mut registers.0).expose_provenance())?;
    Ok(registers)
}

/// Writes the registers of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn set_registers(pid: i32, registers: &Registers) -> io::Result<()> {
    let from = std::ptr::from_ref(&registers.0).expose_provenance();
    call(libc::PTRACE_SETREGS, pid, 0, from).map(drop)
}

/// Address of the thread-local storage of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn thread_pointer(pid: i32) -> io::Result<u64> {
    peek(libc::PTRACE_PEEKUSER, pid, offset_of!(libc::user_regs_struct, fs_base))
}

/// Code of known length, for tests.
#[cfg(test)]
pub(crate) mod known {
    use std::arch::asm;

    /// Four instructions; the third enters the kernel.
    #[inline(always)]
    pub(crate) fn call() {
        // SAFETY: `getppid` takes and changes nothing; the registers are those that the
        // instruction itself changes.
        unsafe {
            asm!(
                "nop", "mov eax, 110", "syscall", "nop",
                out("rax") _, out("rcx") _, out("r11") _, options(nomem, nostack)
            );
        }
    }

    /// One instruction, and two that are executed ten times.
    #[inline(always)]
    pub(crate) fn ten_turns() {
        // SAFETY: changes one register only.
        unsafe {
            asm!("mov ecx, 10", "2:", "dec ecx", "jnz 2b", out("ecx") _, options(nomem, nostack));
        };
    }
}
