//! Parses numbers and names; accepts complete ones only.

/// Maximum length of a name: the kernel's have up to 32 bytes (`CS_NAME_LEN`, `kernel/time/tick-internal.h`), others a
/// line.
const NAME_MAX: usize = 64;
const PHRASE_MAX: usize = 300;

/// The text after `label`.
pub(super) fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.split_once(label).map(|(_, rest)| rest)
}

/// A number in decimal digits, and the rest of the text. A number at the end of the line may have lost digits, as may
/// one before a pager's `>`; no format ends with a number.
pub(super) fn decimal(text: &str) -> Option<(u64, &str)> {
    digits(text.trim_start(), 10)
}

/// [`decimal`] with a sign.
pub(super) fn signed(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let (number, rest) = digits(text.strip_prefix('-').unwrap_or(text), 10)?;
    let number = i64::try_from(number).ok()?;
    Some((if text.starts_with('-') { -number } else { number }, rest))
}

/// A number in hexadecimal digits, with or without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    digits(text.strip_prefix("0x").unwrap_or(text), 16)
}

fn digits(text: &str, radix: u32) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_digit(radix))?;
    let (number, rest) = text.split_at(end);
    let is_cut = rest.starts_with(['>', '…', '\u{fffd}']) || rest.starts_with("...");
    let number = u64::from_str_radix(number, radix).ok()?;
    (!is_cut).then_some((number, rest))
}

/// `N MHz`, with or without a fraction.
pub(super) fn megahertz(text: &str) -> Option<f64> {
    let (number, unit) = text.trim_start().split_once(' ')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mhz: f64 = number.parse().ok().filter(|_| is_number && unit.starts_with("MHz"))?;
    (mhz > 0.0 && mhz < 1e6).then_some(mhz)
}

/// A name in quotes, or up to a blank or colon, and the rest of the text. A name before a pager's `>`, or without its
/// closing quote, is incomplete.
pub(super) fn name(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (name, rest) = match text.strip_prefix(['\'', '`', '"']) {
        Some(quoted) => {
            let end = quoted.find(['\'', '"'])?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            let end = text.find([' ', ':']).unwrap_or(text.len());
            let name = text[..end].trim_end_matches('.');
            (name, &text[name.len()..])
        }
    };
    is_name(name).then_some((name, rest))
}

/// The last name in `text`, with or without quotes.
pub(super) fn last_name(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let name = match text.strip_suffix('\'') {
        // Without the opening quote, a fold has cut the name.
        Some(quoted) => quoted.rsplit_once('\'')?.1,
        None => text.rsplit(' ').next()?,
    };
    is_name(name).then_some(name)
}

/// Letters, digits, `_` and `-`; within a name also what device trees put there: `arm,sp804`, `timer@1c20c00`.
pub(crate) fn is_name(name: &str) -> bool {
    // A folded line may begin with a number.
    !name.bytes().all(|byte| byte.is_ascii_digit())
        && name.len() <= NAME_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-,@.".contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// The rest of a line; without the pager's mark if the line is cut.
pub(super) fn phrase(text: &str) -> String {
    let text = text.trim().trim_end_matches('>').trim_end();
    text.chars().take(PHRASE_MAX).collect()
}
