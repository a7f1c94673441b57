//! The registers of a stopped tracee.

use std::io;

use crate::ptrace::call;

/// General registers of a stopped tracee: `x0` to `x30`, `sp`, `pc` and `pstate`.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    own: libc::user_regs_struct,
    is_64_bit: bool,
}

/// The instruction that enters the kernel: `svc #0`.
pub(crate) const SYSCALL: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];

/// Sets of registers, include/uapi/linux/elf.h (Linux 6.18).
const NT_PRSTATUS: usize = 1;
const NT_ARM_TLS: usize = 0x401;

impl Registers {
    /// All zero.
    pub fn zero() -> Self {
        // SAFETY: all-zero is a value of this plain struct of integers.
        Self { own: unsafe { std::mem::zeroed() }, is_64_bit: true }
    }

    /// True if the tracee executes 64-bit code.
    pub fn is_64_bit(&self) -> bool {
        self.is_64_bit
    }

    /// Address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.own.pc
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: u64) {
        self.own.pc = pc;
    }

    /// Sets general register `number`, from 0 on; 31 is no register.
    pub fn set_general(&mut self, number: usize, value: u64) {
        if let Some(register) = self.own.regs.get_mut(number) {
            *register = value;
        }
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.own.sp
    }

    /// The condition flags; no other bit of `pstate`.
    pub fn flags(&self) -> u64 {
        self.own.pstate & 0xf000_0000
    }

    /// Whether the next instruction is executed as a single step (`DBG_SPSR_SS` in arch/arm64/include/asm/debug-monitors.h,
    /// Linux 6.18).
    pub(crate) fn is_to_step(&self) -> bool {
        self.own.pstate & 1 << 21 != 0
    }

    /// Clears the record of the last branch's type (`PSR_BTYPE_MASK` in arch/arm64/include/uapi/asm/ptrace.h, Linux
    /// 6.18). Otherwise the next instruction would have to be a landing pad.
    pub fn forget_branch(&mut self) {
        self.own.pstate &= !0xc00;
    }

    /// Return value of the last system call.
    pub fn result(&self) -> u64 {
        self.own.regs[0]
    }

    /// Number of the system call that the tracee is in, if it is in one.
    pub fn call_number(&self) -> u64 {
        self.own.regs[8]
    }

    /// Number of the system call that the tracee enters with its next instruction, if that does.
    pub(crate) fn next_call_number(&self) -> u64 {
        self.own.regs[8]
    }

    /// Argument `index` of a system call, from 0 on. The first one is valid until the call has returned.
    pub fn argument(&self, index: usize) -> u64 {
        self.own.regs.get(index).copied().unwrap_or(0)
    }
}

/// Reads a register set to an address; gives the set's size in bytes.
fn get_set(pid: i32, set: usize, at: usize, size: usize) -> io::Result<usize> {
    // `struct iovec`, in which the kernel puts the size that it has written.
    let mut place = [at, size];
    call(libc::PTRACE_GETREGSET, pid, set, place.as_mut_ptr().expose_provenance())?;
    Ok(place[1])
}

/// Reads the registers of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn registers(pid: i32) -> io::Result<Registers> {
    let mut registers = Registers::zero();
    let own = &raw mut registers.own;
    let read = get_set(pid, NT_PRSTATUS, own.expose_provenance(), size_of_val(&registers.own))?;
    // A 32-bit program has a smaller set.
    registers.is_64_bit = read == size_of_val(&registers.own);
    Ok(registers)
}

/// Writes the registers of a stopped tracee.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn set_registers(pid: i32, registers: &Registers) -> io::Result<()> {
    let at = std::ptr::from_ref(&registers.own).expose_provenance();
    let place = [at, size_of_val(&registers.own)];
    let place = (&raw const place).expose_provenance();
    call(libc::PTRACE_SETREGSET, pid, NT_PRSTATUS, place).map(drop)
}

/// Address of the thread-local storage of a stopped tracee: `TPIDR_EL0`, or 0 if the program uses none.
///
/// # Errors
///
/// `ESRCH` when it has died meanwhile.
pub fn thread_pointer(pid: i32) -> io::Result<u64> {
    let mut pointer = 0_u64;
    get_set(pid, NT_ARM_TLS, (&raw mut pointer).expose_provenance(), size_of::<u64>())?;
    Ok(pointer)
}

/// Code of known length, for tests.
#[cfg(test)]
pub(crate) mod known {
    use std::arch::asm;

    /// Four instructions; the third enters the kernel.
    #[inline(always)]
    pub(crate) fn call() {
        // SAFETY: `getppid` takes and changes nothing; the registers are those that are named.
        unsafe {
            asm!("nop", "mov w8, #173", "svc #0", "nop",
                out("x8") _, out("x0") _, options(nomem, nostack));
        }
    }

    /// One instruction, and two that are executed ten times.
    #[inline(always)]
    pub(crate) fn ten_turns() {
        // SAFETY: changes one register and the flags only.
        unsafe {
            asm!("mov {0:w}, #10", "2:", "subs {0:w}, {0:w}, #1", "b.ne 2b", out(reg) _,
                options(nomem, nostack));
        };
    }
}
