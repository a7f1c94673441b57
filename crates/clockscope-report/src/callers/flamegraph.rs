//! The stacks as a flame graph: a picture in one file that zooms and searches by itself.

use inferno::flamegraph::{self, Options, TextTruncateDirection};

use super::folded;
use clockscope_model::trace::TraceReport;
use clockscope_text::foreign::joined;
use clockscope_text::lines::cut_middle;
use clockscope_text::units;

/// Columns of the title.
const TITLE: usize = 90;

/// An SVG with the script that zooms in it; what was called is at the top, the process at the
/// bottom, and widths are numbers of calls.
///
/// # Errors
///
/// None that a report can cause; what inferno says otherwise.
pub fn render(report: &TraceReport) -> std::io::Result<Vec<u8>> {
    let stacks = folded::stacks(report);
    if stacks.is_empty() {
        return Ok(nothing().into_bytes());
    }
    // inferno takes lines apart at blanks and semicolons, as the format has them.
    let lines: Vec<String> =
        stacks.iter().map(|(stack, calls)| format!("{} {calls}", in_xml(stack))).collect();
    let mut options = Options::default();
    options.title = in_xml(&title(report));
    options.subtitle = Some(subtitle(report));
    options.count_name = "calls".to_owned();
    // What tells functions apart stands at the beginning of their names more often than at the end.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The same report is the same picture.
    options.deterministic = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    Ok(svg)
}

fn title(report: &TraceReport) -> String {
    let command = joined(&report.command, " ");
    let command = if command.is_empty() { "a program" } else { &command };
    cut_middle(&format!("Calls of {command}"), TITLE)
}

fn subtitle(report: &TraceReport) -> String {
    let Some(callers) = &report.callers else { return String::new() };
    let calls = callers.called.iter().fold(0_u64, |sum, row| sum.saturating_add(row.calls));
    let cut = callers.stacks.iter().filter(|stack| !stack.complete);
    let cut = cut.fold(0_u64, |sum, stack| sum.saturating_add(stack.samples));
    let mut text = format!(
        "{}, by {}",
        units::counted(calls, "call", "calls"),
        units::counted(callers.samples, "sampled stack", "sampled stacks")
    );
    if cut > 0 {
        text += &format!("; {} of them end early, at [cut]", units::count(cut));
    }
    if callers.lost > 0 {
        text += &format!("; {} more lost", units::count(callers.lost));
    }
    text
}

/// Without the two characters that XML forbids and that are no control characters
/// (XML 1.0, section 2.2).
fn in_xml(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "?")
}

/// A picture that says that there is nothing to draw.
fn nothing() -> String {
    "<?xml version=\"1.0\" standalone=\"no\"?>\n\
     <svg version=\"1.1\" width=\"600\" height=\"60\" xmlns=\"http://www.w3.org/2000/svg\">\
     <rect width=\"100%\" height=\"100%\" fill=\"#eeeeee\"/>\
     <text x=\"20\" y=\"36\" font-family=\"monospace\" font-size=\"14\">no call was sampled</text>\
     </svg>\n"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn svg(report: &TraceReport) -> String {
        String::from_utf8(render(report).unwrap()).unwrap()
    }

    #[test]
    fn it_is_complete_and_the_same_each_time() {
        let report = samples::server();
        let picture = svg(&report);
        assert_eq!(picture, svg(&report));
        assert!(picture.contains("Calls of diameterd -c d.conf"), "{picture}");
        assert!(picture.contains("fd_fifo_post_internal (212,001 calls, 42.40%)"), "{picture}");
        assert!(picture.contains("60 of them end early"));
        for outside in ["<image", "href=\"http", "url(http", "@import", "src="] {
            assert!(!picture.contains(outside), "{outside}");
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(svg(&TraceReport::default()).contains("no call was sampled"));
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let mut report = samples::server();
        report.command = vec!["</text><script>alert(1)</script>".into()];
        let frames = &mut report.callers.as_mut().unwrap().frames;
        frames[1].function = Some("f<a & \"b\">::x\u{1b}[1m\u{ffff}</title><script>".into());
        let picture = svg(&report);
        assert!(picture.contains("f&lt;a &amp; "), "{picture}");
        assert!(!picture.contains("</title><script>") && !picture.contains("<script>alert"));
        let is_strange = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{ffff}';
        assert!(!picture.contains(is_strange));
    }
}
