//! Finds the `syscall` instructions of a file, and decides whether their calls can be counted.
//!
//! The rules need no knowledge of who jumps where. The displaced bytes are one instruction, so that nothing can
//! continue inside them, or they are several registers' moves in code that has never been executed. The instruction
//! reads no memory of the program's own, so it cannot fault. [`find`] looks at branches for another reason: code that
//! goes past the displaced instructions makes calls that would not be counted.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::{
    Code as Opcode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::counter;
use crate::elf::{self, Code, Function, PAGE, Unreadable};
use crate::flow::{Flow, Functions, add_called, uses};
use crate::site::{COMPARE, Calls, JUMP, Read, SYSCALL, Segment, Site};

/// `rt_sigreturn(2)` on x86-64.
const SYS_RT_SIGRETURN: u32 = 15;
/// `exit(2)`.
const SYS_EXIT: u32 = 60;
/// `exit_group(2)`, which the kernel tells a tracer of.
const SYS_EXIT_GROUP: u32 = 231;
/// `mmap(2)`.
pub(crate) const SYS_MMAP: u32 = 9;
/// `mprotect(2)`.
pub(crate) const SYS_MPROTECT: u32 = 10;
/// System calls that may bring new code, whose arguments stubs look at.
pub(crate) const LOOKED_AT: [u32; 2] = [SYS_MMAP, SYS_MPROTECT];
/// Size of a file, in bytes, from which on two threads take less time than one.
const LARGE: usize = 1 << 20;
/// `mov [rsp+8], r11`, the instruction before the `syscall` of `__syscall_cp_asm` (musl) and `__syscall_cancel_arch`
/// (glibc from 2.41 on).
const KEEPS_A_POINTER: [u8; 5] = [0x4c, 0x89, 0x5c, 0x24, 0x08];

/// The instructions to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those that make system calls.
    #[default]
    Calls,
    /// Those that read the CPU's counter, too.
    CallsAndCounters,
}

/// An instruction that cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its address, in the file's own numbers.
    pub at: u64,
    /// Whether it reads the counter.
    pub is_counter: bool,
    /// Why.
    pub why: Why,
}

/// Why an instruction cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// No function in the file's tables contains the bytes, or no section of code: they may be data.
    #[error("which may be data because no function of the file has them")]
    NoFunction,
    /// The function contains bytes that do not decode, or the instruction is not reached from its begin.
    #[error("which the code of their functions does not reach")]
    NotDecoded,
    /// Code branches to the `syscall`, or behind the instructions in front that would be displaced.
    #[error("to which code jumps")]
    JumpedTo,
    /// The function jumps to computed addresses, perhaps to this one.
    #[error("in functions that jump to computed addresses")]
    JumpsAnywhere,
    /// No instruction in front makes room for a jump.
    #[error("with no room for a jump in front")]
    NoRoom,
    /// The C library makes all calls that wait by this instruction, and cancels threads by its address.
    #[error("as calls that wait are not counted with this C library")]
    Waits,
    /// The displaced instructions are several, and the program may have executed the first of them.
    #[error("with room for a jump only before the program starts")]
    Running,
    /// The program has mapped the file while it ran.
    #[error("which the program loaded while it ran")]
    Late,
    /// There is no room for code near the file, or writing the code failed.
    #[error("with no room for code near them")]
    TooFar,
    /// The process's bytes differ from the file's.
    #[error("in code that was changed")]
    Changed,
    /// The return trampoline of signal handlers, which debuggers and unwinders recognise by its bytes.
    #[error("where handlers of signals return")]
    SignalReturn,
    /// A program without a dynamic linker has mapped the file. Such a program may translate the code or inspect it, as
    /// valgrind's tools do.
    #[error("which a program without a dynamic linker has mapped")]
    Foreign,
}

/// The system-call instructions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Executable segments.
    pub segments: Vec<Segment>,
    /// Where calls can be counted, in ascending order.
    pub sites: Vec<Site>,
    /// Instructions that cannot be counted, in ascending order.
    pub left: Vec<Left>,
    /// As in [`Code`].
    has_relro: bool,
    gives_mprotect: bool,
}

