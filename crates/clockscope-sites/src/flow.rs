//! Follows the code of functions from their begins, and finds out which branches lead where.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, Register,
};

use crate::elf::{Code, Function};
use crate::site::JUMP;

/// Reach of a short branch, in bytes.
const SHORT: u64 = 128;

/// The instructions that are reached from a function's begin, by direct branches and behind calls.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// In ascending order.
    pub(crate) instructions: Vec<Instruction>,
    /// Targets of direct branches and calls, in ascending order.
    targets: Vec<u64>,
    /// Whether an instruction jumps to a computed address.
    pub(crate) jumps_anywhere: bool,
    /// Whether bytes do not decode, or two instructions overlap.
    pub(crate) is_damaged: bool,
}

impl Flow {
    /// Follows a function, whose bytes are given up to its limit.
    fn of(bytes: &[u8], function: Function) -> Self {
        let Function { start, end, limit } = function;
        let mut flow = Self::default();
        let offset = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        let mut found = vec![false; bytes.len()];
        let mut open = vec![start];
        while let Some(mut at) = open.pop() {
            let mut is_behind_call = false;
            // Behind the end nothing follows a call: the called function does not return.
            while (start..if is_behind_call { end } else { limit }).contains(&at)
                && found.get(offset(at)) != Some(&true)
            {
                let rest = bytes.get(offset(at)..).unwrap_or_default();
                let one = Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode();
                if one.is_invalid() {
                    flow.is_damaged = true;
                    break;
                }
                found[offset(at)] = true;
                flow.instructions.push(one);
                let branches = one.near_branch_target() != 0
                    && !matches!(one.flow_control(), FlowControl::Next | FlowControl::Interrupt);
                if branches {
                    flow.targets.push(one.near_branch_target());
                    open.push(one.near_branch_target());
                }
                flow.jumps_anywhere |= one.flow_control() == FlowControl::IndirectBranch;
                let ends = matches!(
                    one.flow_control(),
                    FlowControl::UnconditionalBranch
                        | FlowControl::IndirectBranch
                        | FlowControl::Return
                        | FlowControl::Exception
                ) || one.code() == Opcode::Int3;
                if ends {
                    break;
                }
                let calls =
                    matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
                is_behind_call = calls && one.code() != Opcode::Syscall;
                at = one.next_ip();
            }
        }
        flow.instructions.sort_unstable_by_key(Instruction::ip);
        flow.is_damaged |= flow.instructions.windows(2).any(|two| two[0].next_ip() > two[1].ip());
        flow.targets.sort_unstable();
        flow
    }

    /// Index of the instruction at an address.
    pub(crate) fn index(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Whether an address lies inside an instruction, behind its first byte.
    pub(crate) fn is_inside(&self, address: u64) -> bool {
        let before = self.instructions.partition_point(|one| one.ip() < address);
        self.instructions[..before].last().is_some_and(|one| one.next_ip() > address)
    }

    /// Whether a branch of the function itself goes to this address.
    pub(crate) fn goes_to(&self, address: u64) -> bool {
        self.times_gone_to(address) > 0
    }

    /// How many branches of the function go to this address.
    pub(crate) fn times_gone_to(&self, address: u64) -> usize {
        let behind = self.targets.partition_point(|target| *target <= address);
        behind - self.targets.partition_point(|target| *target < address)
    }
}

/// Follows functions on demand and keeps the result.
pub(crate) struct Functions<'a> {
    file: &'a [u8],
    code: &'a Code,
    /// The `syscall` instructions in question.
    syscalls: &'a [u64],
    near: OnceCell<Vec<u64>>,
    followed: HashMap<Function, Rc<Flow>>,
}

impl<'a> Functions<'a> {
    pub(crate) fn new(file: &'a [u8], code: &'a Code, syscalls: &'a [u64]) -> Self {
        Self { file, code, syscalls, near: OnceCell::new(), followed: HashMap::new() }
    }

    /// Takes these [`Self::names`], if they have been found beside.
    pub(crate) fn know(&mut self, names: Option<Vec<u64>>) {
        self.near = names.map_or_else(OnceCell::new, OnceCell::from);
    }

