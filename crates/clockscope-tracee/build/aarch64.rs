//! The image of arm64.

/// Options for the compiler.
pub(crate) const OPTIONS: &[&str] = &[
    "--target",
    "aarch64-unknown-linux-gnu",
    // With this model, too, all addresses are relative to the instruction, and no table of addresses is needed.
    "-C",
    "relocation-model=static",
    // General registers only, as the kernel builds its own image. Atomics use exclusive loads and stores, which every
    // CPU has, and no library function. rustc warns that this changes how floating-point numbers are passed, and there
    // are none here. `x28` stays the program's, because a signal handler of Go finds its data by it.
    "-C",
    "target-feature=-neon,-outline-atomics,+reserve-x28",
];

/// Whether a line of assembly touches vector registers.
pub(crate) fn changes_too_much(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with(['.', '/']) || line.ends_with(':') {
        return false;
    }
    let operands = line.split_once(char::is_whitespace).map_or("", |(_, operands)| operands);
    operands.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        word.strip_prefix(['b', 'd', 'h', 'q', 's', 'v', 'z'])
            .is_some_and(|number| number.parse::<u8>().is_ok_and(|number| number < 32))
    })
}
