//! Names of functions that are longer than their line: what tells them apart least goes first.

use clockscope_text::lines::{cut_middle, width};

/// Operators of C++ that have brackets or what looks like one; a longer one before its beginning.
const OPERATORS: [&str; 12] =
    ["<=>", "<<=", ">>=", "->*", "()", "<<", ">>", "->", "<=", ">=", "<", ">"];
/// What all others consist of.
const OF_OPERATORS: &[u8] = b"=!+-*/%^&|~,";
/// What may stand behind the arguments of a member function.
const QUALIFIERS: [&str; 4] = [" const", " volatile", " &&", " &"];
/// Looks like a function with arguments, and is a type.
const NO_FUNCTION: &str = "decltype";

/// A name in at most `limit` columns: without the arguments of C++, then without template and generic
/// arguments, then without its middle.
pub(super) fn fitted(name: &str, limit: usize) -> String {
    if width(name) <= limit {
        return name.to_owned();
    }
    let bare = without_arguments(name);
    if width(&bare) <= limit {
        return bare;
    }
    cut_middle(&without_template_arguments(&bare), limit)
}

/// `std::vector<int>::push_back(int const&)` as `std::vector<int>::push_back`.
fn without_arguments(name: &str) -> String {
    let mut cuts = Vec::new();
    for group in groups(name).iter().filter(|group| group.is_arguments(name)) {
        let mut end = group.end;
        while let Some(word) = QUALIFIERS.iter().find(|word| name[end..].starts_with(**word)) {
            end += word.len();
        }
        cuts.push((group.start, end));
    }
    replaced(name, &cuts, "")
}

/// `std::vector<int, std::allocator<int> >::push_back` as `std::vector<…>::push_back`.
fn without_template_arguments(name: &str) -> String {
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut groups = groups(name);
    groups.sort_by_key(|group| group.start);
    for group in groups.iter().filter(|group| group.is_template_arguments(name)) {
        let inside = (group.start + 1, group.end - 1);
        let is_within = cuts.last().is_some_and(|(_, end)| inside.0 < *end);
        if !is_within && width(&name[inside.0..inside.1]) > 1 {
            cuts.push(inside);
        }
    }
    replaced(name, &cuts, "…")
}

/// The name with these parts, which are in order, replaced.
fn replaced(name: &str, cuts: &[(usize, usize)], by: &str) -> String {
    let (mut out, mut from) = (String::new(), 0);
    for (start, end) in cuts {
        out += &name[from..*start];
        out += by;
        from = *end;
    }
    out + &name[from..]
}

/// Brackets with what is between them.
#[derive(Clone, Copy, Debug)]
struct Group {
    kind: u8,
    /// Of the opening bracket.
    start: usize,
    /// Behind the closing one.
    end: usize,
    /// Around it.
    depth: usize,
    /// Whether it stands behind the name of an operator.
    is_of_operator: bool,
}

impl Group {
    /// Whether these are the arguments of a function, as C++ writes them. Go has a type of a method in such
    /// brackets, behind a dot; C++ an `(anonymous namespace)`.
    fn is_arguments(&self, name: &str) -> bool {
        let (before, after) = (&name[..self.start], &name[self.end..]);
        let is_called = before.ends_with(|c: char| is_of_word(c) || ">]}*&".contains(c));
        self.kind == b'('
            && self.depth == 0
            && (self.is_of_operator || is_called && !before.ends_with(NO_FUNCTION))
            && (after.is_empty() || [" ", "::", "["].iter().any(|next| after.starts_with(next)))
    }

