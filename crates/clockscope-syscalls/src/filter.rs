//! The system calls to count: expressions of `-e`, as in `strace`.
//!
//! An expression is a list of names separated by commas, after an optional `trace=`. A leading `!` selects all calls
//! except these. `%class` stands for the members of a class, `name*` for all names with that prefix, `all` and `none`
//! for every call and no call. A `?` before a name permits an unknown name. Expressions are applied in turn: `%file`
//! then `!openat` is every file call except `openat`.

use clockscope_text::names::nearest;

use super::{classes, names};

/// A set of calls, by name; the default contains all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    removes: bool,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    All,
    Name(String),
    Prefix(String),
    Class(&'static [&'static str]),
}

/// Why an expression is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Nothing between two commas, or nothing at all.
    #[error("a name is missing in the list of calls")]
    Empty,
    /// There is no call of this name; with the nearest name, if any is near.
    #[error("there is no call named `{name}`; {}", match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("`?{name}` ignores that"),
    })]
    UnknownName {
        /// The word that was given.
        name: String,
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// No name has this prefix.
    #[error("no call has a name like `{0}*`")]
    UnknownPrefix(String),
    /// There is no such class.
    #[error("there is no class `%{0}`; there are {all}", all = classes::CLASSES)]
    UnknownClass(String),
    /// A `word=` other than `trace=`.
    #[error("`{0}=` is not understood; only `trace=` is")]
    UnknownQualifier(String),
}

impl Filter {
    /// The set described by the expressions, applied in turn; all calls if there are none.
    ///
    /// The first expression starts from nothing, or from everything if it is negated.
    ///
    /// # Errors
    /// The first word that cannot be parsed.
    pub fn parse<S: AsRef<str>>(expressions: &[S]) -> Result<Self, FilterError> {
        let rules = expressions.iter().map(|text| rule(text.as_ref()));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// Whether a call of this name is in the set. A vDSO function matches with or without its prefix `__vdso_`.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.strip_prefix("__vdso_").unwrap_or(name);
        let Some(first) = self.rules.first() else { return true };
        self.rules.iter().fold(first.removes, |within, rule| {
            if rule.items.iter().any(|item| item.matches(name)) { !rule.removes } else { within }
        })
    }

    /// The native numbers below `limit` in the set, in ascending order; `None` if the set contains every call.
    pub fn numbers(&self, limit: u32) -> Option<Vec<u32>> {
        let matches = |number: &u32| self.matches(&names::name(*number));
        (!self.rules.is_empty()).then(|| (0..limit).filter(matches).collect())
    }
}

impl Item {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Name(wanted) => wanted == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Self::Class(members) => members.contains(&name),
        }
    }
}

fn rule(text: &str) -> Result<Rule, FilterError> {
    let text = text.trim();
    let list = match text.split_once('=') {
        Some(("trace" | "t", list)) => list,
        Some((what, _)) => return Err(FilterError::UnknownQualifier(what.to_string())),
        None => text,
    };
    let kept = list.strip_prefix('!');
    let items = kept.unwrap_or(list).split(',').filter_map(|word| item(word.trim()).transpose());
    Ok(Rule { removes: kept.is_some(), items: items.collect::<Result<_, _>>()? })
}

/// The calls that a word selects; `None` for `none`.
fn item(word: &str) -> Result<Option<Item>, FilterError> {
    let lenient = word.strip_prefix('?');
    match lenient.unwrap_or(word) {
        "" => Err(FilterError::Empty),
        "all" => Ok(Some(Item::All)),
        "none" => Ok(None),
        word if lenient.is_some() => Ok(named(word).ok()),
        word => named(word).map(Some),
    }
}

fn named(word: &str) -> Result<Item, FilterError> {
    if let Some(name) = word.strip_prefix('%') {
        let unknown = || FilterError::UnknownClass(name.to_string());
        return classes::class(name).map(Item::Class).ok_or_else(unknown);
    }
    if let Some(prefix) = word.strip_suffix('*') {
        let known = all_names().any(|name| name.starts_with(prefix));
        let unknown = || FilterError::UnknownPrefix(prefix.to_string());
        return known.then(|| Item::Prefix(prefix.to_string())).ok_or_else(unknown);
    }
    if let Ok(number) = word.parse() {
        return Ok(Item::Name(names::name(number)));
    }
    let name = word.strip_prefix("__vdso_").unwrap_or(word);
    if all_names().any(|known| known == name) || is_numbered(name) {
        return Ok(Item::Name(name.to_string()));
    }
    // strace still accepts its classes without the `%`.
    let unknown =
        || FilterError::UnknownName { name: name.to_string(), nearest: nearest(name, likely()) };
    classes::class(name).map(Item::Class).ok_or_else(unknown)
}

