//! Names of functions as their language writes them.

use clockscope_text::foreign::Foreign;

/// Demangles a name of Rust or C++. A name without a mangling prefix stays as it is, because a demangler takes the C
/// function `f` for the type `float`.
pub fn demangled(name: &str) -> Foreign {
    let is_mangled = ["_Z", "__Z", "_R", "__R"].iter().any(|prefix| name.starts_with(prefix));
    let rust = || rustc_demangle::try_demangle(name).ok().map(|name| format!("{name:#}"));
    let cpp = || cpp_demangle::Symbol::new(name).ok()?.demangle().ok();
    let written = if is_mangled { rust().or_else(cpp) } else { None };
    written.as_deref().unwrap_or(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_of_c_stay() {
        let first = || ('a'..='z').chain('A'..='Z').chain(['_']);
        let all = first().flat_map(|one| {
            let two = move |other| String::from_iter([one, other]);
            [one.to_string()].into_iter().chain(first().chain('0'..='9').map(two))
        });
        for name in all {
            assert_eq!(demangled(&name).verbatim(), name);
        }
    }

    #[test]
    fn names_of_rust_and_cpp_are_plain() {
        for (name, plain) in [
            ("_ZN3app4postEv", "app::post()"),
            ("_ZN3app4post17h0123456789abcdefE", "app::post"),
            ("_RNvCs1234_3app4post", "app::post"),
            ("_Zebra", "_Zebra"),
            ("_Rocket", "_Rocket"),
        ] {
            assert_eq!(demangled(name).verbatim(), plain);
        }
    }
}
