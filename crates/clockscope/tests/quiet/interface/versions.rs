//! What a change of an interface means for its users, and so for the next version: the rules of Cargo's book, as far as
//! the list of `interface.rs` shows what they ask for. Pure.
//!
//! # References
//!
//! "SemVer Compatibility" in the Cargo Book

use std::collections::BTreeSet;

/// Begins the line of a struct that programs can write as a literal, because all its fields are public.
pub(super) const LITERAL: &str = "literal ";

/// Begins the line of an item of a trait that need not be implemented.
pub(super) const DEFAULT: &str = "default ";

/// How two lists of public items differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes<'a> {
    /// Lines that are gone or that changed, and new ones that old programs do not compile with.
    pub breaking: Vec<&'a str>,
    /// New lines that old programs need not know.
    pub additions: Vec<&'a str>,
}

/// Compares the interface of a release with a later one.
pub(super) fn changes<'a>(released: &'a str, now: &'a str) -> Changes<'a> {
    let [released, now] = [released, now].map(|list| list.lines().collect::<BTreeSet<_>>());
    let mut breaking: Vec<_> = released.difference(&now).copied().collect();
    let is_breaking = |line: &&str| breaks(line, &released, &now);
    let (new_breaking, additions) = now.difference(&released).copied().partition(is_breaking);
    breaking.extend::<Vec<_>>(new_breaking);
    Changes { breaking, additions }
}

/// The keyword of a line and the path that it declares, such as `fn` and `fastclock::Clock::open`; variants and fields
/// have none.
pub(super) fn path(line: &str) -> Option<(&str, &str)> {
    let (_, item) = line.split_once("pub ")?;
    let words = item.split([' ', '(']).position(|word| word.contains("::"))?;
    let at: usize = item.split_inclusive([' ', '(']).take(words).map(str::len).sum();
    let (keywords, rest) = item.split_at(at);
    let end = rest.find(['(', ' ', '<', ';']).unwrap_or(rest.len());
    // A method of a generic type has the type's parameters in the middle; only the beginning is asked for.
    Some((keywords.trim_end(), rest[..end].trim_end_matches(':')))
}

/// True if a new line is one that old programs do not compile with: a variant that their `match` lacks, a field that
/// their literal lacks, an item without a default of a trait that they have implemented.
fn breaks(line: &str, released: &BTreeSet<&str>, now: &BTreeSet<&str>) -> bool {
    let Some((keywords, path)) = path(line) else { return false };
    let Some((owner, _)) = path.rsplit_once("::") else { return false };
    let has = |line: &str| {
        let rests = released.iter().filter_map(|found| found.strip_prefix(line));
        let mut ends = rests.map(|rest| {
            rest.is_empty() || ["<", "(", " ", ": "].iter().any(|end| rest.starts_with(end))
        });
        ends.any(|ends| ends)
    };
    if keywords.is_empty() {
        // A variant, a field of a struct, or one of a variant.
        return has(&format!("pub enum {owner}"))
            || released.contains(&*format!("{LITERAL}{owner}"))
            || owner.rsplit_once("::").is_some_and(|(one, _)| has(&format!("pub enum {one}")));
    }
    let is_of_trait = ["", "unsafe "].iter().any(|kind| has(&format!("pub {kind}trait {owner}")));
    is_of_trait && !now.contains(&*format!("{DEFAULT}{path}"))
}

/// The lowest version that may have these changes since `released`.
pub(super) fn next_version(released: [u64; 3], changes: &Changes<'_>) -> [u64; 3] {
    // Left zeros do not count: 0.2 breaks what 0.1 promised.
    let [major, minor, patch] = released;
    let breaking = !changes.breaking.is_empty();
    match (breaking, changes.additions.is_empty()) {
        (false, true) => released,
        (true, _) if major > 0 => [major + 1, 0, 0],
        (false, false) if major > 0 => [major, minor + 1, 0],
        (true, _) if minor > 0 => [0, minor + 1, 0],
        _ => [0, minor, patch + 1],
    }
}

/// The three numbers of a version.
pub(super) fn version(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[test]
fn what_goes_changes_or_must_be_known_by_old_programs_breaks_them() {
    let released = "pub mod a\npub struct a::Open\nliteral a::Open\npub a::Open::one: u8\npub struct a::Shut\n\
                    pub enum a::Closed\npub a::Closed::One\n#[non_exhaustive] pub enum a::Growing\n\
                    pub a::Closed::Named\npub a::Closed::Named::field: u8\npub a::Growing::One\npub trait a::Clock: core::marker::Sized\n\
                    pub fn a::Clock::read(&self) -> u64\nimpl core::marker::Send for a::Open\nfeature std\n\
                    default a::Clock::read\n\
                    pub fn a::Open::get(&self) -> u8";
    for gone in released.lines() {
        let now: String =
            released.lines().filter(|line| *line != gone).map(|line| format!("{line}\n")).collect();
        assert_eq!(changes(released, &now), Changes { breaking: vec![gone], additions: vec![] });
    }
    let breaking = [
        "pub a::Open::two: u8",
        "pub a::Closed::Two",
        "pub a::Closed::Two(core::option::Option<a::Open>)",
        "pub a::Closed::Named::other: u8",
        "pub fn a::Clock::other(&self) -> a::Open",
        "pub unsafe fn a::Clock::other(&self)",
        "pub const fn a::Clock::other()",
        "pub type a::Clock::Unit",
        "pub const a::Clock::LIMIT: u8",
    ];
    for line in breaking {
        let now = format!("{released}\n{line}");
        assert_eq!(changes(released, &now), Changes { breaking: vec![line], additions: vec![] });
    }
    let additions = [
        "pub a::Shut::two: u8",
        "pub a::Growing::Two",
        "pub a::Clocks::One",
        "pub struct a::New",
        "pub a::New::one: u8",
        "literal a::New",
        "pub fn a::Clock::late(&self) -> u64",
        "default a::Clock::late",
        "pub enum a::Other",
        "pub a::Other::One",
        "pub trait a::Other",
        "pub fn a::Other::read(&self) -> u64",
        "pub fn a::Open::put(&self, other: a::Clock::Unit) -> u8",
        "pub const fn a::Open::put(&self)",
        "pub const a::LIMIT: u8",
        "impl core::marker::Copy for a::Open",
        "feature log",
        "pub use a::Open",
    ];
    let now = format!("{released}\n{}", additions.join("\n"));
    let found = changes(released, &now);
    assert_eq!(found.breaking, [""; 0]);
    assert_eq!(found.additions.len(), additions.len());
    // A line that changes is one that is gone.
    let now = released.replace("get(&self) -> u8", "get(&self) -> u16");
    assert_eq!(changes(released, &now).breaking, ["pub fn a::Open::get(&self) -> u8"]);
}

#[test]
fn the_next_version_is_that_of_cargo() {
    let none = Changes::default();
    let more = Changes { additions: vec!["pub mod a"], ..Changes::default() };
    let less = Changes { breaking: vec!["pub mod a"], additions: vec!["pub mod b"] };
    for (released, expected) in [
        ("1.2.3", ["1.2.3", "1.3.0", "2.0.0"]),
        ("0.1.4", ["0.1.4", "0.1.5", "0.2.0"]),
        ("0.0.7", ["0.0.7", "0.0.8", "0.0.8"]),
    ] {
        let next =
            [&none, &more, &less].map(|changes| next_version(version(released).unwrap(), changes));
        assert_eq!(next, expected.map(|text| version(text).unwrap()), "{released}");
    }
    assert_eq!((version("1.2"), version("1.2.x"), version("")), (None, None, None));
}
