//! Parsers of untrusted bytes that the crate's interface reaches only through files and processes.
//! `fuzz/` calls them; other builds do not include them.

use std::io::{self, BufReader};

use super::jit_files::{of_dump, of_map};
use super::jit_wanted::Wanted;
use super::mini_debug;
use super::unwind_go::GoTable;

/// The name that a jitdump gives each of these addresses, in ascending order of the addresses.
pub fn names_of_dump(bytes: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
    names(addresses, |wanted| of_dump(|| Ok(bytes), wanted))
}

/// The name that a perf map gives each of these addresses, in ascending order of the addresses.
pub fn names_of_map(bytes: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
    // Small pieces, so that lines have to be assembled.
    names(addresses, |wanted| of_map(&mut BufReader::with_capacity(16, bytes), wanted))
}

/// The name of each address by Go's table of functions, in a program whose code begins at `text`.
/// Also computes the stack height at each address.
pub fn go_functions(table: &[u8], text: u64, addresses: &[u64]) -> Vec<Option<String>> {
    let table = GoTable::of_bytes(table.to_vec(), text);
    let function = |at: &u64| {
        let function = table.function(*at)?;
        let _ = table.height(&function, *at);
        Some(function.name)
    };
    addresses.iter().map(function).collect()
}

/// Most bytes to which one packed symbol table is unpacked.
pub const UNPACKED_MAX: u64 = mini_debug::UNPACKED_MAX;

/// The name of each address by a packed symbol table, and the number of unpacked bytes.
pub fn packed_functions(section: &[u8], addresses: &[u64]) -> (Vec<Option<String>>, u64) {
    let mut left = mini_debug::ALL_MAX;
    let functions = mini_debug::Functions::of_section(section, &mut left);
    let name = |at: &u64| Some(functions.as_ref()?.at(*at)?.verbatim().to_owned());
    (addresses.iter().map(name).collect(), mini_debug::ALL_MAX - left)
}

fn names(
    addresses: &[u64],
    read: impl FnOnce(&mut Wanted) -> io::Result<()>,
) -> Vec<Option<String>> {
    let mut wanted = Wanted::new(addresses.to_vec());
    read(&mut wanted).expect("memory has no errors");
    wanted.names().map(|(_, name)| name.map(|name| name.to_string())).collect()
}
