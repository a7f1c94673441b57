//! Finds the caller of code without unwind tables by following the code to its return.
//!
//! From the place where a function waits, all paths are followed until each returns. Their effects
//! on the stack pointer and on callee-saved registers are recorded. A program that takes one of
//! these paths finds its return address there, so the result is no guess. A call may never return:
//! a path through a call is followed only if the called function is seen to return. Jumps to
//! computed addresses are not followed. If no such path returns, paths through calls of function
//! pointers are followed too, because no compiler can know that such a call never returns. If still
//! no path returns, or two paths disagree, the caller is unknown.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};

use super::arch::code::{self, Instruction, LONGEST, Scratch, State};
use super::arch::registers::{LINK, PRESERVED, return_address};
use super::arch::signals;
use super::module_file::Elf;
use super::sample::{GENERAL, Registers, SP};
use super::symbol_table::SymbolTable;
use super::unwind_cfi::Stack;

/// Most instructions that are followed from one place.
pub(super) const INSTRUCTIONS_MAX: usize = 600;
/// Ways that are kept, for each file.
const CACHE_MAX: usize = 8192;
/// The first function of a thread calls one of these when the thread's work is done.
const ENDS: [&str; 3] = ["exit", "pthread_exit", "__pthread_exit"];
/// Most instructions that are read for one place, including those of called functions.
const ALL_INSTRUCTIONS_MAX: usize = 4000;
/// Number of nested calls that are followed into called functions.
const CALLS_DEPTH: u8 = 2;

/// The destination of code from a place on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Back to the function's caller.
    Back(Box<Return>),
    /// Back to the code that a signal has interrupted.
    Signal,
    /// To the end of the thread or the program: there is no caller.
    End,
    /// The destination cannot be determined.
    Unknown,
}

/// The ways that were asked for in a file's code.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: HashMap<(u64, bool), Way>,
    /// Functions that never return.
    ends: Option<Vec<u64>>,
}

impl Ways {
    /// The way from an address in the file on. The function there waits for a call that it has made
    /// (`at` is the return address), or was interrupted.
    pub(super) fn way(&mut self, elf: &Elf, at: u64, is_interrupted: bool) -> &Way {
        let ends = self.ends.get_or_insert_with(|| ends_of(elf));
        if self.known.len() >= CACHE_MAX {
            self.known.clear();
        }
        self.known.entry((at, is_interrupted)).or_insert_with(|| {
            let code = |at| elf.code(at, LONGEST as u64);
            if is_interrupted {
                Way::from(at, &code, ends)
            } else {
                Way::behind_call(at, &code, ends)
            }
        })
    }
}

/// The functions of a C library that end threads and programs.
fn ends_of(elf: &Elf) -> Vec<u64> {
    let tables = [SymbolTable::full(elf), SymbolTable::exported(elf)];
    let functions = tables.iter().flatten().flat_map(SymbolTable::iter).map(|(_, symbol)| symbol);
    let is_end = |name: &[u8]| ENDS.iter().any(|end| end.as_bytes() == name);
    functions.filter(|symbol| is_end(symbol.name)).map(|symbol| symbol.start).collect()
}

/// The state when a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Return {
    /// Content of the return address; `Same`: in its register.
    pub(super) address: Content,
    /// The caller's stack pointer.
    pub(super) sp: Place,
    /// Contents of the callee-saved registers, in the order of `PRESERVED`.
    pub(super) preserved: [Content; PRESERVED.len()],
}

/// An address: a register's value at the beginning, plus an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: usize,
    pub(super) offset: i64,
}

/// Content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The register's value at the beginning.
    Same,
    /// The word that was in memory at the beginning.
    At(Place),
    Lost,
}

/// Control flow of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next instruction.
    Next,
    /// Into the kernel, and from there to the next instruction.
    SystemCall,
    /// Into the function at this address.
    Call(u64),
    /// Into a function of the program, by a pointer.
    PointerCall,
    Jump(u64),
    /// To the next instruction or to this address.
    Branch(u64),
    /// To the function's caller.
    Return,
    /// Nowhere: the program ends.
    Trap,
    /// The destination cannot be determined.
    Unknown,
}

impl Way {
    /// The way from `at` on; `code` gives bytes from an address on, and `ends` has the addresses of
    /// functions that never return.
    pub(super) fn from(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>, ends: &[u64]) -> Way {
        let within = |pointers_return, at| {
            let left = Cell::new(ALL_INSTRUCTIONS_MAX);
            Way::within(&Asked { code, ends, pointers_return, left: &left }, at, CALLS_DEPTH)
        };
        match within(false, at) {
            Way::Unknown => within(true, at),
            way => way,
        }
    }

    /// The way from a return address on. Behind a call that may never return there can be the code
    /// of another function. The first function of a thread calls the thread's work by a pointer;
    /// other functions may end the program too.
    pub(super) fn behind_call(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>, ends: &[u64]) -> Way {
        // The call before this address may be the last of another function.
        if signals::IS_MARKED && is_signal_return(at, code) {
            return Way::Signal;
        }
        let target = code::called_before(at, code);
        let is_of_other = |target| !matches!(Way::from(target, code, ends), Way::Back(_));
        match (Way::from(at, code, ends), target) {
            (_, Some(target)) if is_of_other(target) => Way::Unknown,
            (Way::End, Some(_)) => Way::Unknown,
            (way, _) => way,
        }
    }

