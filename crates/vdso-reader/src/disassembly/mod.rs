//! The code of an image as text, with names for the places it calls and reads.

mod aarch64;
mod x86_64;

use clockscope_text::foreign::Foreign;
use serde::Serialize;

use crate::maps::Mapping;
use crate::view::Hex;
use crate::{Image, Machine};

/// One function, or a piece of code that has no symbol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// The names of the function, global ones first; none for code without a symbol.
    pub names: Vec<Foreign>,
    /// Where it starts, in bytes from the start of the image.
    pub offset: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its instructions, in order of their addresses.
    pub instructions: Vec<InstructionText>,
}

/// One instruction, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionText {
    /// Its address: in the process, or from the start of the image if that is in no process.
    pub address: Hex,
    /// Its bytes as pairs of hexadecimal digits.
    pub bytes: String,
    /// Its text: in the form of the assembler NASM, or of Arm's.
    pub text: Foreign,
}

impl Piece {
    fn new(image: &Image, offset: u64, size_bytes: u64) -> Self {
        let names = names_at(image, offset).into_iter().map(Foreign::from).collect();
        Self { names, offset, size_bytes, instructions: Vec::new() }
    }
}

/// Why code cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisassemblyError {
    /// Only x86-64 and arm64 code can be shown.
    #[error(
        "only x86-64 and arm64 code can be disassembled, and this is {0}; save it with --dump FILE \
         and try llvm-objdump -d FILE"
    )]
    Machine(Machine),
    /// The image has no such function; the second part lists those it has.
    #[error("the image has no function {0}; it has {1}")]
    NoFunction(String, String),
    /// The function's bytes lie, in part, outside of the image.
    #[error("the code of {0} lies outside of the image")]
    Outside(String),
}

/// The code of the function with this name, or of all functions if there is no name.
///
/// `base` is the address of the image in its process, where the mappings are `mappings`.
///
/// # Errors
///
/// If the image is not for x86-64 or arm64, or has no such function.
pub fn disassemble(
    image: &Image,
    name: Option<&str>,
    base: Option<u64>,
    mappings: &[Mapping],
) -> Result<Vec<Piece>, DisassemblyError> {
    let of_code = match image.machine() {
        Machine::X86_64 => x86_64::instructions,
        Machine::Aarch64 => aarch64::instructions,
        other => return Err(DisassemblyError::Machine(other)),
    };
    let base = base.unwrap_or(0);
    let mut pieces = match name {
        Some(name) => vec![one_function(image, name)?],
        None => all_code(image),
    };
    let labels = Labels::new(image, base, mappings);
    for piece in &mut pieces {
        let code = code_of(image, piece)?;
        piece.instructions = of_code(code, base.wrapping_add(piece.offset), &labels);
    }
    pieces.retain(|piece| !piece.names.is_empty() || !is_padding(piece));
    Ok(pieces)
}

