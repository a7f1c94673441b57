//! Options of strace, perf and hyperfine, and the clockscope options to suggest instead.

/// A line each: the subcommand (the empty name: without one), words that it does not have, and the text to suggest
/// instead.
const HINTS: &str = include_str!("hints.txt");

fn hints() -> impl Iterator<Item = [&'static str; 3]> {
    let columns = |line: &'static str| line.splitn(3, '|').map(str::trim).collect::<Vec<_>>();
    HINTS.lines().filter_map(move |line| columns(line).try_into().ok())
}

/// The text to suggest instead of a word that the subcommand does not have.
pub(crate) fn instead(subcommand: &str, word: &str) -> Option<&'static str> {
    let is_meant = |[name, words, _]: &[&str; 3]| {
        *name == subcommand && words.split(' ').any(|known| known == word)
    };
    hints().find(is_meant).map(|[_, _, hint]| hint)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn no_hint_stands_for_what_clockscope_has_itself() {
        let cli = Cli::command();
        let mut seen = HashSet::new();
        for [name, words, _] in hints() {
            let command = if name.is_empty() { &cli } else { cli.find_subcommand(name).unwrap() };
            for word in words.split(' ') {
                let is_own = command.find_subcommand(word).is_some()
                    || command.get_arguments().any(|argument| {
                        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                        let short = argument.get_short().map(|short| format!("-{short}"));
                        long.iter().any(|long| word.strip_prefix("--") == Some(long))
                            || short.as_deref() == Some(word)
                    });
                assert!(!is_own, "{name} {word}");
                assert!(seen.insert((name, word)), "{name} {word} twice");
            }
        }
    }
}