impl Found {
    /// Whether this file is a dynamic loader that makes data read-only, by an `mprotect` of its own, when it has mapped all
    /// libraries and before it runs their code, and calls it for nothing else until then. Programs call the `mprotect` of
    /// a loader that is the C library, too (musl's), so `program`, which the kernel has mapped, must have such data. The
    /// file is the program if there is no other.
    pub fn tells_of_libraries(&self, program: Option<&Self>) -> bool {
        let has_site = self.sites.iter().any(|site| site.is_of_loader);
        has_site && (!self.gives_mprotect || program.is_some_and(|program| program.has_relro))
    }
}

/// Finds the `syscall` instructions of an ELF file for x86-64, and those that read the counter if they are `wanted`.
///
/// # Errors
///
/// [`Unreadable`] for a damaged file, or one that is no ELF file for x86-64.
pub fn find(file: &[u8], wanted: Wanted) -> Result<Found, Unreadable> {
    let mut code = elf::read(file)?;
    let (mut syscalls, mut reads) = (Vec::new(), Vec::new());
    for segment in &code.segments {
        let bytes = segment.bytes(file, &segment.range()).unwrap_or_default();
        let places = memchr::memmem::find_iter(bytes, &[0x0f, 0x05]);
        syscalls.extend(places.map(|at| segment.address + at as u64));
        if wanted == Wanted::CallsAndCounters {
            reads.extend(counter::patterns(segment.address, bytes));
        }
    }
    // The segments need not be in order, and may overlap.
    for all in [&mut syscalls, &mut reads] {
        all.sort_unstable();
        all.dedup();
    }
    let all = [&syscalls[..], &reads].concat();
    add_called(file, &mut code, &syscalls);
    let functions = Functions::new(file, &code, &all);
    let mut finder = Finder { functions, code: &code, switches: HashSet::new() };
    std::thread::scope(|scope| {
        let beside = std::thread::Builder::new();
        let names = || Functions::new(file, &code, &all).names();
        let names = (file.len() > LARGE).then(|| beside.spawn_scoped(scope, names).ok()).flatten();
        finder.find_switches(&syscalls);
        finder.functions.know(names.and_then(|names| names.join().ok()));
    });
    let mut found = Found {
        segments: code.segments.clone(),
        has_relro: code.has_relro,
        gives_mprotect: code.gives_mprotect,
        ..Found::default()
    };
    let mut placed = Vec::new();
    for syscall in syscalls.iter().copied() {
        match finder.sites(syscall) {
            Ok(sites) => placed.extend(sites.into_iter().map(|site| (site, syscall))),
            Err(why) => found.left.push(Left { at: syscall, is_counter: false, why }),
        }
    }
    for read in reads.iter().copied() {
        match finder.counter(read) {
            Ok(site) => placed.extend(site.map(|site| (site, read))),
            Err(why) => found.left.push(Left { at: read, is_counter: true, why }),
        }
    }
    // Nothing may name an address behind the first of a site. Where a function is called, nothing names its code.
    let inner = |site: &Site, syscall: u64| match site.calls {
        Calls::Given(_) => site.window + 1..=site.window,
        Calls::Counter(_) => site.window + 1..=site.end() - 1,
        _ => site.window.min(syscall) + 1..=syscall.max(site.window),
    };
    let all = placed.iter().flat_map(|(site, syscall)| inner(site, *syscall));
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    let named = code.named(file, &all);
    placed.sort_by_key(|(site, syscall)| (site.window, *syscall));
    for (site, syscall) in placed {
        let before = found.sites.last();
        let is_free = before.is_none_or(|before| before.end() <= site.window || *before == site);
        if !is_free || inner(&site, syscall).any(|address| named.contains(&address)) {
            let is_counter = site.is_counter();
            found.left.push(Left { at: syscall, is_counter, why: Why::JumpedTo });
        } else {
            found.sites.push(site);
        }
    }
    found.sites.dedup();
    found.left.sort_unstable_by_key(|left| left.at);
    keep_apart(&mut found);
    Ok(found)
}

/// Leaves comparisons that overlap with the next site. Two `syscall`s of a function may have one site.
fn keep_apart(found: &mut Found) {
    let windows: Vec<u64> = found.sites.iter().map(|site| site.window).collect();
    for site in &mut found.sites {
        site.behind.take_if(|(at, _)| {
            let next = windows.partition_point(|window| *window + JUMP as u64 <= *at);
            windows.get(next).is_some_and(|window| *window < *at + COMPARE as u64)
        });
    }
}

