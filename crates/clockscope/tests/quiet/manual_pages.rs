//! The manual pages that `make man` writes, as mandoc shows them: complete, and without a warning.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::installed_or_skip;
use crate::support::running::with_input;

#[path = "../../examples/man/epilogue.rs"]
mod epilogue;
#[path = "../../examples/man/pages.rs"]
mod pages;

use epilogue::Epilogue;
use pages::{Page, epilogue_of, pages};

/// The sections that each page has, in this order.
const SECTIONS: [&str; 7] =
    ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"];

/// mandoc's output for a page.
fn mandoc(arguments: &[&str], page: &str) -> Option<String> {
    let program = installed_or_skip(&["/usr/bin/mandoc"])?;
    let output = with_input(Command::new(program).args(arguments), page.as_bytes());
    Some(String::from_utf8(output.stdout).expect("mandoc prints text"))
}

/// A page as a reader sees it at 80 columns, without bold and underlined letters.
fn shown(page: &Page) -> Option<String> {
    let text = mandoc(&["-T", "utf8", "-O", "width=80"], &page.source)?;
    let mut plain: Vec<char> = Vec::new();
    for letter in text.chars() {
        if letter == '\u{8}' {
            plain.pop();
        } else {
            plain.push(letter);
        }
    }
    Some(plain.into_iter().collect())
}

/// The lines of a section.
fn section<'a>(shown: &'a str, name: &str) -> Vec<&'a str> {
    let from = shown.lines().skip_while(|line| *line != name).skip(1);
    from.take_while(|line| line.is_empty() || line.starts_with(' ')).collect()
}

/// The options that a page describes: words with a hyphen that begin an entry.
fn options(shown: &str) -> BTreeSet<String> {
    let is_entry = |line: &&&str| line.starts_with("       -") && !line.starts_with("        ");
    let section = section(shown, "OPTIONS");
    let heads = section.iter().filter(is_entry).flat_map(|line| {
        let words = line.split_whitespace().take_while(|word| word.starts_with('-'));
        words.map(|word| {
            word.trim_end_matches(',').split(['[', '=']).next().unwrap_or(word).to_owned()
        })
    });
    heads.collect()
}

/// The options that the command has.
fn defined(page: &Page) -> BTreeSet<String> {
    let shown = page.command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown
        .flat_map(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(argument.get_short().map(|short| format!("-{short}")))
        })
        .collect()
}

/// The text with single blanks, because mandoc breaks lines anywhere.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Missing and superfluous parts of a page.
fn complaints(page: &Page, shown: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let heads: Vec<&str> = shown.lines().filter(|line| SECTIONS.contains(line)).collect();
    if heads != SECTIONS {
        complaints.push(format!("the sections are {heads:?}"));
    }
    let (described, defined) = (options(shown), defined(page));
    if described != defined {
        let difference: Vec<_> = described.symmetric_difference(&defined).collect();
        complaints.push(format!("described or defined only: {difference:?}"));
    }
    let epilogue = Epilogue::parse(&epilogue_of(&page.command));
    let all = words(shown);
    for (example, what) in &epilogue.examples {
        if what.is_empty() || !all.contains(&words(&format!("{example} {what}"))) {
            complaints.push(format!("the example `{example}` is missing or not explained"));
        }
    }
    let statuses = words(&section(shown, "EXIT STATUS").join(" "));
    for (number, meaning) in &epilogue.statuses {
        let entry = words(&format!("{} {meaning}", number.as_deref().unwrap_or_default()));
        if !statuses.to_lowercase().contains(&entry.to_lowercase()) {
            complaints.push(format!("the exit status `{entry}` is missing"));
        }
    }
    if epilogue.examples.is_empty() || epilogue.statuses.is_empty() {
        complaints.push("has no examples or no exit status".to_owned());
    }
    complaints.extend(
        shown.lines().filter(|line| line.chars().count() > 80).map(|line| format!("long: {line}")),
    );
    complaints.iter().map(|complaint| format!("{}: {complaint}", page.file)).collect()
}

#[test]
fn each_page_has_every_option_example_and_exit_status() {
    let pages = pages("2026-11-21");
    assert!(pages.len() > 10 && pages[0].file == "clockscope.1");
    for page in &pages {
        let Some(shown) = shown(page) else { return };
        assert_eq!(complaints(page, &shown), [""; 0], "{shown}");
    }
}

#[test]
fn what_is_missing_in_a_page_is_noticed() {
    let pages = pages("2026-11-21");
    let page = pages.iter().find(|page| page.file == "clockscope-doctor.1").expect("a page");
    let Some(shown) = shown(page) else { return };
    for (text, instead) in [
        ("       --summary\n", "\n"),
        ("       --list ", "       --lists "),
        ("EXIT STATUS", "STATUS"),
        ("the clock is slow\n", "\n"),
        ("what a label means", "what"),
    ] {
        assert!(shown.contains(text), "{text}");
        assert!(!complaints(page, &shown.replacen(text, instead, 1)).is_empty(), "{text}");
    }
}

#[test]
fn mandoc_has_nothing_to_complain_about() {
    for page in pages("2026-11-21") {
        let Some(said) = mandoc(&["-T", "lint", "-W", "style"], &page.source) else { return };
        assert_eq!(said, "", "{}", page.file);
    }
    let said = mandoc(&["-T", "lint", "-W", "style"], ".TH a 1\n.SH NAME\n.PP\ntext\n");
    assert!(said.is_some_and(|said| said.contains("WARNING")));
}
