//! Lines of kernels from 2.6.18 to 7.1, and their expected interpretation.

use super::super::event::UnstableReason;
use super::said;

const FORMATS: &str = include_str!("formats.txt");

#[test]
fn every_line_is_understood_as_listed() {
    let lines: Vec<&str> = FORMATS.lines().collect();
    let mut seen = 0;
    for pair in lines.windows(2) {
        let Some(want) = pair[1].strip_prefix("    ") else { continue };
        let line = pair[0].replace("\\t", "\t");
        let said = said(&line);
        let understood = match want {
            "open" | "closed" => if said.is_open { "open" } else { "closed" }.to_owned(),
            "cut" | "other" if said.kind.is_none() => want.to_owned(),
            _ => said.kind.map_or("nothing".to_owned(), |kind| format!("{kind:?}")),
        };
        assert_eq!(understood, want, "{line}");
        seen += 1;
    }
    assert!(seen > 190, "{seen}");
    assert_eq!(said("").kind, None);
    assert_eq!(UnstableReason::of(""), (UnstableReason::Other, false));
}