    /// Addresses in functions with `syscall` instructions to which what may be near branches anywhere in the file lead, or
    /// that instructions may load.
    pub(crate) fn names(&self) -> Vec<u64> {
        let mut named = Vec::new();
        let mut wanted: Vec<Function> =
            self.syscalls.iter().flat_map(|syscall| self.with(*syscall)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        // How far the functions up to each one go.
        let reach: Vec<u64> = wanted
            .iter()
            .scan(0, |most, function| {
                *most = function.limit.max(*most);
                Some(*most)
            })
            .collect();
        let all = wanted.first().map_or(0, |first| first.start)..reach.last().copied().unwrap_or(0);
        for segment in &self.code.segments {
            let bytes = segment.bytes(self.file, &segment.range()).unwrap_or_default();
            let targets = near_branches(segment.address, bytes).map(|(_, to)| to);
            let loaded = loaded(segment.address, bytes);
            let held = immediates(if self.code.is_fixed { bytes } else { &[] }).enumerate();
            let held = held.filter(|(at, address)| all.contains(address) && is_held(&bytes[..*at]));
            let held = held.map(|(_, address)| address);
            named.extend(targets.chain(loaded).chain(held).filter(|to| {
                let behind = wanted.partition_point(|function| function.start <= *to);
                reach[..behind].last().is_some_and(|limit| to < limit)
            }));
        }
        named.sort_unstable();
        named
    }

    /// The bytes of an address range, within one segment.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let mut segments = self.code.segments.iter();
        segments.find(|segment| segment.range().contains(&range.start))?.bytes(self.file, range)
    }

    /// The functions that contain this address.
    pub(crate) fn with(&self, address: u64) -> Vec<Function> {
        self.near(&(address..address.saturating_add(1)))
    }

    /// Whether this address is between the begin and the end of a function, and reached, if the function's end is not
    /// known because it is among the `found` ones.
    fn hold(&mut self, address: u64, found: &BTreeSet<u64>) -> bool {
        let around = self.with(address);
        let mut around = around.into_iter().filter(|function| address < function.end);
        around.any(|function| {
            !found.contains(&function.start) || self.flow(function).index(address).is_some()
        })
    }

    /// Whether a function begins at this address.
    fn is_begun(&self, address: u64) -> bool {
        self.code.functions.binary_search_by_key(&address, |function| function.start).is_ok()
    }

    /// The functions that overlap with this range.
    fn near(&self, range: &Range<u64>) -> Vec<Function> {
        let functions = &self.code.functions;
        let behind = functions.partition_point(|function| function.start < range.end);
        let of = &functions[behind.saturating_sub(NESTED)..behind];
        of.iter().filter(|function| function.limit > range.start).copied().collect()
    }

    /// The code of a function.
    pub(crate) fn flow(&mut self, function: Function) -> Rc<Flow> {
        let bytes = self.bytes(&(function.start..function.limit)).unwrap_or_default();
        let known = self.followed.entry(function);
        Rc::clone(known.or_insert_with(|| Rc::new(Flow::of(bytes, function))))
    }

    /// Whether an address lies inside an instruction, if a function's instructions stand one behind the other from its
    /// begin, among them all that are reached.
    pub(crate) fn is_swept_over(&mut self, function: Function, address: u64) -> bool {
        let bytes = self.bytes(&(function.start..function.limit)).unwrap_or_default();
        let flow = self.flow(function);
        let decoder = Decoder::with_ip(64, bytes, function.start, DecoderOptions::NONE);
        let swept = decoder.into_iter().take_while(|one| !one.is_invalid() && one.ip() < address);
        let swept: Vec<u64> = swept.map(|one| one.next_ip()).collect();
        let has = |at: u64| at == function.start || swept.binary_search(&at).is_ok();
        let reached = flow.instructions.iter().map(Instruction::ip).take_while(|at| *at < address);
        swept.last().is_some_and(|end| *end > address) && reached.into_iter().all(has)
    }

    /// Whether this is an instruction of all functions that contain it, and of at least one.
    pub(crate) fn is_instruction(&mut self, address: u64) -> bool {
        let around = self.with(address);
        let has = |flow: &Flow| !flow.is_damaged && flow.index(address).is_some();
        !around.is_empty() && around.iter().all(|function| has(&self.flow(*function)))
    }

    /// The places in code that may be the distance to an address: each one's end, with the bytes around it.
    fn distances_to(&self, target: u64) -> Vec<(u64, &'a [u8], &'a [u8])> {
        let mut found = Vec::new();
        for segment in &self.code.segments {
            let bytes = segment.bytes(self.file, &segment.range()).unwrap_or_default();
            for (at, distance) in bytes.windows(4).enumerate() {
                let end = segment.address + at as u64 + 4;
                let distance = distance.first_chunk().map_or(0, |it| i32::from_le_bytes(*it));
                if end.wrapping_add_signed(distance.into()) == target {
                    let (before, behind) = (&bytes[at.saturating_sub(3)..at], &bytes[at + 4..]);
                    found.push((end, before, behind));
                }
            }
        }
        found
    }

