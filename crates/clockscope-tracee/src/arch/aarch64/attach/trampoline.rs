//! Plans the redirection of a function: its first instruction becomes a branch, and a trampoline holds that
//! instruction.
//!
//! If the vDSO is guarded (`PROT_BTI`, a kernel with `CONFIG_ARM64_BTI_KERNEL`), a function must begin with a landing
//! pad. A `bti` stays, and the instruction behind it becomes the branch. A `paciasp` is a landing pad, too, but it
//! signs the return address. The code behind it must not be entered a second time with another return address, so such
//! a function is left unchanged.
//!
//! Instructions are four bytes and aligned, so a write changes an instruction at once, and no thread can stand inside
//! it. Source of the encodings: Arm Architecture Reference Manual, C4.1 (DDI 0487).

use crate::attach::redirected::{Change, NotMovable, Redirected, Text, slice};
use clockscope_sys::proc_text;

/// Bytes of a branch, the only thing written.
pub(crate) const JUMP: usize = 4;

/// `bti c`, `bti j`, `bti jc`.
const PADS: [u32; 3] = [0xd503_245f, 0xd503_249f, 0xd503_24df];
/// `paciasp`, `pacibsp`.
const SIGNING_PADS: [u32; 2] = [0xd503_233f, 0xd503_237f];

/// An instruction that depends on its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relative {
    /// `b`.
    Branch(u64),
    /// `b.cond`, `bc.cond`, `cbz`, `cbnz`, `tbz`, `tbnz`: the word with a distance of zero, the position of the
    /// distance in the word, and the target.
    Conditional(u32, u32, u64),
    /// `adr`, `adrp`: the register and its value.
    Address(u32, u64),
    /// `ldr`, `ldrsw` of a literal to a general register: a load through that register, the register, and the literal's
    /// address.
    Load(u32, u32, u64),
    /// `bl`, and other instructions that cannot be moved.
    Fixed,
}

/// Padding between functions. Not needed here, because every branch reaches the shim.
pub(crate) struct Padding;

impl Padding {
    /// Finds no padding.
    pub(crate) fn of(_text: Text<'_>) -> Self {
        Self
    }
}

/// Plans how the function at `start` is redirected to `target`.
///
/// # Errors
///
/// [`NotMovable`] if the function must stay unchanged.
pub(crate) fn redirect(
    text: Text<'_>,
    _padding: &mut Padding,
    (start, size): (u64, u64),
    target: u64,
    trampoline: u64,
) -> Result<Redirected, NotMovable> {
    let instruction = |at| {
        let bytes = slice(text, at, JUMP as u64).and_then(|bytes| bytes.first_chunk::<JUMP>());
        bytes.copied().filter(|_| at + JUMP as u64 <= start + size).ok_or(NotMovable::TooShort)
    };
    let first = u32::from_le_bytes(instruction(start)?);
    if text.is_guarded && SIGNING_PADS.contains(&first) {
        return Err(NotMovable::Instruction("paciasp".to_owned()));
    }
    let start = if PADS.contains(&first) { start + JUMP as u64 } else { start };
    let original = instruction(start)?;
    let word = u32::from_le_bytes(original);
    if is_jumped_to(text, start) {
        return Err(NotMovable::JumpedInto);
    }
    let next = start + JUMP as u64;
    let words = moved(word, start, trampoline)?;
    let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let last = trampoline + code.len() as u64;
    code.extend(jump(last, next).ok_or(NotMovable::TooFar)?);
    let jump = jump(start, target).ok_or(NotMovable::TooFar)?.to_vec();
    let change = Change { at: start, original: original.to_vec(), jump, stays: false };
    Ok(Redirected { changes: vec![change], trampoline, code, undo: Vec::new() })
}

/// Whether the CPU guards the functions of a process's vDSO: `bt` among the flags of proc_pid_smaps(5).
pub(crate) fn is_guarded(pid: i32) -> bool {
    let Ok(maps) = proc_text::read(format!("/proc/{pid}/smaps")) else { return false };
    let behind = maps.split_once("[vdso]").map_or("", |(_, behind)| behind);
    let flags = proc_text::field(behind, "VmFlags:");
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "bt"))
}

/// A branch from one address to another, if it reaches.
pub(crate) fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    branch(from, to).map(u32::to_le_bytes)
}

