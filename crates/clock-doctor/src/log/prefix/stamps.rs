//! Times and callers in brackets.

/// `    0.000000`, optionally with the CPU (`0.000000@0`), the caller (`0.000000,0`) or the time since the line before
/// (`1.234567 <    0.000012>`): gives the seconds, and their text.
pub(super) fn stamp(inner: &str) -> Option<(f64, &str)> {
    let number = inner.trim_start_matches(' ');
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (number, rest) = number.split_at(end);
    let (seconds, fraction) = number.split_once('.')?;
    let is_stamp = matches!(seconds.len(), 1..=12) && matches!(fraction.len(), 1..=9);
    let behind = rest.trim_start_matches(' ');
    let is_known = behind.is_empty() || behind.starts_with(['@', ',', '<']);
    if !is_stamp || !is_known || behind.len() > 40 {
        return None;
    }
    Some((number.parse().ok()?, &inner[..inner.len() - rest.len()]))
}

/// `T0`, `C3`, with blanks: the task or CPU (`CONFIG_PRINTK_CALLER`, `kernel/printk/printk.c`, 5.1).
pub(super) fn is_caller(inner: &str) -> bool {
    let inner = inner.trim_start_matches(' ');
    let number = inner.strip_prefix(['T', 'C']).unwrap_or("");
    matches!(number.len(), 1..=10) && number.bytes().all(|byte| byte.is_ascii_digit())
}