    /// The near calls and jumps to an address; `None` if it is used in another way, so that not all calls are known. A
    /// handler of signals may compare an instruction pointer with it.
    pub(crate) fn branches_to(&mut self, target: u64) -> Option<Vec<u64>> {
        let mut from = Vec::new();
        for (end, before, behind) in self.distances_to(target) {
            match (before, behind) {
                ([.., 0xe8 | 0xe9], _) => from.push(end - JUMP as u64),
                ([0x48 | 0x4c, 0x8d, _], _) if is_compared(before, behind) => {}
                _ => return None,
            }
        }
        from.iter().all(|from| self.is_instruction(*from)).then_some(from)
    }

    /// Whether data hold an address only in the file's table of addresses, and code only compares with it there
    /// (`cmp r64, [rip+distance]`).
    pub(crate) fn is_only_compared(&self, target: u64) -> bool {
        let is_compared = |entry: u64| {
            let distances = self.distances_to(entry);
            self.code.addresses.contains(&entry)
                && !distances.is_empty()
                && distances.iter().all(|(_, before, _)| matches!(before, [0x48 | 0x4c, 0x3b, _]))
        };
        let mut words = self.code.words(self.file).filter(|(_, address)| *address == target);
        words.all(|(at, _)| is_compared(self.code.relocated(self.file, at).unwrap_or(at)))
            && !(self.code.is_fixed && self.is_immediate(target))
    }

    /// Whether four bytes of code are this address, but for comparisons (`cmp r64, address`).
    fn is_immediate(&self, target: u64) -> bool {
        self.code.segments.iter().any(|segment| {
            let bytes = segment.bytes(self.file, &segment.range()).unwrap_or_default();
            immediates(bytes).enumerate().any(|(at, address)| {
                let before = &bytes[at.saturating_sub(3)..at];
                address == target
                    && !matches!(before, [0x48 | 0x49, 0x81, 0xf8..=0xff] | [_, 0x48, 0x3d])
            })
        })
    }

    /// Whether code may branch to one of these addresses, or something names one. All true near branches are among the
    /// bytes that look like one. Short branches are those of the functions nearby, and whatever looks like one in bytes
    /// that none of them reaches. Short branches of the function `but` do not count.
    pub(crate) fn is_entered(&mut self, inside: &Range<u64>, but: Option<Function>) -> bool {
        let near = self.near.get_or_init(|| self.names());
        if hits(near, inside) || hits(&self.code.labels, inside) {
            return true;
        }
        let around = inside.start.saturating_sub(SHORT + 2)..inside.end.saturating_add(SHORT);
        let mut known = Vec::new();
        for function in self.near(&around) {
            let flow = self.flow(function);
            if but != Some(function) && hits(&flow.targets, inside) {
                return true;
            }
            known.extend(flow.instructions.iter().map(|one| one.ip()..one.next_ip()));
        }
        known.sort_unstable_by_key(|range| range.start);
        let bytes = self.bytes(&around).unwrap_or_default();
        let is_known = |at: u64| {
            let behind = known.partition_point(|range| range.start <= at);
            known[..behind].last().is_some_and(|range| range.contains(&at))
        };
        (around.start..).zip(bytes.windows(2)).any(|(at, pair)| {
            let to = (at + 2).wrapping_add_signed(pair[1].cast_signed().into());
            let leads_inside = inside.contains(&to);
            leads_inside && matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb) && !is_known(at)
        })
    }
}

/// Longest code, in bytes, in front of a `syscall` of a function without a name.
const FAR: u64 = 1024;
/// Known code calls a function without a name by at most this many others.
const CHAIN: usize = 6;