/// Target of the branch at `from`; `None` if these bytes are no branch.
pub(crate) fn jump_target(from: u64, bytes: [u8; JUMP]) -> Option<u64> {
    match relative(u32::from_le_bytes(bytes), from) {
        Some(Relative::Branch(target)) => Some(target),
        _ => None,
    }
}

fn branch(from: u64, to: u64) -> Option<u32> {
    let words = i32::try_from(to.wrapping_sub(from).cast_signed() >> 2).ok()?;
    let is_near = (-(1 << 25)..1 << 25).contains(&words) && (from | to) & 3 == 0;
    is_near.then_some(0x1400_0000 | words.cast_unsigned() & 0x03ff_ffff)
}

/// The same instruction at another address, which may take several instructions.
fn moved(word: u32, from: u64, to: u64) -> Result<Vec<u32>, NotMovable> {
    let branch_at = |index: u64, target| branch(to + 4 * index, target).ok_or(NotMovable::TooFar);
    Ok(match relative(word, from) {
        None => vec![word],
        Some(Relative::Branch(target)) => vec![branch_at(0, target)?],
        // Branches over the branch back, to a branch that reaches further.
        Some(Relative::Conditional(word, shift, target)) => {
            let back = branch_at(1, from + JUMP as u64)?;
            vec![word | 2 << shift, back, branch_at(2, target)?]
        }
        Some(Relative::Address(register, address)) => of_address(register, address, to)?.to_vec(),
        Some(Relative::Load(load, register, address)) => {
            let [page, offset] = of_address(register, address, to)?;
            vec![page, offset, load]
        }
        Some(Relative::Fixed) => return Err(NotMovable::Instruction(name(word))),
    })
}

/// `adrp` and `add`, which load an address into a register.
fn of_address(register: u32, address: u64, at: u64) -> Result<[u32; 2], NotMovable> {
    let distance = (address >> 12).wrapping_sub(at >> 12).cast_signed();
    let pages = i32::try_from(distance).ok().filter(|pages| (-(1 << 20)..1 << 20).contains(pages));
    let pages = pages.ok_or(NotMovable::TooFar)?.cast_unsigned() & 0x1f_ffff;
    let offset = u32::try_from(address & 0xfff).map_err(|_| NotMovable::TooFar)?;
    let page = 0x9000_0000 | (pages & 3) << 29 | pages >> 2 << 5 | register;
    let add = 0x9100_0000 | offset << 10 | register << 5 | register;
    Ok([page, add])
}