fn one_function(image: &Image, name: &str) -> Result<Piece, DisassemblyError> {
    let Some(symbol) = image.function(name) else {
        let mut offsets: Vec<u64> = image.functions().map(|symbol| symbol.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let names = offsets.into_iter().filter_map(|at| names_at(image, at).into_iter().next());
        let names: Vec<String> = names.collect();
        return Err(DisassemblyError::NoFunction(name.to_owned(), names.join(", ")));
    };
    Ok(Piece::new(image, symbol.offset, symbol.size))
}

/// All functions in the order of their places, and what lies between them in the text section.
fn all_code(image: &Image) -> Vec<Piece> {
    let mut places: Vec<(u64, u64)> =
        image.functions().map(|symbol| (symbol.offset, symbol.size)).collect();
    places.sort_unstable();
    places.dedup_by_key(|place| place.0);
    let text = image.sections().iter().find(|section| section.name == ".text");
    let (mut at, end) =
        text.map_or((u64::MAX, 0), |text| (text.offset, text.offset.saturating_add(text.size)));
    let mut pieces = Vec::new();
    for (offset, size) in places {
        if at < offset {
            pieces.push(Piece::new(image, at, offset - at));
        }
        pieces.push(Piece::new(image, offset, size));
        at = if at == u64::MAX { at } else { at.max(offset.saturating_add(size)) };
    }
    if at < end {
        pieces.push(Piece::new(image, at, end - at));
    }
    pieces
}

/// The names of the function at this offset, global ones first.
fn names_at(image: &Image, offset: u64) -> Vec<String> {
    let mut symbols: Vec<_> = image.functions().filter(|one| one.offset == offset).collect();
    symbols.sort_by_key(|one| (one.binding != crate::Binding::Global, one.index));
    symbols.into_iter().map(|one| one.name.clone()).collect()
}

fn is_padding(piece: &Piece) -> bool {
    piece.instructions.iter().all(|one| {
        let text = one.text.verbatim();
        // The kernel's linker puts the bytes of arm64's `nop` in the wrong order.
        text.starts_with("nop") || ["int3", "udf #0x0"].contains(&text) || one.bytes == "d503201f"
    })
}

/// The bytes of a piece.
fn code_of<'a>(image: &'a Image, piece: &Piece) -> Result<&'a [u8], DisassemblyError> {
    let outside = || DisassemblyError::Outside(names_at(image, piece.offset).join(", "));
    let start = usize::try_from(piece.offset).map_err(|_| outside())?;
    let size = usize::try_from(piece.size_bytes).map_err(|_| outside())?;
    let code = start.checked_add(size).and_then(|end| image.bytes().get(start..end));
    code.ok_or_else(outside)
}

/// What is said of bytes that are no instruction.
const NONE: &str = "(bad)";

impl InstructionText {
    fn new(address: u64, bytes: &[u8], text: String) -> Self {
        Self { address: Hex(address), bytes: crate::parse::hex(bytes), text: text.into() }
    }
}

/// Names for addresses: functions of the image and mappings of the process.
#[derive(Clone)]
struct Labels {
    base: u64,
    size: u64,
    /// Offset, size and first name of each function.
    functions: Vec<(u64, u64, String)>,
    mappings: Vec<Mapping>,
}

impl Labels {
    fn new(image: &Image, base: u64, mappings: &[Mapping]) -> Self {
        let function = |symbol: &crate::image::Symbol| {
            let name = names_at(image, symbol.offset).into_iter().next().unwrap_or_default();
            (symbol.offset, symbol.size, name)
        };
        let functions = image.functions().map(function).collect();
        let size = image.bytes().len() as u64;
        Self { base, size, functions, mappings: mappings.to_vec() }
    }