struct Finder<'a> {
    functions: Functions<'a>,
    code: &'a Code,
    /// Functions that switch asynchronous cancellation on.
    switches: HashSet<u64>,
}

impl Finder<'_> {
    /// Finds what functions that begin with a comparison with zero call in front of their `syscall`s.
    fn find_switches(&mut self, syscalls: &[u64]) {
        for syscall in syscalls {
            let Some(function) = self.functions.with(*syscall).pop() else { continue };
            let flow = self.functions.flow(function);
            let compares = flow.instructions.first().is_some_and(compares_with_zero);
            let Some(index) = flow.index(*syscall).filter(|_| compares) else { continue };
            let switch = block(&flow, index).first().filter(|first| is_call(first));
            self.switches.extend(switch.map(Instruction::near_branch_target));
        }
    }

    /// The sites of a `syscall`; none if the bytes there are no instruction of their own, or end a thread.
    fn sites(&mut self, syscall: u64) -> Result<Vec<Site>, Why> {
        // Whichever instruction sets the number: debuggers and unwinders recognise these bytes.
        let start = syscall.saturating_sub(KEEPS_A_POINTER.len() as u64);
        let before = self.functions.bytes(&(start..syscall)).unwrap_or_default();
        if before.ends_with(&SYS_RT_SIGRETURN.to_le_bytes()) {
            return Err(Why::SignalReturn);
        }
        let around = self.functions.with(syscall);
        let function = *around.last().ok_or(Why::NoFunction)?;
        let flow = self.functions.flow(function);
        if flow.is_damaged {
            return Err(Why::NotDecoded);
        }
        if flow.is_inside(syscall) {
            return Ok(Vec::new());
        }
        if flow.jumps_anywhere {
            // Not all of its code is reached.
            let is_inside = self.functions.is_swept_over(function, syscall);
            return if is_inside { Ok(Vec::new()) } else { Err(Why::JumpsAnywhere) };
        }
        // Other functions with the same bytes must have the same instruction.
        let agrees = around.iter().all(|other| {
            let flow = self.functions.flow(*other);
            !flow.is_damaged && !flow.jumps_anywhere && flow.index(syscall).is_some()
        });
        let index = flow.index(syscall).filter(|_| agrees).ok_or(Why::NotDecoded)?;
        let block = block(&flow, index);
        if number(block) == Some(SYS_EXIT_GROUP) {
            return Ok(Vec::new());
        }
        let compares = flow.instructions.iter().any(compares_with_zero);
        let cancellable = if compares { self.cancellable(function, &flow, index) } else { None };
        let waits = if before == KEEPS_A_POINTER { Err(Why::Waits) } else { Ok(()) };
        let displaced = waits.and_then(|()| {
            cancellable.unwrap_or_else(|| self.displaced(function, &flow, index, block))
        });
        let sites = match displaced {
            Ok(site) => vec![site],
            Err(why) => self.given(function, &flow, index).ok_or(why)?,
        };
        let is_code = |range: Range<u64>| self.code.is_code(&range);
        let are_code = is_code(syscall..syscall + SYSCALL)
            && sites.iter().all(|site| is_code(site.window..site.end()));
        if are_code { Ok(sites) } else { Err(Why::NoFunction) }
    }

    /// The direct calls of a function, and jumps to it, that makes a system call of the number that it is given in
    /// `rsi` or `rdi`, as the functions of musl and newer versions of glibc in which threads wait and can be cancelled.
    /// All ways to it must be known.
    fn given(&mut self, function: Function, flow: &Flow, index: usize) -> Option<Vec<Site>> {
        let syscall = flow.instructions[index].ip();
        let way = flow.instructions.get(flow.index(function.start)?..index)?;
        let (mut flags, mut info) = (0, InstructionInfoFactory::new());
        // Where a thread is cancelled, a branch leaves this way for good.
        let is_straight = |one: &Instruction| {
            let is_next = one.flow_control() == FlowControl::Next
                || one.flow_control() == FlowControl::ConditionalBranch
                    && !(function.start..=syscall).contains(&one.near_branch_target());
            let is_known = one.rflags_read() & !flags == 0;
            flags |= one.rflags_modified();
            is_next && is_known && !flow.goes_to(one.next_ip())
        };
        let keeps_r11 = way.iter().find(|one| uses(&mut info, one, &[Register::R11], true));
        let keeps_r11 = keeps_r11.is_none_or(|first| {
            first.op0_register() == Register::R11
                && first.op1_register() != Register::R11
                && first.mnemonic() == Mnemonic::Mov
        });
        let register = match origin(way, Register::RAX)? {
            Register::RSI => 6,
            Register::RDI => 7,
            _ => return None,
        };
        let inside = function.start + 1..syscall + 1;
        let exported = self.code.exported.as_ref()?;
        let is_hidden =
            !exported.contains(&function.start) && self.functions.is_only_compared(function.start);
        if !way.iter().all(is_straight)
            || !keeps_r11
            || !is_hidden
            || self.functions.is_entered(&inside, Some(function))
        {
            return None;
        }
        let from = self.functions.branches_to(function.start).filter(|from| !from.is_empty())?;
        let site = |at: &u64| {
            let displaced = self.functions.bytes(&(*at..*at + JUMP as u64))?.to_vec();
            let is_whole = is_in_a_page(&(*at..*at + JUMP as u64));
            let calls = Calls::Given(register);
            is_whole.then_some(Site {
                window: *at,
                displaced,
                is_several: false,
                calls,
                behind: None,
                is_of_loader: false,
            })
        };
        from.iter().map(site).collect()
    }

    /// The site of a `syscall` in a function that compares a byte with zero, if threads may be cancelled there: its
    /// block begins with a call that switches asynchronous cancellation on, or the function has another such call.
    fn cancellable(
        &mut self,
        function: Function,
        flow: &Flow,
        index: usize,
    ) -> Option<Result<Site, Why>> {
        let block = block(flow, index);
        let number = number(block).filter(|number| !LOOKED_AT.contains(number));
        let both = self.plainly_or_waiting(function, flow);
        if both.is_some_and(|both| both.contains(&index)) {
            return Some(self.site_of(&flow.instructions[..1], Calls::Cancellable(number?), None));
        }
        let (switch, rest) = block.split_first().filter(|(first, _)| {
            is_call(first) && self.switches.contains(&first.near_branch_target())
        })?;
        let number = number.filter(|_| keeps_r11(rest) && switch.len() == JUMP);
        Some(number.ok_or(Why::NoRoom).and_then(|number| {
            self.is_only_way(function, switch.ip()..flow.instructions[index].ip())?;
            self.site_of(&block[..1], Calls::Cancellable(number), None)
        }))
    }

    /// The site of the `syscall` with this index in its function, behind this block of instructions.
    fn displaced(
        &mut self,
        function: Function,
        flow: &Flow,
        index: usize,
        block: &[Instruction],
    ) -> Result<Site, Why> {
        let syscall = flow.instructions[index].ip();
        let block = &block[usize::from(block.first().is_some_and(is_call))..];
        let number = number(block);
        let behind = flow.instructions.get(index + 1).filter(|one| {
            let at = one.ip();
            one.code() == Opcode::Cmp_RAX_imm32
                && at == syscall + SYSCALL
                && is_in_a_page(&(at..at + COMPARE as u64))
                && !self.functions.is_entered(&(at..at + 1), None)
        });
        let calls = number.map_or(Calls::OfRax, Calls::Of);
        let may_be_several = !self.code.may_restart && !self.code.landing.contains(&function.start);
        let range = room(block, number).filter(|range| range.len() == 1 || may_be_several);
        let Some(range) = range else {
            return match (behind, number) {
                // `xor eax, eax` and the call, as in `__read_nocancel` of glibc: counted when it returns.
                (Some(behind), Some(0)) => {
                    let first = block.first().map_or(syscall, Instruction::ip);
                    self.is_only_way(function, first..syscall)?;
                    self.site_of(std::slice::from_ref(behind), calls, None)
                }
                _ if block.is_empty() && flow.goes_to(syscall) => Err(Why::JumpedTo),
                _ => Err(Why::NoRoom),
            };
        };
        self.is_only_way(function, block[range.start].ip()..syscall)?;
        let compare = behind.and_then(|one| {
            let bytes = self.functions.bytes(&(one.ip()..one.next_ip()))?;
            Some((one.ip(), *bytes.first_chunk()?))
        });
        self.site_of(&block[range], calls, compare)
    }

    /// The site of a read of the counter; `None` if the bytes there are no instruction of their own. It is as few
    /// instructions around the read as make room for a jump. Code whose functions are not known or cannot be followed may
    /// be data with these bytes, which are met by chance unless instructions behind them join the counter's halves.
    fn counter(&mut self, read: u64) -> Result<Option<Site>, Why> {
        let around = self.functions.with(read);
        let Some(function) = around.last().copied() else {
            let code = self.functions.bytes(&counter::joined_at(read));
            let is_read = code.is_some_and(counter::joins);
            return if is_read { Err(Why::NoFunction) } else { Ok(None) };
        };
        let flow = self.functions.flow(function);
        if flow.jumps_anywhere && !flow.is_damaged {
            // Not all of its code is reached.
            let is_inside = flow.is_inside(read) || self.functions.is_swept_over(function, read);
            return if is_inside { Ok(None) } else { Err(Why::JumpsAnywhere) };
        }
        let Some(index) = flow.index(read).filter(|_| !flow.is_damaged) else { return Ok(None) };
        let agrees = around.iter().all(|other| {
            let flow = self.functions.flow(*other);
            !flow.is_damaged && flow.index(read).is_some()
        });
        if !agrees {
            return Ok(None);
        }
        // Where code may restart or land is not among the branches.
        if self.code.may_restart || self.code.landing.contains(&function.start) {
            return Err(Why::NoRoom);
        }
        let all = &flow.instructions;
        let most = JUMP - usize::from(all[index].len() > 2);
        let ranges = (2..=most).flat_map(|count| {
            let ends = (index + 1..=index + count).rev();
            ends.filter_map(move |end| Some(end.checked_sub(count)?..end))
        });
        let mut refused = Why::NoRoom;
        for range in ranges.filter(|range| range.end <= all.len()) {
            let window = &all[range];
            if !is_straight(window) || !can_read_again(window) {
                continue;
            }
            match self.counter_site(function, &flow, window, read) {
                Ok(site) => return Ok(Some(site)),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    fn counter_site(
        &mut self,
        function: Function,
        flow: &Flow,
        window: &[Instruction],
        read: u64,
    ) -> Result<Site, Why> {
        let [first, last] = [window[0].ip(), window[window.len() - 1].ip()];
        if last + window[window.len() - 1].len() as u64 - first < JUMP as u64 {
            return Err(Why::NoRoom);
        }
        if window[1..].iter().any(|one| flow.goes_to(one.ip())) {
            return Err(Why::JumpedTo);
        }
        self.is_only_way(function, first..last)?;
        let at = u8::try_from(read - first).map_err(|_| Why::NoRoom)?;
        let is_ordered = window.iter().any(|one| one.mnemonic() == Mnemonic::Rdtscp);
        let site = self.site_of(window, Calls::Counter(Read::new(at, is_ordered)), None)?;
        if self.code.is_code(&(first..site.end())) { Ok(site) } else { Err(Why::NoFunction) }
    }

    /// An error if code goes to another instruction of a range than the first, or to the one behind it. What the function
    /// itself does is known from the block.
    fn is_only_way(&mut self, function: Function, range: Range<u64>) -> Result<(), Why> {
        let inside = range.start + 1..range.end + 1;
        if self.functions.is_entered(&inside, Some(function)) { Err(Why::JumpedTo) } else { Ok(()) }
    }

    fn site_of(
        &self,
        displaced: &[Instruction],
        calls: Calls,
        behind: Option<(u64, [u8; COMPARE])>,
    ) -> Result<Site, Why> {
        let (window, is_several) = (displaced[0].ip(), displaced.len() > 1);
        let range = window..displaced[displaced.len() - 1].next_ip();
        let bytes = self.functions.bytes(&range).filter(|_| is_in_a_page(&range));
        let displaced = bytes.ok_or(Why::NoRoom)?.to_vec();
        let is_of_loader = self.code.loads && calls == Calls::Of(SYS_MPROTECT);
        Ok(Site { window, displaced, is_several, calls, behind, is_of_loader })
    }

    /// The two `syscall`s of a function that begins with comparing `__libc_single_threaded` with zero, as those of
    /// glibc in which threads can be cancelled, and makes a call either plainly, or between two calls that switch
    /// asynchronous cancellation on and off. From its begin each way leads to exactly one of the two, which have the
    /// same number. Only if the plain one has no room for a jump of its own.
    fn plainly_or_waiting(&mut self, function: Function, flow: &Flow) -> Option<[usize; 2]> {
        let all = &flow.instructions;
        let branch = all.iter().position(|one| one.flow_control() != FlowControl::Next)?;
        let [first, end] = [all.first()?, &all[branch]];
        let is_one = first.ip() == function.start
            && compares_with_zero(first)
            && end.flow_control() == FlowControl::ConditionalBranch
            && !all[1..=branch].iter().any(|one| flow.goes_to(one.ip()))
            && !flow.goes_to(end.next_ip())
            && flow.times_gone_to(end.near_branch_target()) == 1;
        if !is_one {
            return None;
        }
        let [(plain, way), (waiting, other_way)] =
            [straight(flow, end.next_ip())?, straight(flow, end.near_branch_target())?];
        let [number, other] = [plain, waiting].map(|index| number(block(flow, index)));
        let last = all[plain.max(waiting)].ip();
        let is_it = number.is_some_and(|number| !LOOKED_AT.contains(&number))
            && number == other
            && [&all[..branch], way, other_way].into_iter().all(keeps_r11)
            && room(block(flow, plain), number).is_none_or(|room| room.len() > 1)
            && !self.functions.is_entered(&(first.ip() + 1..last + 1), Some(function));
        is_it.then_some([plain, waiting])
    }
}

/// Index of the first `syscall` that is reached from an instruction without a branch, and the instructions in front of
/// it, if no branch leads in between.
fn straight(flow: &Flow, from: u64) -> Option<(usize, &[Instruction])> {
    let first = flow.index(from)?;
    let mut at = from;
    for (index, one) in flow.instructions.iter().enumerate().skip(first) {
        if one.ip() != at || at != from && flow.goes_to(at) {
            return None;
        }
        if one.code() == Opcode::Syscall {
            return Some((index, &flow.instructions[first..index]));
        }
        if one.flow_control() != FlowControl::Next && !is_call(one) {
            return None;
        }
        at = one.next_ip();
    }
    None
}

/// The instructions in front of the one with this index that are executed one after the other, from a call on if there
/// is one. The function may branch to the first. An `exit` does not return, so that the endless loop of C libraries
/// around it leads nowhere.
fn block(flow: &Flow, index: usize) -> &[Instruction] {
    let all = &flow.instructions;
    let of = |but: Option<u64>| {
        let mut first = index;
        while let Some(before) = first.checked_sub(1)
            && all[before].next_ip() == all[first].ip()
            && (!flow.goes_to(all[first].ip()) || but == Some(all[first].ip()))
            && (all[before].flow_control() == FlowControl::Next || is_call(&all[before]))
        {
            first = before;
            if is_call(&all[before]) {
                break;
            }
        }
        &all[first..index]
    };
    let next = all.get(index + 1).filter(|next| {
        next.flow_control() == FlowControl::UnconditionalBranch
            && flow.times_gone_to(next.near_branch_target()) == 1
    });
    let without_loop = next.map(|next| of(Some(next.near_branch_target())));
    without_loop.filter(|block| number(block) == Some(SYS_EXIT)).unwrap_or_else(|| of(None))
}

/// The instructions of a block to displace, those nearest to its end: one, or else several. The stub, which changes
/// `rcx` and `r11`, runs behind them. If the number is not known, or the stub looks at the arguments, they must have
/// their values there.
fn room(block: &[Instruction], number: Option<u32>) -> Option<Range<usize>> {
    let mut info = InstructionInfoFactory::new();
    let looks = number.is_none_or(|number| LOOKED_AT.contains(&number));
    let mut is_harmless = |one: &Instruction| {
        let arguments = [Register::RAX, Register::RDI, Register::RDX, Register::R10];
        let is_in_the_way = uses(&mut info, one, &[Register::RCX, Register::R11], true)
            || looks && uses(&mut info, one, &arguments, false);
        !is_in_the_way
    };
    let behind = block.iter().rev().take_while(|one| is_harmless(one)).count();
    let ends = || (block.len() - behind..=block.len()).rev();
    let begin = |end: usize, most: usize| {
        let fits = |first: &usize| {
            let range = block[*first].ip()..block[end - 1].next_ip();
            range.end - range.start >= JUMP as u64
        };
        let begins = (end.saturating_sub(most)..end).rev();
        let mut begins = begins.take_while(|first| is_movable(&block[*first]));
        let range = begins.find(fits).map(|first| first..end);
        range.filter(|range| range.len() == 1 || can_be_repeated(&block[range.clone()]))
    };
    let argument = || {
        ends().find(|end| *end > 0 && takes_an_argument(&block[end - 1])).map(|end| end - 1..end)
    };
    let one = ends().find_map(|end| begin(end, 1)).or_else(argument);
    one.or_else(|| ends().find_map(|end| begin(end, JUMP)))
}

/// Whether this takes an argument from the stack of the function's caller, as Go's `syscall.rawSyscallNoError` does.
fn takes_an_argument(one: &Instruction) -> bool {
    one.code() == Opcode::Mov_r64_rm64
        && one.memory_base() == Register::RSP
        && one.memory_index() == Register::None
        && one.memory_displacement64().cast_signed() > 0
        && one.len() >= JUMP
}

/// Whether an instruction moves constants and general registers only, and has the same effect when it is repeated.
fn is_movable(one: &Instruction) -> bool {
    let is_plain = match one.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movzx | Mnemonic::Nop => true,
        Mnemonic::Xor => one.op0_register() == one.op1_register(),
        Mnemonic::Or | Mnemonic::And => one.op1_kind() != OpKind::Register,
        _ => false,
    };
    is_plain
        && (0..one.op_count()).all(|operand| match one.op_kind(operand) {
            OpKind::Register => {
                let register = one.op_register(operand);
                register.is_gpr() && register.full_register() != Register::RSP
            }
            OpKind::Memory => false,
            _ => true,
        })
}

/// Whether several instructions have the same effect when they are executed again from the first on, wherever a thread
/// has stopped among them: none reads what one of them writes.
fn can_be_repeated(all: &[Instruction]) -> bool {
    let mut info = InstructionInfoFactory::new();
    let mut of = |one: &Instruction, kinds: &[OpAccess]| -> Vec<Register> {
        let used = info.info(one).used_registers().iter();
        used.filter(|it| kinds.contains(&it.access()))
            .map(|it| it.register().full_register())
            .collect()
    };
    let writes =
        [OpAccess::Write, OpAccess::CondWrite, OpAccess::ReadWrite, OpAccess::ReadCondWrite];
    let written: Vec<Register> = all.iter().flat_map(|one| of(one, &writes)).collect();
    let reads = [OpAccess::Read, OpAccess::CondRead, OpAccess::ReadWrite, OpAccess::ReadCondWrite];
    all.iter().all(|one| of(one, &reads).iter().all(|read| !written.contains(read)))
}

/// Whether these instructions are executed one after the other.
fn is_straight(all: &[Instruction]) -> bool {
    all.windows(2).all(|two| two[0].next_ip() == two[1].ip())
}

/// Whether instructions, one of which reads the counter, have the same effect but for the time when they are executed
/// again from the first on, wherever a thread has stopped among them, and whatever is in the registers that the read
/// changes: what one of them reads was written before by another, or is written by none, or only by this `or` or `and`
/// with something that is written by none. None reads flags, or memory, which may fault.
fn can_read_again(all: &[Instruction]) -> bool {
    let is_read = |one: &Instruction| matches!(one.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp);
    let is_fence =
        |one: &Instruction| matches!(one.mnemonic(), Mnemonic::Lfence | Mnemonic::Mfence);
    let is_sum = |one: &Instruction| {
        let registers = (0..one.op_count()).all(|operand| match one.op_kind(operand) {
            OpKind::Register => {
                let register = one.op_register(operand);
                matches!(register.size(), 4 | 8)
                    && register.is_gpr()
                    && register.full_register() != Register::RSP
            }
            OpKind::Memory => false,
            _ => true,
        });
        registers
            && matches!(
                one.mnemonic(),
                Mnemonic::Mov
                    | Mnemonic::Shl
                    | Mnemonic::Or
                    | Mnemonic::And
                    | Mnemonic::Add
                    | Mnemonic::Xor
            )
    };
    let mut info = InstructionInfoFactory::new();
    let mut of = |one: &Instruction, is_wanted: fn(OpAccess) -> bool| -> Vec<Register> {
        let used = info.info(one).used_registers().iter();
        used.filter(|it| is_wanted(it.access())).map(|it| it.register().full_register()).collect()
    };
    let reads =
        |access| !matches!(access, OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess);
    let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
    let written: Vec<Register> = all.iter().flat_map(|one| of(one, writes)).collect();
    let mut fresh = Vec::new();
    let repeats = all.iter().all(|one| {
        let times = |register| written.iter().filter(|it| **it == register).count();
        let [to, with] = [0, 1].map(|operand| one.op_register(operand).full_register());
        let is_mask = matches!(one.mnemonic(), Mnemonic::Or | Mnemonic::And);
        let is_same = |it| is_mask && it == to && times(to) == 1 && times(with) == 0;
        let known =
            of(one, reads).iter().all(|it| fresh.contains(it) || times(*it) == 0 || is_same(*it));
        fresh.extend(of(one, writes));
        known && one.rflags_read() == 0 && (is_read(one) || is_fence(one) || is_sum(one))
    });
    repeats && all.iter().filter(|one| is_read(one)).count() == 1
}

fn is_in_a_page(range: &Range<u64>) -> bool {
    range.start / PAGE == (range.end - 1) / PAGE
}

/// Whether this is a direct call of a function.
fn is_call(one: &Instruction) -> bool {
    one.code() == Opcode::Call_rel32_64
}

/// Whether this compares a byte of the file's memory with zero: `cmpb $0, distance(%rip)`.
fn compares_with_zero(one: &Instruction) -> bool {
    one.code() == Opcode::Cmp_rm8_imm8
        && one.is_ip_rel_memory_operand()
        && one.immediate8() == 0
        && one.len() == 7
}

/// Whether no instruction uses `r11`.
fn keeps_r11(all: &[Instruction]) -> bool {
    let mut info = InstructionInfoFactory::new();
    !all.iter().any(|one| uses(&mut info, one, &[Register::R11], true))
}

/// The register that has the value of another behind a block, in front of the block.
fn origin(block: &[Instruction], register: Register) -> Option<Register> {
    let mut info = InstructionInfoFactory::new();
    let sets = |one: &Instruction| is_call(one) || uses(&mut info, one, &[register], false);
    let Some(last) = block.iter().rposition(sets) else { return Some(register) };
    let set = &block[last];
    let is_moved = set.mnemonic() == Mnemonic::Mov
        && set.op0_register() == register
        && set.op1_register().is_gpr64();
    is_moved.then(|| origin(&block[..last], set.op1_register()))?
}

/// The number in `rax` behind a block, if it is a constant.
fn number(block: &[Instruction]) -> Option<u32> {
    constant(block, Register::RAX)
}

/// The constant in a register behind a block.
fn constant(block: &[Instruction], register: Register) -> Option<u32> {
    let mut info = InstructionInfoFactory::new();
    let sets = |one: &Instruction| is_call(one) || uses(&mut info, one, &[register], false);
    let last = block.iter().rposition(sets)?;
    let set = Some(&block[last]).filter(|set| set.op0_register().full_register() == register)?;
    let is_wide = matches!(set.op0_register().size(), 4 | 8);
    match (set.mnemonic(), set.op1_kind()) {
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64)
            if is_wide =>
        {
            u32::try_from(set.immediate(1)).ok()
        }
        (Mnemonic::Mov, OpKind::Register) if is_wide => {
            constant(&block[..last], set.op1_register().full_register())
        }
        (Mnemonic::Xor, OpKind::Register) if is_wide => {
            (set.op1_register() == set.op0_register()).then_some(0)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
