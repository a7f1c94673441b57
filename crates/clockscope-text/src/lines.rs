//! Lines of text: measuring their width, wrapping and cutting.

use unicode_width::UnicodeWidthChar as _;

/// Maximum width of default output, in columns.
pub const WIDTH: usize = 80;
/// The column where the text of a labelled paragraph starts.
const INDENT: usize = 14;
const ELLIPSIS: char = '…';

/// Columns that a terminal needs for `text`.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    // Control characters have no width; when shown, each is replaced by one character.
    c.width().unwrap_or(1)
}

/// `text` in at most `limit` columns: in a longer text an ellipsis replaces the middle.
pub fn cut_middle(text: &str, limit: usize) -> String {
    cut(text, limit, |room| (room.div_ceil(2), room / 2))
}

/// `text` in at most `limit` columns: in a longer text an ellipsis replaces the beginning.
pub fn cut_left(text: &str, limit: usize) -> String {
    cut(text, limit, |room| (0, room))
}

/// `text` in at most `limit` columns: in a longer text an ellipsis replaces the end.
pub fn cut_right(text: &str, limit: usize) -> String {
    cut(text, limit, |room| (room, 0))
}

/// `split` divides the room beside the ellipsis between the beginning and the end of a text that is too long.
fn cut(text: &str, limit: usize, split: impl Fn(usize) -> (usize, usize)) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let Some((head, tail)) = limit.checked_sub(1).map(split) else { return String::new() };
    let head = take_columns(text.chars(), head);
    let tail: String = take_columns(text.chars().rev(), tail).chars().rev().collect();
    format!("{head}{ELLIPSIS}{tail}")
}

fn take_columns(chars: impl Iterator<Item = char>, limit: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += char_width(*c);
            used <= limit
        })
        .collect()
}

/// A paragraph `label: text`, wrapped to [`WIDTH`], with further lines aligned below the text; ends with a line end.
pub fn labelled(label: &str, text: &str) -> String {
    labelled_in(label, text, WIDTH)
}

/// [`labelled`], wrapped to a width.
pub fn labelled_in(label: &str, text: &str, width: usize) -> String {
    let label = if label.is_empty() { String::new() } else { format!("{label}:") };
    wrapped(label, INDENT, text, width)
}

/// A paragraph in which every line but the first begins with two blanks; ends with a line end. Words are split at blanks
/// only, so a no-break space holds two together.
pub fn paragraph(text: &str) -> String {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    wrapped(first.to_owned(), 2, rest, WIDTH)
}

/// A paragraph after `start`, in which every further line begins with `indent` blanks; ends with a line end.
pub fn wrapped(start: String, indent: usize, text: &str, limit: usize) -> String {
    let mut out = start;
    let mut column = width(&out);
    let mut pad = indent.saturating_sub(column).max(1);
    for word in text.split_ascii_whitespace() {
        // A word longer than a line is cut in its middle to keep the width.
        let word = cut_middle(word, limit.saturating_sub(indent));
        if column + pad + width(&word) > limit {
            out.push('\n');
            (column, pad) = (0, indent);
        }
        out.extend(std::iter::repeat_n(' ', pad));
        out.push_str(&word);
        column += pad + width(&word);
        pad = 1;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::foreign::printable;

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(cut_middle("clock_gettime", 13), "clock_gettime");
        assert_eq!(cut_middle("clock_gettime", 8), "cloc…ime");
        assert_eq!(cut_middle("clock_gettime", 1), "…");
        assert_eq!(cut_middle("clock_gettime", 0), "");
        assert_eq!(cut_middle("時計時計時計", 6), "時…計");
    }

    #[test]
    fn long_names_lose_their_beginning() {
        assert_eq!(cut_left("com.example.Clock.now", 21), "com.example.Clock.now");
        assert_eq!(cut_left("com.example.Clock.now", 10), "…Clock.now");
        assert_eq!(cut_left("now", 1), "…");
        assert_eq!(cut_left("now", 0), "");
        assert_eq!(cut_left("時計時計", 6), "…時計");
    }

    #[test]
    fn paragraphs_hang_below_their_label() {
        let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
        assert_eq!(
            labelled("Label", text),
            "Label:        one two three four five six seven eight nine ten eleven twelve\n\
             \x20             thirteen\n"
        );
    }

    proptest! {
        #[test]
        fn paragraphs_keep_the_width(label in "[A-Za-z ]{0,13}", text: String) {
            for line in labelled(&label, &printable(&text)).lines() {
                prop_assert!(width(line) <= WIDTH, "{line:?}");
            }
        }

        #[test]
        fn cut_text_keeps_the_limit(text: String, limit in 1_usize..40) {
            prop_assert!(width(&cut_middle(&text, limit)) <= limit);
            prop_assert!(width(&cut_left(&text, limit)) <= limit);
        }
    }
}
