//! Plain files: one number a line, or a column of each line.

use std::fmt;

use clockscope_stats::summary::LARGEST;

/// How a plain file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainFormat {
    /// Column that has the numbers, from 1.
    pub column: usize,
    /// Bytes that separate columns; several in a row count as one.
    pub delimiters: Vec<u8>,
    /// A `#` ends the data of a line wherever it stands; if not, only before a column, as in
    /// ministat.
    pub comment_anywhere: bool,
}

impl Default for PlainFormat {
    fn default() -> Self {
        Self { column: 1, delimiters: b" \t".to_vec(), comment_anywhere: true }
    }
}

/// Why a line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there instead of a number.
    pub text: String,
    /// It is infinite, NaN, or too large to be squared.
    pub is_out_of_range: bool,
}

impl fmt::Display for PlainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, text, .. } = self;
        if self.is_out_of_range {
            write!(f, "line {line}: {text:?} cannot be compared; take it out")
        } else if *line == 1 {
            write!(f, "line 1: {text:?} is not a number; put # before a heading")
        } else {
            write!(f, "line {line}: {text:?} is not a number")
        }
    }
}

impl std::error::Error for PlainError {}

/// Reads the numbers. Lines that are empty, or have fewer columns, are passed over; the text after
/// a `#` need not be UTF-8.
///
/// # Errors
///
/// The first line that has something else in the column.
pub fn parse(bytes: &[u8], format: &PlainFormat) -> Result<Vec<f64>, PlainError> {
    let mut values = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let Some(field) = field(line, format) else { continue };
        let text = std::str::from_utf8(field).ok().map(str::trim_start);
        match text.and_then(|text| text.parse::<f64>().ok()) {
            Some(value) if value.abs() <= LARGEST => values.push(value),
            parsed => {
                return Err(PlainError {
                    line: index + 1,
                    text: shortened(field),
                    is_out_of_range: parsed.is_some(),
                });
            }
        }
    }
    Ok(values)
}

/// The wanted column of a line.
fn field<'a>(line: &'a [u8], format: &PlainFormat) -> Option<&'a [u8]> {
    let mut line = line.trim_ascii_end();
    if format.comment_anywhere
        && let Some(comment) = line.iter().position(|byte| *byte == b'#')
    {
        line = line[..comment].trim_ascii();
    }
    let mut fields =
        line.split(|byte| format.delimiters.contains(byte)).filter(|field| !field.is_empty());
    for _ in 1..format.column {
        fields.next().filter(|field| field[0] != b'#')?;
    }
    fields.next().filter(|field| field[0] != b'#')
}

/// At most 20 characters of what was found.
fn shortened(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.chars().take(20).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<f64>, PlainError> {
        parse(text.as_bytes(), &PlainFormat::default())
    }

    #[test]
    fn numbers_comments_and_empty_lines() {
        let text = "# head\n1\n\n  2.5 # two\r\n3e2 9\n-4#x\n\t.5\n+6";
        assert_eq!(read(text).unwrap(), [1.0, 2.5, 300.0, -4.0, 0.5, 6.0]);
        assert_eq!(read("").unwrap(), [0.0; 0]);
    }

    #[test]
    fn columns_and_delimiters() {
        let format = PlainFormat { column: 2, delimiters: b",;".to_vec(), ..Default::default() };
        let found = parse(b"a,1\nb;2\nc\n,d,,3\n#,9\n", &format).unwrap();
        assert_eq!(found, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_comment_need_not_be_utf_8() {
        assert_eq!(parse(b"1 # \xb5s\n2\n", &PlainFormat::default()).unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn what_is_no_number_is_shown_with_its_line() {
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(said("1\n2x\n"), "line 2: \"2x\" is not a number");
        assert_eq!(said("time\n2\n"), "line 1: \"time\" is not a number; put # before a heading");
        assert_eq!(said("1\nNaN\n"), "line 2: \"NaN\" cannot be compared; take it out");
        assert_eq!(said("1\n1e999\n"), "line 2: \"1e999\" cannot be compared; take it out");
        assert!(said(&"y".repeat(99)).contains(&format!("{}...", "y".repeat(20))));
        let binary = parse(b"1\n\xff\xfe\n", &PlainFormat::default()).unwrap_err();
        assert_eq!((binary.line, binary.is_out_of_range), (2, false));
    }

    #[test]
    fn ministat_knows_comments_before_a_column_only() {
        let format = PlainFormat { comment_anywhere: false, ..Default::default() };
        assert_eq!(parse(b"1 #x\n # 3\n", &format).unwrap(), [1.0]);
        assert!(parse(b"1#x\n", &format).is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_is_read_back(values: Vec<f64>) {
            let values: Vec<f64> =
                values.into_iter().filter(|value| value.abs() <= LARGEST).collect();
            let text: String = values.iter().map(|value| format!("{value:e}\n")).collect();
            proptest::prop_assert_eq!(read(&text).unwrap(), values);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, column in 1_usize..4) {
            let format = PlainFormat { column, ..Default::default() };
            let _ = parse(&bytes, &format);
        }
    }
}
