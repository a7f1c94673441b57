//! Times and callers in brackets.

/// `    0.000000`, optionally with the CPU (`0.000000@0`), the caller (`0.000000,0`) or the time since the line before
/// (`1.234567 <    0.000012>`): gives the seconds, and their text.
pub(super) fn stamp(inner: &str) -> Option<(f64, &str)> {
    let bytes = inner.as_bytes();
    let blanks = bytes.iter().take_while(|byte| **byte == b' ').count();
    let (mut number, mut seconds, mut fraction) = (0_u64, 0, None);
    let mut end = blanks;
    for byte in &bytes[blanks..] {
        match (byte, &mut fraction) {
            (b'0'..=b'9', places) => {
                number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                *places.as_mut().unwrap_or(&mut seconds) += 1;
            }
            (b'.', None) => fraction = Some(0),
            _ => break,
        }
        end += 1;
    }
    let places = fraction.filter(|places| matches!(places, 1..=9) && matches!(seconds, 1..=12))?;
    let rest = inner[end..].trim_start_matches(' ');
    let is_known = rest.is_empty() || rest.starts_with(['@', ',', '<']);
    if !is_known || rest.len() > 40 || number >= 1 << f64::MANTISSA_DIGITS {
        return None;
    }
    // The quotient of two whole numbers that a double represents exactly is the nearest double, like the number parsed
    // from the text.
    #[expect(clippy::cast_precision_loss, reason = "checked above")]
    let seconds = number as f64 / 10_f64.powi(places);
    Some((seconds, &inner[..end]))
}

/// `T0`, `C3`, with blanks: the task or CPU (`CONFIG_PRINTK_CALLER`, `kernel/printk/printk.c`, 5.1).
pub(super) fn is_caller(inner: &str) -> bool {
    let inner = inner.trim_start_matches(' ');
    let number = inner.strip_prefix(['T', 'C']).unwrap_or("");
    matches!(number.len(), 1..=10) && number.bytes().all(|byte| byte.is_ascii_digit())
}