    /// The name of this address and the address that has the name itself.
    fn label(&self, address: u64) -> Option<(String, u64)> {
        let offset = address.wrapping_sub(self.base);
        if offset < self.size {
            let inside =
                |one: &&(u64, u64, String)| offset >= one.0 && offset - one.0 < one.1.max(1);
            let (start, _, name) = self.functions.iter().find(inside)?;
            return Some((name.clone(), self.base.wrapping_add(*start)));
        }
        let mapping = self.mappings.iter().find(|mapping| mapping.contains(address))?;
        let name = mapping.name.strip_prefix('[')?.strip_suffix(']')?;
        Some((name.to_owned(), mapping.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_tests::{I386, X86_64};
    use crate::kernels_tests::AARCH64_7_3;
    use crate::maps;

    fn image() -> Image {
        Image::parse(X86_64).unwrap()
    }

    #[test]
    fn a_function_is_shown_by_any_of_its_names() {
        let global = disassemble(&image(), Some("__vdso_time"), None, &[]).unwrap();
        let weak = disassemble(&image(), Some("time"), None, &[]).unwrap();
        assert_eq!(global, weak);
        assert_eq!(global[0].names, ["__vdso_time", "time"]);
        let last = global[0].instructions.last().unwrap();
        assert_eq!((last.text.verbatim(), last.bytes.as_str()), ("ret", "c3"));
        let bytes: usize = global[0].instructions.iter().map(|one| one.bytes.len()).sum();
        assert_eq!(bytes, 2 * 40);
    }

    #[test]
    fn addresses_are_those_of_the_process_and_mappings_have_names() {
        let text = "7fff00000000-7fff00004000 r--p 00000000 00:00 0 [vvar]\n\
                    7fff00006000-7fff00008000 r-xp 00000000 00:00 0 [vdso]";
        let pieces =
            disassemble(&image(), Some("time"), Some(0x7fff_0000_6000), &maps::parse(text));
        let lines = &pieces.unwrap()[0].instructions;
        assert_eq!(lines[0].address, Hex(0x7fff_0000_6ac0));
        assert!(lines[0].text.verbatim().contains("vvar+"), "{}", lines[0].text);
    }

    #[test]
    fn jumps_within_a_function_have_its_name() {
        let pieces = disassemble(&image(), Some("__vdso_clock_gettime"), None, &[]).unwrap();
        let jump = pieces[0]
            .instructions
            .iter()
            .find(|line| line.text.verbatim().starts_with("ja "))
            .unwrap();
        assert!(jump.text.verbatim().contains("__vdso_clock_gettime+0x"), "{}", jump.text);
    }

    #[test]
    fn all_code_is_every_function_once_and_the_code_between() {
        let pieces = disassemble(&image(), None, None, &[]).unwrap();
        let named = pieces.iter().filter(|piece| !piece.names.is_empty()).count();
        assert_eq!(named, 6);
        assert!(pieces.iter().any(|piece| piece.names.is_empty() && piece.offset == 0x780));
        assert!(pieces.is_sorted_by_key(|piece| piece.offset));
    }

    #[test]
    fn what_cannot_be_shown_is_refused_with_what_to_try() {
        let other = disassemble(&Image::parse(I386).unwrap(), None, None, &[]).unwrap_err();
        assert_eq!(other, DisassemblyError::Machine(Machine::I386));
        assert!(other.to_string().contains("llvm-objdump"));
        let unknown = disassemble(&image(), Some("nothing"), None, &[]).unwrap_err();
        assert!(unknown.to_string().contains("it has __vdso_gettimeofday, __vdso_time, "));
    }

    #[test]
    fn a_function_that_leaves_the_image_is_refused() {
        let mut bytes = X86_64.to_vec();
        bytes[0x1d0 + 24 + 16..][..4].copy_from_slice(&[0xff, 0xff, 0xff, 0]);
        let image = Image::parse(&bytes).unwrap();
        let error = disassemble(&image, Some("clock_gettime"), None, &[]).unwrap_err();
        assert!(matches!(error, DisassemblyError::Outside(_)));
    }

    #[test]
    fn an_arm64_function_has_names_for_functions_and_for_the_data_of_the_kernel() {
        let image = Image::parse(AARCH64_7_3).unwrap();
        let back = disassemble(&image, Some("__kernel_rt_sigreturn"), None, &[]).unwrap();
        let texts: Vec<_> = back[0].instructions.iter().map(|line| line.text.verbatim()).collect();
        assert_eq!(texts, ["mov x8, #0x8b", "svc #0x0"]);
        let text = "ffff00000000-ffff00004000 r--p 00000000 00:00 0 [vvar]\n\
                    ffff00004000-ffff00006000 r-xp 00000000 00:00 0 [vdso]";
        let mappings = maps::parse(text);
        let name = Some("__kernel_clock_gettime");
        let whole = disassemble(&image, name, Some(0xffff_0000_4000), &mappings).unwrap();
        let find = |start: &str| {
            let mut lines = whole[0].instructions.iter();
            lines.find(|line| line.text.verbatim().starts_with(start)).unwrap()
        };
        assert!(find("b.hi").text.verbatim().starts_with("b.hi __kernel_clock_gettime+0x"));
        let data = find("adr ");
        assert!(data.text.verbatim().contains(", vvar"), "{data:?}");
    }
}
