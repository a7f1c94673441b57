//! Any lines are expressions of `-e`: accepted, or refused with a reason; a set and its opposite share no call.
#![no_main]

use clockscope_syscalls::filter::Filter;

/// More than the number of system calls.
const LIMIT: u32 = 600;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let expressions: Vec<&str> = text.lines().collect();
    let filter = match Filter::parse(&expressions) {
        Ok(filter) => filter,
        // The reason may contain control characters: the caller that prints it makes it printable.
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Some(numbers) = filter.numbers(LIMIT) else { return assert!(expressions.is_empty()) };
    assert!(numbers.is_sorted() && numbers.iter().all(|number| *number < LIMIT));
    let [only] = expressions[..] else { return };
    let list = only.trim();
    let list = list.strip_prefix("trace=").or(list.strip_prefix("t=")).unwrap_or(list);
    if list.starts_with('!') {
        return;
    }
    let opposite = Filter::parse(&[format!("!{list}")]).expect("is understood without the sign");
    for name in ["clock_gettime", "__vdso_time", "futex", "openat", "syscall_9999", "no such call"]
    {
        assert_ne!(filter.matches(name), opposite.matches(name), "{name} of {list:?}");
    }
});