/// Every name that a call can have in a report: system calls and vDSO functions.
fn all_names() -> impl Iterator<Item = &'static str> {
    names::all().map(|call| call.1).chain(["sgx_enter_enclave"])
}

/// [`all_names`] with the clock calls first, so that `gettime` suggests `clock_gettime` and not `timer_gettime`.
fn likely() -> impl Iterator<Item = &'static str> {
    ["clock_gettime", "clock_getres", "gettimeofday", "time"].into_iter().chain(all_names())
}

/// `syscall_N` and `ia32_N`, the names of numbers without one.
fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix("syscall_").or_else(|| name.strip_prefix("ia32_"));
    number.is_some_and(|digits| digits.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(expressions: &[&str], name: &str) -> bool {
        Filter::parse(expressions).unwrap().matches(name)
    }

    #[test]
    fn without_expressions_every_call_is_counted() {
        assert!(within(&[], "read"));
        assert_eq!(Filter::default().numbers(512), None);
    }

    #[test]
    fn lists_classes_prefixes_and_negation_as_in_strace() {
        for (expression, inside, outside) in [
            ("read,write", "write", "open"),
            ("trace=read", "read", "write"),
            ("t=read", "read", "write"),
            ("!read,write", "open", "write"),
            ("trace=!read", "open", "read"),
            ("%clock", "clock_gettime", "clock_nanosleep"),
            ("clock", "clock_gettime", "clock_nanosleep"),
            ("!%clock", "clock_nanosleep", "gettimeofday"),
            ("clock_*", "clock_nanosleep", "time"),
            ("110", "getppid", "getpid"),
            ("syscall_500", "syscall_500", "read"),
            ("?no_such_call,read", "read", "write"),
            ("time", "time", "times"),
            (" read , write ", "write", "open"),
        ] {
            assert!(within(&[expression], inside), "{expression} has {inside}");
            assert!(!within(&[expression], outside), "{expression} has no {outside}");
        }
        assert!(within(&["all"], "read"));
        assert!(!within(&["none"], "read"));
        assert!(within(&["!none"], "read"));
        assert!(!within(&["!all"], "read"));
    }

    #[test]
    fn expressions_apply_in_turn() {
        assert!(within(&["%file", "!openat"], "stat"));
        assert!(!within(&["%file", "!openat"], "openat"));
        assert!(!within(&["%file", "!openat"], "read"));
        assert!(within(&["!openat", "%file"], "openat"));
        assert!(!within(&["!read", "!write"], "read"));
        assert!(within(&["read", "write"], "read"));
    }

    #[test]
    fn vdso_functions_go_by_the_same_names() {
        assert!(within(&["%clock"], "__vdso_clock_gettime"));
        assert!(within(&["__vdso_time"], "time"));
        assert!(within(&["sgx_enter_enclave"], "__vdso_sgx_enter_enclave"));
    }

    #[test]
    fn numbers_are_those_whose_names_match() {
        assert_eq!(Filter::parse(&["write,read"]).unwrap().numbers(512), Some(vec![0, 1]));
        assert_eq!(Filter::parse(&["!write"]).unwrap().numbers(3), Some(vec![0, 2]));
        assert_eq!(Filter::parse(&["none"]).unwrap().numbers(512), Some(vec![]));
    }

    #[test]
    fn mistakes_are_named_with_what_to_try() {
        for (expression, message) in [
            ("clock_getime", "no call named `clock_getime`; did you mean `clock_gettime`?"),
            ("raed", "did you mean `read`?"),
            ("gettime", "no call named `gettime`; did you mean `clock_gettime`?"),
            ("getres", "did you mean `clock_getres`?"),
            ("nanoslep", "did you mean `nanosleep`?"),
            ("futx", "did you mean `futex`?"),
            ("timeofday", "did you mean `gettimeofday`?"),
            ("frobnicate", "no call named `frobnicate`; `?frobnicate` ignores that"),
            ("%clocks", "no class `%clocks`; there are %clock, "),
            ("frob*", "no call has a name like `frob*`"),
            ("read,,write", "a name is missing"),
            ("", "a name is missing"),
            ("signal=SIGHUP", "`signal=` is not understood"),
        ] {
            let text = Filter::parse(&[expression]).unwrap_err().to_string();
            assert!(text.contains(message), "{expression}: {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}", name in "[a-z_*%!?=,]{0,20}") {
            for text in [&text, &name] {
                if let Ok(filter) = Filter::parse(&[text]) {
                    let read_is_first = filter.numbers(1) != Some(vec![]);
                    proptest::prop_assert_eq!(filter.matches("read"), read_is_first);
                }
            }
        }
    }
}
