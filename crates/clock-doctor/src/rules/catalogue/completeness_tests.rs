//! Every entry of the catalogue has its texts.

use std::collections::HashSet;

use super::super::advice;
use super::super::finding::{State, Verdict};
use super::*;
use crate::facts::Facts;

/// Whether a text begins like a sentence, or with a command or a parameter, and ends like a sentence.
fn is_prose(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let begins = !first.is_whitespace();
    let last = text.trim_end_matches(['`', ')']).chars().last().unwrap_or(' ');
    let mut said = HashSet::new();
    let repeats = text.split(". ").any(|sentence| !said.insert(sentence.trim_end_matches('.')));
    begins && ".?".contains(last) && !text.contains("  ") && !repeats
}

fn sentences(text: &str) -> usize {
    text.matches(". ").count() + 1
}

#[test]
fn every_label_has_its_explanation_fix_and_reference() {
    for label in Label::ALL {
        let (page, name) = (label.page(), label.name());
        assert_eq!(page.label, name);
        assert!(page.severity.is_some(), "{name}: no severity");
        assert!(page.title.len() > 10 && !page.title.ends_with('.'), "{name}: {}", page.title);
        assert!(is_prose(page.explanation()), "{name}: {}", page.explanation());
        let least = if name.contains(':') { 1 } else { 2 };
        let count = sentences(page.explanation());
        assert!((least..=6).contains(&count), "{name}: {count} sentences");
        assert!(is_prose(page.paragraph("What helps")), "{name}");
        check_the_rest(page, &["", "What helps", "But"]);
        assert!(!page.references.is_empty(), "{name}: no reference");
        assert!(page.references.iter().all(|text| text.len() > 5), "{name}");
    }
}

#[test]
fn every_fix_says_what_it_does_and_where_that_stands() {
    for fix in Fix::ALL {
        let (page, name) = (fix.page(), fix.name());
        assert_eq!(page.label, format!("fix:{name}"));
        assert_eq!(page.severity, None, "{name}");
        assert!(page.title.len() > 5 && !page.title.ends_with('.'), "{name}: {}", page.title);
        assert!(is_prose(page.explanation()), "{name}: {}", page.explanation());
        assert!(!page.paragraph("Since").ends_with('.'), "{name}");
        check_the_rest(page, &["", "Since", "Risk", "Reboot"]);
        assert!(!page.references.is_empty(), "{name}: no reference");
    }
}

#[test]
fn every_platform_has_a_title_and_says_what_is_normal() {
    let platforms = pages().iter().filter(|page| page.label.starts_with("platform:"));
    for page in platforms.clone() {
        assert!(!page.title.is_empty() && is_prose(page.explanation()), "{page:?}");
        check_the_rest(page, &[""]);
    }
    let sources = pages().iter().filter(|page| page.label.starts_with("source:")).count();
    assert_eq!(pages().len(), Label::ALL.len() + sources + Fix::ALL.len() + platforms.count());
    assert_eq!(page("platform:kvm").map(|page| page.title), Some("KVM"));
    assert_eq!(page("platform:fix:keep"), None);
}

/// Each paragraph has one of these headings, in this order, and is prose unless it is a clause.
fn check_the_rest(page: &Page, headings: &[&str]) {
    let mut known = headings.iter();
    for (heading, text) in &page.paragraphs {
        assert!(known.any(|one| one == heading), "{}: {heading}", page.label);
        assert!(*heading == "Since" || is_prose(text), "{}: {text}", page.label);
    }
}

#[test]
fn names_are_unique_and_fit_a_list_of_labels() {
    let mut seen = HashSet::new();
    for name in Label::ALL.map(Label::name).into_iter().chain(Fix::ALL.map(Fix::name)) {
        assert!(seen.insert(name), "{name} twice");
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_:=".contains(c);
        assert!(name.chars().all(fits), "{name}");
    }
}

#[test]
fn every_fix_can_be_written_for_some_machine() {
    let platforms = ["virtualbox", "vmware", "kvm", "wsl", "bare-metal", "arm32"];
    let writes = |fix: Fix| {
        platforms.iter().any(|platform| {
            let verdict = Verdict {
                state: State::Slow,
                source: Some(
                    if fix == Fix::NoKvmclock { "kvm-clock" } else { "acpi_pm" }.to_owned(),
                ),
                platforms: vec![platform],
                ..Verdict::default()
            };
            let facts = facts_for(fix);
            let causes = [Label::ParamTscUnstable, Label::OldKernel]
                .map(super::super::finding::Finding::new);
            let causes: Vec<_> = causes.iter().collect();
            advice::write(fix, &facts, &verdict, &causes).is_some()
        })
    };
    for fix in Fix::ALL {
        assert!(writes(fix), "{fix} is never written");
    }
}

fn facts_for(fix: Fix) -> Facts {
    use crate::facts::{CommandLine, Known};
    let mut facts = Facts::default();
    if fix == Fix::RemoveParameter {
        let line = CommandLine::parse("ro tsc=unstable");
        facts.command_line = Some(Known::new(line, "proc/cmdline", "ro tsc=unstable"));
    }
    if fix == Fix::SwitchSource {
        let names = vec!["hpet".to_owned(), "acpi_pm".to_owned()];
        facts.available = Some(Known::new(names, "available_clocksource", "hpet acpi_pm"));
    }
    facts
}

/// The source code of the rules, as one text.
fn code() -> String {
    fn below(folder: &std::path::Path, code: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_code = path.extension().is_some_and(|end| end == "rs");
            if path.is_dir() {
                below(&path, code);
            } else if is_code && !path.to_str().unwrap().ends_with("tests.rs") {
                *code += &std::fs::read_to_string(&path).unwrap();
            }
        }
    }
    let mut code = String::new();
    below(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules"), &mut code);
    code
}

#[test]
fn the_lines_for_the_program_are_known_to_it_and_it_asks_for_no_others() {
    const OF_ADVICE: [&str; 9] =
        ["title", "why", "so", "run", "add", "remove", "verify", "risk", "place"];
    let code = code();
    let mut sentences = HashSet::new();
    for label in Label::ALL {
        assert!(bearings::Bearing::of(&label.page().lines).is_some(), "{label}");
        let keys = label.page().lines.iter().filter_map(|(key, _)| key.strip_prefix("tell:"));
        sentences.extend(keys);
    }
    for fix in Fix::ALL {
        for (key, _) in &fix.page().lines {
            let (key, tag) = key.split_once(':').unwrap_or((key, ""));
            assert!(OF_ADVICE.contains(&key) || key == "only", "{fix}: {key}");
            assert!(tag.is_empty() || code.contains(&format!("\"{tag}\"")), "{fix}: {tag}");
        }
    }
    for key in &sentences {
        assert!(code.contains(&format!("\"{key}\"")), "no rule says {key}");
    }
    let of_states = [" fast(\"", " slow(\"", " unknown(\"", " clause(\""];
    for call in [".tell(\"", ".tell_with(\""].into_iter().chain(of_states) {
        for asked in code.split(call).skip(1) {
            let key = asked.split('"').next().unwrap();
            assert!(sentences.contains(key), "no label has the sentence {key}");
        }
    }
}