/// How an instruction depends on its address; `None`: it does not.
fn relative(word: u32, at: u64) -> Option<Relative> {
    let distance = |shift: u32, bits: u32| sign_extended(word >> shift, bits) << 2;
    let target = |shift, bits| at.wrapping_add_signed(distance(shift, bits));
    let register = word & 0x1f;
    let without = |shift: u32, bits: u32| word & !(((1 << bits) - 1) << shift);
    Some(match word >> 24 {
        0x14..=0x17 => Relative::Branch(target(0, 26)),
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => Relative::Conditional(without(5, 19), 5, target(5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => Relative::Conditional(without(5, 14), 5, target(5, 14)),
        top if top & 0x1f == 0x10 => {
            let distance = sign_extended((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3, 21);
            let address = match word >> 31 {
                0 => at.wrapping_add_signed(distance),
                _ => (at & !0xfff).wrapping_add_signed(distance << 12),
            };
            Relative::Address(register, address)
        }
        // `ldr w`, `ldr x` and `ldrsw` of a literal; replaced by a load through the register, with offset 0.
        0x18 => Relative::Load(0xb940_0000 | register << 5 | register, register, target(5, 19)),
        0x58 => Relative::Load(0xf940_0000 | register << 5 | register, register, target(5, 19)),
        0x98 => Relative::Load(0xb980_0000 | register << 5 | register, register, target(5, 19)),
        // Literal loads of a vector register, and `prfm`.
        0x1c | 0x5c | 0x9c | 0xd8 => Relative::Fixed,
        // `bl` and `blr` save their own address; handlers identify `svc`, `hvc`, `smc`, `brk` and `hlt` by theirs.
        0x94..=0x97 | 0xd4 => Relative::Fixed,
        0xd6 if word >> 21 & 3 == 1 => Relative::Fixed,
        _ => return None,
    })
}

fn sign_extended(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits))
}

/// The instruction's name, for messages.
fn name(word: u32) -> String {
    match word >> 24 {
        0x94..=0x97 => "bl".to_owned(),
        0xd4 if word & 0xffe0_001f == 0xd400_0001 => "svc".to_owned(),
        _ => format!(".inst {word:#010x}"),
    }
}

/// True if any instruction of the image branches to the redirected one: that would be counted, although it is no call.
fn is_jumped_to(text: Text<'_>, start: u64) -> bool {
    text.code.iter().any(|(offset, size)| {
        let from = text.base + offset;
        let Some(code) = slice(text, from, *size) else { return true };
        code.chunks_exact(4).zip((from..).step_by(4)).any(|(bytes, at)| {
            let word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
            match relative(word, at) {
                Some(Relative::Branch(target) | Relative::Conditional(_, _, target)) => {
                    target == start
                }
                _ => false,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::redirected::{pieces, text_start};
    use clockscope_sys::own_vdso;
    use vdso_reader::Image;

    const BASE: u64 = 0x7f00_0000_0000;
    const IMAGE: u64 = BASE - 0x10_0000;
    const THERE: u64 = IMAGE + 0x1000;

    fn redirect_words(words: &[u32]) -> Result<Redirected, NotMovable> {
        redirect_guarded(words, false)
    }

    fn redirect_guarded(words: &[u32], is_guarded: bool) -> Result<Redirected, NotMovable> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let code = [(0, bytes.len() as u64)];
        let text = Text { bytes: &bytes, base: BASE, code: &code, is_guarded };
        redirect(text, &mut Padding, (BASE, bytes.len() as u64), IMAGE, THERE)
    }

    /// Target of the only jump.
    fn goes_to(redirected: &Redirected) -> Option<u64> {
        let [change] = redirected.changes.as_slice() else { return None };
        jump_target(change.at, change.jump.as_slice().try_into().ok()?)
    }

    fn words(redirected: &Redirected) -> Vec<u32> {
        let chunks = redirected.code.chunks_exact(4);
        chunks.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    const NOP: u32 = 0xd503_201f;
    const RET: u32 = 0xd65f_03c0;

    #[test]
    fn every_clock_function_of_this_kernel_can_be_redirected() {
        let Some(own) = own_vdso::read() else { return skips::skip("this kernel has no vDSO") };
        let image = Image::parse(&own.bytes).unwrap();
        let functions = image.functions().map(|symbol| (symbol.offset, symbol.size));
        let code = pieces(functions, text_start(&image).unwrap());
        let text = Text { bytes: &own.bytes, base: BASE, code: &code, is_guarded: false };
        let is_jumped = |name: &str| !name.ends_with("rt_sigreturn");
        let mut found = 0;
        for symbol in image.functions().filter(|symbol| is_jumped(&symbol.name)) {
            let start = BASE + symbol.offset;
            let redirected =
                redirect(text, &mut Padding, (start, symbol.size), IMAGE, THERE).unwrap();
            assert_eq!(goes_to(&redirected), Some(IMAGE), "{}", symbol.name);
            let last = redirected.code.last_chunk().unwrap();
            let back = jump_target(THERE + redirected.code.len() as u64 - 4, *last);
            assert_eq!(back, Some(start + 4), "{}", symbol.name);
            found += 1;
        }
        assert!(found >= 3, "{found}");
    }

    #[test]
    fn an_instruction_that_does_not_depend_on_its_place_is_moved_as_it_is() {
        // cmp w0, #15; paciasp; ret
        for word in [0x7100_3c1f, 0xd503_233f, RET] {
            let redirected = redirect_words(&[word, NOP]).unwrap();
            assert_eq!(words(&redirected)[0], word);
            assert_eq!(redirected.changes[0].original, word.to_le_bytes());
            assert_eq!(
                relative(words(&redirected)[1], THERE + 4),
                Some(Relative::Branch(BASE + 4))
            );
        }
    }

    #[test]
    fn a_landing_pad_stays_where_it_is() {
        for is_guarded in [false, true] {
            let redirected = redirect_guarded(&[PADS[0], NOP, RET], is_guarded).unwrap();
            let change = &redirected.changes[0];
            assert_eq!((change.at, change.original.as_slice()), (BASE + 4, &NOP.to_le_bytes()[..]));
            assert_eq!(goes_to(&redirected), Some(IMAGE));
            assert_eq!(
                relative(words(&redirected)[1], THERE + 4),
                Some(Relative::Branch(BASE + 8))
            );
        }
        assert!(redirect_guarded(&[SIGNING_PADS[0], NOP, RET], false).is_ok());
        let refused = redirect_guarded(&[SIGNING_PADS[0], NOP, RET], true);
        assert_eq!(refused, Err(NotMovable::Instruction("paciasp".into())));
        assert_eq!(redirect_guarded(&[PADS[0]], true), Err(NotMovable::TooShort));
    }

    #[test]
    fn an_address_is_the_same_there() {
        // adr x4, -9648, as in Linux 5.10; adrp x3, -4 pages
        let adr = 0x1000_0000 | ((-9648_i32 >> 2).cast_unsigned() & 0x7_ffff) << 5 | 4;
        let adrp = 0x9000_0000 | ((-4_i32 >> 2).cast_unsigned() & 0x7_ffff) << 5 | 3;
        for (word, register, address) in [(adr, 4, BASE - 9648), (adrp, 3, BASE - 0x4000)] {
            let code = words(&redirect_words(&[word, NOP]).unwrap());
            let Some(Relative::Address(page_register, page)) = relative(code[0], THERE) else {
                panic!("{code:x?}");
            };
            assert_eq!(
                (page_register, code[1] & 0x1f, code[1] >> 5 & 0x1f),
                (register, register, register)
            );
            assert_eq!(page + u64::from(code[1] >> 10 & 0xfff), address);
        }
    }

    #[test]
    fn a_branch_goes_where_it_went() {
        // cbz x0, +0x668-0x5c4; b.hi +0xc0; tbz w1, #3, -8
        for (word, distance) in
            [(0xb400_0520, 0xa4), (0x5400_0608, 0xc0), (0x361f_ffc1, -8), (0x1400_0004, 16)]
        {
            let redirected = redirect_words(&[word, NOP, NOP, NOP, NOP, NOP, RET]).unwrap();
            let code = words(&redirected);
            let target = BASE.wrapping_add_signed(distance);
            match relative(code[0], THERE) {
                Some(Relative::Branch(to)) => assert_eq!(to, target),
                Some(Relative::Conditional(same, shift, to)) => {
                    assert_eq!(same, word & !(0x7_ffff << 5) | same & (0x1f << 19), "{word:#x}");
                    assert_eq!((shift, to), (5, THERE + 8));
                    assert_eq!(relative(code[1], THERE + 4), Some(Relative::Branch(BASE + 4)));
                    assert_eq!(relative(code[2], THERE + 8), Some(Relative::Branch(target)));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_literal_is_loaded_from_where_it_is() {
        // ldr x5, +0x100; ldrsw x5, +0x100
        for (word, load) in [(0x5800_0805, 0xf940_00a5), (0x9800_0805, 0xb980_00a5)] {
            let code = words(&redirect_words(&[word, NOP]).unwrap());
            assert_eq!(code[2], load);
            assert_eq!(code[1] >> 10 & 0xfff, 0x100);
        }
    }

    #[test]
    fn calls_and_what_is_told_by_its_place_stay() {
        for word in [0x9400_0010, 0xd400_0001, 0xd63f_0100, 0x5c00_0805] {
            let refused = redirect_words(&[word, NOP]);
            assert!(matches!(refused, Err(NotMovable::Instruction(_))), "{word:#x} {refused:?}");
        }
    }

    #[test]
    fn a_function_that_is_a_loop_or_far_away_stays() {
        // nop; b -4
        assert_eq!(redirect_words(&[NOP, 0x17ff_ffff]), Err(NotMovable::JumpedInto));
        assert_eq!(jump(0x1000, 0x1000 + (1 << 27)), None);
        assert!(jump(0x1000, 0x1000 + (1 << 27) - 4).is_some());
        let bytes = [NOP.to_le_bytes(), RET.to_le_bytes()].concat();
        let text = Text { bytes: &bytes, base: BASE, code: &[(0, 8)], is_guarded: false };
        let far = redirect(text, &mut Padding, (BASE, 8), BASE + (1 << 28), THERE);
        assert_eq!(far, Err(NotMovable::TooFar));
        assert_eq!(
            redirect(text, &mut Padding, (BASE, 0), IMAGE, THERE),
            Err(NotMovable::TooShort)
        );
    }
}
