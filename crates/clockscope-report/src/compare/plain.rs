//! Parses columns of numbers as ministat does.

/// Limit for the numbers' distance from zero: squares and sums of larger ones would be infinite.
const LARGEST: f64 = 1e150;

/// Position of the numbers in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainFormat {
    /// Column of the numbers, from 1.
    pub column: usize,
    /// Bytes that separate columns; successive ones count as one.
    pub delimiters: Vec<u8>,
}

impl Default for PlainFormat {
    fn default() -> Self {
        Self { column: 1, delimiters: b" \t".to_vec() }
    }
}

/// Parses the numbers. Empty lines and lines with fewer columns are skipped; the text after a `#` need not be
/// UTF-8.
///
/// # Errors
///
/// The first line (from 1) without a number in the column.
pub fn parse(bytes: &[u8], format: &PlainFormat) -> Result<Vec<f64>, usize> {
    let mut values = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let Some(field) = field(line, format) else { continue };
        let text = std::str::from_utf8(field).ok().map(str::trim_start);
        let value = text.and_then(|text| text.parse::<f64>().ok());
        values.push(value.filter(|value| value.abs() <= LARGEST).ok_or(index + 1)?);
    }
    Ok(values)
}

/// The field in the wanted column of a line. A `#` begins a comment only at the start of a column.
fn field<'a>(line: &'a [u8], format: &PlainFormat) -> Option<&'a [u8]> {
    let line = line.trim_ascii_end();
    let mut fields =
        line.split(|byte| format.delimiters.contains(byte)).filter(|field| !field.is_empty());
    for _ in 1..format.column {
        fields.next().filter(|field| field[0] != b'#')?;
    }
    fields.next().filter(|field| field[0] != b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<f64>, usize> {
        parse(text.as_bytes(), &PlainFormat::default())
    }

    #[test]
    fn numbers_comments_and_empty_lines() {
        let text = "# head\n1\n\n  2.5 # two\r\n3e2 9\n-4\n\t.5\n+6";
        assert_eq!(read(text).unwrap(), [1.0, 2.5, 300.0, -4.0, 0.5, 6.0]);
        assert_eq!(read("").unwrap(), [0.0; 0]);
    }

    #[test]
    fn columns_and_delimiters() {
        let format = PlainFormat { column: 2, delimiters: b",;".to_vec() };
        let found = parse(b"a,1\nb;2\nc\n,d,,3\n#,9\n", &format).unwrap();
        assert_eq!(found, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_comment_need_not_be_utf_8() {
        assert_eq!(parse(b"1 # \xb5s\n2\n", &PlainFormat::default()).unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn the_first_line_without_a_number_is_told() {
        for text in ["1\n2x\n", "1\nNaN\n", "1\n1e999\n", "1\n2#x\n"] {
            assert_eq!(read(text), Err(2), "{text}");
        }
        assert_eq!(parse(b"1\n\xff\xfe\n", &PlainFormat::default()), Err(2));
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
