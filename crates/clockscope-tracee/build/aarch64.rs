//! The image of arm64.

/// What the compiler is told.
pub(crate) const OPTIONS: &[&str] = &[
    "--target",
    "aarch64-unknown-linux-gnu",
    // With this model, too, all addresses are relative to the instruction's, and none is taken from a table.
    "-C",
    "relocation-model=static",
    // General registers only, as the kernel builds its own image; atomics by exclusive loads and stores, which every
    // CPU has, and by no function of a library. rustc warns that floating-point numbers are passed differently then, and
    // there are none here. `x28` is the register by which a signal handler of Go finds its data: it stays the program's.
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
