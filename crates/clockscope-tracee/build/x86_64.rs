//! The image of x86-64.

/// Options for the compiler.
pub(crate) const OPTIONS: &[&str] = &[
    "--target",
    "x86_64-unknown-linux-gnu",
    "-C",
    "relocation-model=pie",
    // General registers only, as the kernel builds its own image: vector code needs an aligned stack, which callers in
    // assembly do not always provide. rustc warns that this changes how floating-point numbers are passed, and there
    // are none here.
    "-C",
    "target-feature=-sse,-sse2,+soft-float",
];

/// Whether a line of assembly touches vector, mask or x87 registers, or depends on the direction flag.
pub(crate) fn changes_too_much(line: &str) -> bool {
    let line = line.trim();
    let mnemonic = line.split_whitespace().next().unwrap_or_default();
    if mnemonic.starts_with(['.', '#']) || mnemonic.ends_with(':') {
        return false;
    }
    let registers = ["%xmm", "%ymm", "%zmm", "%mm", "%st", "%k"];
    // x87 instructions begin with `f`, AVX with `v`; the rest are the string instructions.
    let beginnings = ["f", "v", "rep", "movs", "stos", "lods", "scas", "cmps", "xsave", "xrstor"];
    let extends = ["movsbl", "movsbq", "movsbw", "movswl", "movswq", "movslq", "movsx", "movsxd"];
    registers.iter().any(|register| line.contains(register))
        || ["cld", "std", "ldmxcsr", "emms"].contains(&mnemonic)
        || beginnings.iter().any(|beginning| mnemonic.starts_with(beginning))
            && !extends.contains(&mnemonic)
}
