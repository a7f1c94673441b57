//! Compares the `syscall` instructions that a report names as not counted with those of the files.

use std::collections::BTreeMap;
use std::fs;

use clockscope_sites::{Found, Why};
use object::{Object as _, ObjectSymbol as _};

/// Functions whose calls are not counted in a running program: no single instruction makes room for a jump, or they jump
/// to computed addresses.
const LEFT: &str = include_str!("places_left.txt");

/// Takes out the clauses that name instructions of files. Each of them is left in the file, for this reason, and is in
/// a function of [`LEFT`].
#[track_caller]
pub(crate) fn take_known(reasons: &mut Vec<&str>) {
    let mut named: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    reasons.retain(|reason| {
        let Some((file, counts)) = clause(reason) else { return true };
        named.insert(file, counts);
        false
    });
    for (file, reasons) in named {
        let bytes = fs::read(file).expect("read a file that the report names");
        let found =
            clockscope_sites::find(&bytes, clockscope_sites::Wanted::Calls).expect("an ELF file");
        let places = places(&found);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (why, _) in &places {
            *counts.entry(why.to_string()).or_default() += 1;
        }
        assert_eq!(reasons, counts, "{file}");
        assert_are_known(file, &bytes, &places, found.sites.len());
    }
}

/// The file of a clause that names instructions, and how many are left for each reason: `calls by 2 instructions of
/// FILE, WHY`, or `calls by 3 instructions of FILE: 2 WHY, 1 WHY`.
pub(crate) fn clause(reason: &str) -> Option<(&str, BTreeMap<String, usize>)> {
    let (count, rest) = reason.strip_prefix("calls by ")?.split_once(' ')?;
    let (_, rest) = rest.split_once(" of ")?;
    let count: usize = count.parse().ok()?;
    let Some((file, each)) = rest.split_once(": ") else {
        let (file, why) = rest.split_once(", ")?;
        return Some((file, BTreeMap::from([(why.to_owned(), count)])));
    };
    let each = each.split(", ").map(|part| {
        let (count, why) = part.split_once(' ').expect("a number and a reason");
        (why.to_owned(), count.parse().expect("a number"))
    });
    let each: BTreeMap<String, usize> = each.collect();
    assert_eq!(each.values().sum::<usize>(), count, "{reason}");
    Some((file, each))
}

/// The instructions that are left in a running program, with the reasons.
fn places(found: &Found) -> Vec<(Why, u64)> {
    let several = found.sites.iter().filter(|site| site.is_several);
    let several = several.map(|site| (Why::Running, site.window));
    let left = found.left.iter().filter(|left| left.why != Why::SignalReturn);
    several.chain(left.map(|left| (left.why, left.at))).collect()
}

#[track_caller]
fn assert_are_known(file: &str, bytes: &[u8], places: &[(Why, u64)], counted: usize) {
    let object = object::File::parse(bytes).expect("an ELF file");
    let names_of = |at: u64| {
        let symbols = object.symbols().chain(object.dynamic_symbols());
        let around = symbols.filter(|it| {
            it.address() <= at
                && at < it.address() + it.size()
                && it.kind() == object::SymbolKind::Text
        });
        around.filter_map(|it| it.name().ok().map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut hidden = 0;
    for (why, at) in places {
        let names = names_of(*at);
        hidden += usize::from(names.is_empty());
        let is_known =
            names.is_empty() || names.iter().any(|name| LEFT.lines().any(|left| left == name));
        assert!(is_known, "{file} {at:#x} in {names:?}, {why}");
    }
    // In musl more functions have neither a symbol nor an entry in the unwind table.
    let most = if file.contains("musl") { counted / 4 } else { 6 + counted / 20 };
    assert!(hidden <= most, "{file}: {hidden} of {counted} in functions without a symbol");
}
