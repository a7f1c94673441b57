//! What a browser may do with a page: nothing but show it, in our style, with our script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The content security policy of a page with this style and this script; `""` for no script.
///
/// # References
///
/// Content Security Policy Level 3, W3C: `default-src 'none'` forbids every load, hashes let in the
/// `style` and `script` elements whose text has them.
#[must_use]
pub(super) fn policy(style: &str, script: &str) -> String {
    let script = match script {
        "" => String::new(),
        script => format!("; script-src {}", hash(script)),
    };
    format!(
        "default-src 'none'; style-src {}{script}; base-uri 'none'; form-action 'none'",
        hash(style)
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that Content Security Policy Level 3 gives as its example, 8.3.
    #[test]
    fn a_hash_is_what_browsers_compute() {
        let expected = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(hash("alert('Hello, world.');"), expected);
    }

    #[test]
    fn a_page_without_script_may_run_none() {
        let without = policy("a", "");
        assert!(without.starts_with("default-src 'none'; style-src 'sha256-"), "{without}");
        assert!(!without.contains("script-src"), "{without}");
        assert!(policy("a", "b").contains("; script-src 'sha256-"));
    }
}
