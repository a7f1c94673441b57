//! Times and callers in brackets.

/// `    0.000000`, also with the CPU (`0.000000@0`), the caller (`0.000000,0`) or the time since the
/// line before (`1.234567 <    0.000012>`): the seconds, and their text.
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
    // Of two whole numbers that a double holds, the quotient is the nearest double, as is the
    // number that is read from the text.
    #[expect(clippy::cast_precision_loss, reason = "checked above")]
    let seconds = number as f64 / 10_f64.powi(places);
    Some((seconds, &inner[..end]))
}

/// `+0.000012` or `<    0.000012>`: only the time since the line before.
pub(super) fn is_delta(inner: &str) -> bool {
    let inner = inner.trim();
    let number = inner
        .strip_prefix('+')
        .or_else(|| inner.strip_prefix('<'))
        .map(|rest| rest.strip_suffix('>').unwrap_or(rest).trim());
    number.is_some_and(|text| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// `T0`, `C3`, with blanks: the task or CPU (`CONFIG_PRINTK_CALLER`, `kernel/printk/printk.c`, 5.1).
pub(super) fn is_caller(inner: &str) -> bool {
    let inner = inner.trim_start_matches(' ');
    let number = inner.strip_prefix(['T', 'C']).unwrap_or("");
    matches!(number.len(), 1..=10) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// `(0)[1:swapper/0]`, which MediaTek's kernels put behind the stamp.
pub(super) fn mediatek(text: &str) -> Option<&str> {
    let (cpu, after) = text.strip_prefix('(')?.split_once(')')?;
    let is_cpu = matches!(cpu.len(), 1..=3) && cpu.bytes().all(|byte| byte.is_ascii_digit());
    let (task, after) = after.strip_prefix('[')?.split_once(']')?;
    (is_cpu && task.contains(':') && task.len() < 40).then_some(after)
}

/// `c0      0 `, which some Android kernels put behind the stamp: CPU and process.
pub(super) fn android_cpu(text: &str) -> Option<&str> {
    let (cpu, after) = text.strip_prefix('c')?.split_once(' ')?;
    let after = after.trim_start_matches(' ');
    let (process, after) = after.split_once(' ')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(cpu) && cpu.len() <= 3 && is_number(process)).then_some(after)
}