    /// Whether these are the arguments of a template or of a generic function or type. Rust has the type
    /// and the trait of a method in such brackets, Python `<locals>` behind a dot.
    fn is_template_arguments(&self, name: &str) -> bool {
        let (before, inside) = (&name[..self.start], &name[self.start + 1..self.end - 1]);
        let is_turbofish =
            before.ends_with("::") && !inside.contains(" as ") && !inside.starts_with("impl ");
        self.kind == b'<' && (before.ends_with(is_of_word) && !self.is_of_operator || is_turbofish)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// All pairs of brackets, those inside of others first. A `>` that closes nothing is a comparison, or
/// part of an arrow.
fn groups(name: &str) -> Vec<Group> {
    let bytes = name.as_bytes();
    let mut open: Vec<(u8, usize)> = Vec::new();
    let (mut groups, mut at, mut behind_operator) = (Vec::new(), 0, None);
    while let Some(byte) = bytes.get(at).copied() {
        let opened = match byte {
            b'o' => {
                if let Some(length) = operator(name, at) {
                    at += length;
                    behind_operator = Some(at);
                    continue;
                }
                None
            }
            b'-' if bytes.get(at + 1) == Some(&b'>') => {
                at += 2;
                continue;
            }
            b'(' | b'<' | b'[' | b'{' => {
                open.push((byte, at));
                None
            }
            b')' => open.iter().rposition(|(kind, _)| *kind == b'('),
            b']' => open.iter().rposition(|(kind, _)| *kind == b'['),
            b'}' => open.iter().rposition(|(kind, _)| *kind == b'{'),
            b'>' => open.len().checked_sub(1).filter(|last| open[*last].0 == b'<'),
            _ => None,
        };
        if let Some(depth) = opened {
            let (kind, start) = open[depth];
            open.truncate(depth);
            let is_of_operator = behind_operator == Some(start);
            groups.push(Group { kind, start, end: at + 1, depth, is_of_operator });
        }
        at += 1;
    }
    groups.sort_by_key(|group| (group.depth, group.start));
    groups
}

/// Length of `operator` with the operator's own characters, if that stands there.
fn operator(name: &str, at: usize) -> Option<usize> {
    const WORD: &str = "operator";
    // Beside a character of several bytes no operator stands.
    let rest = name.get(at..)?.strip_prefix(WORD)?;
    let is_part = name[..at].ends_with(is_of_word) || rest.starts_with(is_of_word);
    let bracket = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
    let plain = || rest.bytes().take_while(|byte| OF_OPERATORS.contains(byte)).count();
    let length = bracket.map_or_else(plain, |operator| operator.len());
    (!is_part).then_some(WORD.len() + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        let name = "std::vector<int>::push_back(int const&)";
        assert_eq!(fitted(name, 39), name);
        assert_eq!(fitted(name, 38), "std::vector<int>::push_back");
        assert_eq!(fitted(name, 26), "std::vector<…>::push_back");
        assert_eq!(fitted(name, 25), "std::vector<…>::push_back");
        assert_eq!(fitted(name, 16), "std::vec…sh_back");
    }

    #[test]
    fn arguments_of_cpp_go() {
        for (name, bare) in [
            ("f()", "f"),
            ("app::Queue::post(app::Item const&, int) const", "app::Queue::post"),
            ("app::f(std::pair<int, (x)1>) (inlined)", "app::f (inlined)"),
            ("f(int) [clone .constprop.0]", "f [clone .constprop.0]"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("app::(anonymous namespace)::Log::add(char)", "app::(anonymous namespace)::Log::add"),
            ("app::Less::operator()(int, int) const", "app::Less::operator()"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("f(int)::{lambda()#2}::operator()() const", "f::{lambda()#2}::operator()"),
            ("bool operator< <int>(A<int> const&, int)", "bool operator< <int>"),
            ("bool operator<(A const&, B const&)", "bool operator<"),
            ("operator<=>(A const&, B const&)", "operator<=>"),
            ("A& operator<< <char>(A&, char)", "A& operator<< <char>"),
            ("big operator+(big const&, big const&)", "big operator+"),
            ("Box::operator->() const &", "Box::operator->"),
            ("Box::operator[](unsigned long)", "Box::operator[]"),
            ("Box::operator bool() const", "Box::operator bool"),
            ("Box::operator char const*() const", "Box::operator char const*"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("name[abi:cxx11](int)", "name[abi:cxx11]"),
            ("decltype(auto) f<int>(int)", "decltype(auto) f<int>"),
            ("app::Guard::~Guard()", "app::Guard::~Guard"),
            (
                "void [System.Private.CoreLib] System.Foo::Bar(int32)[Tier1]",
                "void [System.Private.CoreLib] System.Foo::Bar[Tier1]",
            ),
        ] {
            assert_eq!(without_arguments(name), bare);
        }
    }

    #[test]
    fn names_of_other_languages_keep_their_brackets() {
        for name in [
            "main.(*queue).post",
            "main.(*Cache[go.shape.string,go.shape.int]).Get",
            "net/http.(*conn).serve.func1",
            "<app::Queue as app::Post>::post",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "app::serve::{closure#0}",
            "<(u32, alloc::string::String) as app::Stamp>::stamp",
            "JS:*serve /srv/shop (copy)/orders.js:8:15",
            "JS:~serve /srv/shop(1).js:8:15",
            "Web.<locals>.<lambda>",
            "<signal handler called>",
            "[libplugin.so.2]",
            "$my_module:fun/2",
        ] {
            assert_eq!(without_arguments(name), name);
        }
    }

    #[test]
    fn template_and_generic_arguments_are_shortened() {
        for (name, short) in [
            ("std::vector<int, std::allocator<int> >::push_back", "std::vector<…>::push_back"),
            ("a::B<x::Y<1> >::c<(E)2>", "a::B<…>::c<…>"),
            ("f<T>", "f<T>"),
            ("bool operator< <int>", "bool operator< <int>"),
            ("Box<int>::operator->", "Box<…>::operator->"),
            ("g<&(A::operator-><int>)>::h", "g<…>::h"),
            ("c<((1)>(2))>::d", "c<…>::d"),
            ("alloc::vec::Vec<u8>::push", "alloc::vec::Vec<…>::push"),
            (
                "<alloc::vec::Vec<u8> as core::ops::Drop>::drop",
                "<alloc::vec::Vec<…> as core::ops::Drop>::drop",
            ),
            (
                "<dyn Fn(&i32) -> u8 as app::Call<i32>>::call",
                "<dyn Fn(&i32) -> u8 as app::Call<…>>::call",
            ),
            ("app::map::<u32, fn(u8) -> u8>", "app::map::<…>"),
            (
                "app::<impl app::Post for alloc::vec::Vec<u8>>::post",
                "app::<impl app::Post for alloc::vec::Vec<…>>::post",
            ),
            ("Web.<locals>.<lambda>", "Web.<locals>.<lambda>"),
            ("<signal handler called>", "<signal handler called>"),
        ] {
            assert_eq!(without_template_arguments(name), short);
        }
    }

    proptest! {
        #[test]
        fn any_text_fits(
            name in "([a-f<>(){}\\[\\] :.*&é-]|operator|<int>|\\(\\)| const|->|::){0,40}",
            limit in 1_usize..60,
        ) {
            prop_assert!(width(&fitted(&name, limit)) <= limit);
        }
    }
}