/// Adds functions without a name, which contain one of these addresses: known functions call them, or jump to them.
pub(crate) fn add_called(file: &[u8], code: &mut Code, addresses: &[u64]) {
    let named = code.functions.clone();
    let mut found = BTreeSet::new();
    let mut lost: Vec<u64> = addresses.to_vec();
    lost.retain(|address| code.is_code(&(*address..*address + 1)));
    for _ in 0..CHAIN {
        let mut functions = Functions::new(file, code, &[]);
        lost.retain(|address| !functions.hold(*address, &found));
        lost.sort_unstable();
        lost.dedup();
        let (known, mut unknown) = (found.len(), Vec::new());
        for segment in code.segments.iter().filter(|_| !lost.is_empty()) {
            let bytes = segment.bytes(file, &segment.range()).unwrap_or_default();
            for (from, to) in near_branches(segment.address, bytes) {
                let next = lost.get(lost.partition_point(|address| *address < to));
                if next.is_none_or(|next| *next - to > FAR) || functions.is_begun(to) {
                    continue;
                }
                if functions.is_instruction(from) {
                    found.insert(to);
                } else if !functions.hold(from, &found) {
                    unknown.push(from);
                }
            }
        }
        lost.extend(unknown);
        if found.len() == known {
            return;
        }
        code.functions.clone_from(&named);
        code.add_functions(&found, FAR);
    }
}

/// Functions may overlap. This many that begin before an address are looked at.
const NESTED: usize = 64;

/// Whether one of the numbers, which are in ascending order, lies in a range.
fn hits(sorted: &[u64], range: &Range<u64>) -> bool {
    let from = sorted.partition_point(|number| *number < range.start);
    sorted.get(from).is_some_and(|number| range.contains(number))
}

/// Addresses and targets of the bytes that would be near branches.
fn near_branches(address: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    memchr::memchr3_iter(0xe8, 0xe9, 0x0f, bytes).filter_map(move |at| {
        let field = match bytes[at] {
            0x0f if bytes.get(at + 1).is_some_and(|next| next >> 4 == 8) => at + 2,
            0x0f => return None,
            _ => at + 1,
        };
        let distance = i32::from_le_bytes(*bytes.get(field..)?.first_chunk()?);
        let to = (address + field as u64 + 4).wrapping_add_signed(distance.into());
        Some((address + at as u64, to))
    })
}

/// Addresses that bytes would load which would be `lea register, [rip+distance]`.
fn loaded(address: u64, bytes: &[u8]) -> impl Iterator<Item = u64> {
    memchr::memchr_iter(0x8d, bytes).filter_map(move |at| {
        let distance = i32::from_le_bytes(*bytes.get(at + 2..)?.first_chunk()?);
        let is_near = bytes[at + 1] & 0xc7 == 0x05;
        is_near.then(|| (address + at as u64 + 6).wrapping_add_signed(distance.into()))
    })
}

/// All four bytes as an address, as `mov`, `push` and `cmp` hold it in a file that is loaded at a fixed address.
fn immediates(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.windows(4).map(|four| four.first_chunk().map_or(0, |it| u32::from_le_bytes(*it).into()))
}

/// Whether the bytes in front of four others can be those of an instruction with a constant of four bytes, or `lea` with
/// an address: `mov r, imm`, `push imm`, sums with `rax`; or `mov` and sums whose operand has one to six bytes (opcodes:
/// Intel SDM, volume 2, appendix A).
fn is_held(before: &[u8]) -> bool {
    let byte = |back: usize| before.len().checked_sub(back).map_or(0, |at| before[at]);
    // Behind such a byte stands the distance from the next instruction.
    let is_distance = byte(1) & 0xc7 == 0x05;
    matches!(byte(1), 0xb8..=0xbf | 0x68 | 0x05 | 0x2d | 0x3d)
        || matches!(byte(2), 0xc7 | 0x81 | 0x8d) && !is_distance
        || byte(3) == 0x8d
        || [3, 4, 6, 7].iter().any(|back| matches!(byte(*back), 0xc7 | 0x81))
}

/// Whether the first of the next instructions that uses the register of a `lea` compares it.
fn is_compared(lea: &[u8], behind: &[u8]) -> bool {
    let loaded: Vec<u8> = lea.iter().chain(&[0; 4]).copied().collect();
    let register = Decoder::new(64, &loaded, DecoderOptions::NONE).decode().op0_register();
    let mut info = InstructionInfoFactory::new();
    let mut next = Decoder::new(64, behind, DecoderOptions::NONE).into_iter().take(4);
    let first = next.find(|one| {
        one.flow_control() != FlowControl::Next || uses(&mut info, one, &[register], true)
    });
    first.is_some_and(|one| one.mnemonic() == Mnemonic::Cmp)
}

/// Whether an instruction changes one of these registers, or also reads it.
pub(crate) fn uses(
    info: &mut InstructionInfoFactory,
    one: &Instruction,
    registers: &[Register],
    reads: bool,
) -> bool {
    info.info(one).used_registers().iter().any(|used| {
        let only_reads =
            matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None);
        (reads || !only_reads) && registers.contains(&used.register().full_register())
    })
}
