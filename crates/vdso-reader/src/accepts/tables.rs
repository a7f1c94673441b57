//! Walking the hash tables of an image as its readers do.

use object::elf;

use super::reason::{Reason, Table};
use crate::{Class, Image, Symbol};

/// A symbol that a walk met: its entry, or nothing if the walk left the symbol table.
type Met<'a> = Option<&'a Symbol>;

/// Looks for the first symbol on the way of `table` to `name` that `fits`.
///
/// # Errors
///
/// If the table is broken or does not lead to such a symbol.
pub(super) fn find<'a>(
    image: &'a Image,
    table: Table,
    name: &str,
    fits: impl Fn(&Symbol) -> bool,
) -> Result<&'a Symbol, Reason> {
    let met = match table {
        Table::Hash => hash_chain(image, name),
        Table::GnuHash => gnu_hash_chain(image, name, false),
        Table::GnuHashFilter => gnu_hash_chain(image, name, true),
        Table::Symbols => first_symbols(image),
    };
    let met = met.ok_or(Reason::TableBroken(table))?;
    let found = met.into_iter().map_while(|met| met).find(|symbol| fits(symbol));
    found.ok_or_else(|| Reason::NotFound(name.to_owned(), table))
}

/// The number of symbols that `DT_HASH` states.
pub(super) fn hash_count(image: &Image) -> Option<u32> {
    let at = image.offset_of(image.dynamic_value(elf::DT_HASH)?);
    word(image, at, 1)
}

/// All symbols up to the number in `DT_HASH`.
fn first_symbols(image: &Image) -> Option<Vec<Met<'_>>> {
    let count = usize::try_from(hash_count(image)?).ok()?;
    Some(image.symbols().iter().take(count.saturating_sub(1)).map(Some).collect())
}

/// The symbols in the chain of this name in `DT_HASH`; a chain that runs in a circle is cut.
fn hash_chain<'a>(image: &'a Image, name: &str) -> Option<Vec<Met<'a>>> {
    let at = image.offset_of(image.dynamic_value(elf::DT_HASH)?);
    let buckets = word(image, at, 0).filter(|count| *count != 0)?;
    let mut met = Vec::new();
    let mut index = word(image, at, 2 + u64::from(elf::hash(name.as_bytes()) % buckets))?;
    while index != 0 && met.len() <= image.symbols().len() {
        met.push(symbol(image, index));
        index = word(image, at, 2 + u64::from(buckets) + u64::from(index))?;
    }
    Some(met)
}

/// The symbols in the chain of this name in `DT_GNU_HASH` whose hash is the name's.
fn gnu_hash_chain<'a>(image: &'a Image, name: &str, filter: bool) -> Option<Vec<Met<'a>>> {
    let at = image.offset_of(image.dynamic_value(elf::DT_GNU_HASH)?);
    let buckets = word(image, at, 0).filter(|count| *count != 0)?;
    let first = word(image, at, 1)?;
    let filter_words = u64::from(word(image, at, 2)?) * words_per_address(image);
    let hash = elf::gnu_hash(name.as_bytes());
    if filter && !passes_filter(image, at, hash)? {
        return Some(Vec::new());
    }
    let chains = 4 + filter_words + u64::from(buckets);
    let mut index = word(image, at, 4 + filter_words + u64::from(hash % buckets))?;
    let mut met = Vec::new();
    if index == 0 {
        return Some(met);
    }
    loop {
        let stored = word(image, at, chains + u64::from(index.checked_sub(first)?))?;
        if stored | 1 == hash | 1 {
            met.push(symbol(image, index));
        }
        if stored & 1 != 0 {
            return Some(met);
        }
        index = index.checked_add(1)?;
    }
}

/// Whether the Bloom filter of `DT_GNU_HASH` lets this hash through.
fn passes_filter(image: &Image, at: u64, hash: u32) -> Option<bool> {
    let words = word(image, at, 2).filter(|count| count.is_power_of_two())?;
    let shift = word(image, at, 3)?;
    let width = 32 * u32::try_from(words_per_address(image)).ok()?;
    let index = u64::from((hash / width) & (words - 1)) * words_per_address(image);
    let low = u64::from(word(image, at, 4 + index)?);
    let bits = match image.class() {
        Class::Elf32 => low,
        Class::Elf64 => {
            let second = u64::from(word(image, at, 4 + index + 1)?);
            if image.is_little_endian() { low | second << 32 } else { second | low << 32 }
        }
    };
    let second_bit = hash.checked_shr(shift).unwrap_or(0) % width;
    Some(bits >> (hash % width) & bits >> second_bit & 1 == 1)
}

fn words_per_address(image: &Image) -> u64 {
    match image.class() {
        Class::Elf32 => 1,
        Class::Elf64 => 2,
    }
}

/// The 32-bit word with this number from this offset on.
fn word(image: &Image, at: u64, number: u64) -> Option<u32> {
    image.word(at.checked_add(number.checked_mul(4)?)?)
}

/// The entry of the symbol table with this index.
fn symbol(image: &Image, index: u32) -> Met<'_> {
    image.symbols().get(usize::try_from(index).ok()?.checked_sub(1)?)
}