    /// The way from `at` on, following called functions down to this depth.
    fn within(asked: &Asked<'_>, at: u64, depth: u8) -> Way {
        let Asked { code, left, .. } = asked;
        if is_signal_return(at, *code) {
            return Way::Signal;
        }
        let mut walk =
            Walk { asked, found: None, reached_end: false, stopped: false, agrees: true };
        let mut queue = VecDeque::from([(at, State::default())]);
        let mut seen = BTreeSet::new();
        let mut scratch = Scratch::new();
        while let Some((at, mut state)) = queue.pop_front() {
            if seen.len() >= INSTRUCTIONS_MAX || left.get() == 0 {
                return Way::Unknown;
            }
            left.set(left.get() - 1);
            if !seen.insert(at) {
                continue;
            }
            let bytes = code(at).unwrap_or_default();
            let instruction = code::decode(&bytes[..bytes.len().min(LONGEST)], at);
            let returns = |called: u64| {
                depth > 0 && matches!(Way::within(asked, called, depth - 1), Way::Back(_))
            };
            let next = walk.follow(&instruction, &mut state, &mut scratch, returns);
            queue.extend(next.into_iter().map(|next| (next, state.clone())));
        }
        match walk {
            Walk { agrees: false, .. } => Way::Unknown,
            Walk { found: Some(found), .. } => Way::Back(Box::new(found)),
            Walk { reached_end: true, stopped: false, .. } => Way::End,
            Walk { .. } => Way::Unknown,
        }
    }
}

/// Whether signal handlers return to this code.
fn is_signal_return(at: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>) -> bool {
    let begins = |bytes: Vec<u8>| signals::RETURNS.iter().any(|start| bytes.starts_with(start));
    code(at).is_some_and(begins)
}

/// The input and the rules of a walk.
struct Asked<'a> {
    code: &'a dyn Fn(u64) -> Option<Vec<u8>>,
    ends: &'a [u64],
    /// Whether calls of function pointers are assumed to return.
    pointers_return: bool,
    /// Instructions that may still be read.
    left: &'a Cell<usize>,
}

/// The findings on all paths.
struct Walk<'a> {
    asked: &'a Asked<'a>,
    found: Option<Return>,
    reached_end: bool,
    /// Whether a path could not be followed to its end.
    stopped: bool,
    agrees: bool,
}

impl Walk<'_> {
    /// The possible next instructions.
    fn follow(
        &mut self,
        instruction: &Instruction,
        state: &mut State,
        scratch: &mut Scratch,
        returns: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let next = code::next(instruction);
        match state.flow(instruction) {
            Flow::Call(target) | Flow::Jump(target) if self.asked.ends.contains(&target) => {
                self.reached_end = true;
                return Vec::new();
            }
            Flow::SystemCall if state.is_to_exit() => {
                self.reached_end = true;
                return Vec::new();
            }
            Flow::Call(target) if returns(target) => {
                state.called();
                return vec![next];
            }
            Flow::PointerCall if self.asked.pointers_return => {
                state.called();
                return vec![next];
            }
            Flow::Jump(target) => return vec![target],
            Flow::Branch(target) => return vec![next, target],
            Flow::Trap => return Vec::new(),
            Flow::Next | Flow::SystemCall => {}
            Flow::Return => {
                let found = state.returned(instruction);
                self.agrees &= found.is_some()
                    && self.found.as_ref().is_none_or(|known| found.as_ref() == Some(known));
                self.found = found;
                return Vec::new();
            }
            Flow::Call(_) | Flow::PointerCall | Flow::Unknown => {
                self.stopped = true;
                return Vec::new();
            }
        }
        if state.execute(instruction, scratch).is_none() {
            self.stopped = true;
            return Vec::new();
        }
        vec![next]
    }
}

impl Return {
    /// Whether the return address is in a register that `registers` does not know.
    pub(super) fn lacks(&self, registers: &Registers) -> bool {
        self.address == Content::Same
            && LINK.is_none_or(|number| registers.general[number].is_none())
    }

    /// The caller's registers; `None` if they are not in the copied stack.
    pub(super) fn caller(&self, registers: &Registers, stack: Stack<'_>) -> Option<Registers> {
        let value = |content, number: Option<usize>| match content {
            Content::Same => registers.general[number?],
            Content::At(place) => place.of(registers).and_then(|at| stack.word(at)),
            Content::Lost => None,
        };
        let ip = return_address(value(self.address, LINK)?);
        let mut caller = Registers { ip, general: [None; GENERAL] };
        for (number, content) in PRESERVED.iter().zip(self.preserved) {
            caller.general[*number] = value(content, Some(*number));
        }
        caller.general[SP] = Some(self.sp.of(registers)?);
        Some(caller)
    }
}

impl Place {
    fn of(self, registers: &Registers) -> Option<u64> {
        registers.general[self.base]?.checked_add_signed(self.offset)
    }
}
