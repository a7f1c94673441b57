//! The lines of `/proc/PID/maps`.

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The address of its first byte.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// Read, write, execute and private or shared, as in `r-xp`.
    pub perms: String,
    /// A path, a name in brackets such as `[vdso]`, or empty.
    pub name: String,
}

impl Mapping {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.end - self.start
    }

    /// Whether this address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Parses all lines; malformed lines are left out.
///
/// # References
///
/// - `proc_pid_maps(5)`
pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses one line: `start-end perms offset device inode name`.
pub(crate) fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let (perms, mut rest) = rest.split_once(' ')?;
    for _offset_device_inode in 0..3 {
        rest = rest.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
    }
    (start <= end && perms.len() == 4).then(|| Mapping {
        start,
        end,
        perms: perms.to_owned(),
        name: rest.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_addresses_permissions_and_a_name() {
        let line =
            "7ffe6e5f2000-7ffe6e5f4000 r-xp 00000000 00:00 0                          [vdso]";
        let mapping = parse_line(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7ffe_6e5f_2000, 0x7ffe_6e5f_4000));
        assert_eq!((mapping.perms.as_str(), mapping.name.as_str()), ("r-xp", "[vdso]"));
        assert_eq!(mapping.size(), 0x2000);
        assert!(mapping.contains(mapping.start) && !mapping.contains(mapping.end));
    }

    #[test]
    fn names_may_be_missing_or_have_spaces() {
        let text = "1000-2000 rw-p 00000000 00:00 0 \n\
                    2000-3000 r--s 00001000 fe:00 1234     /tmp/a b (deleted)\n\
                    3000-4000 rw-p 00000000 00:00 0";
        let names: Vec<String> = parse(text).into_iter().map(|mapping| mapping.name).collect();
        assert_eq!(names, ["", "/tmp/a b (deleted)", ""]);
    }

    #[test]
    fn other_lines_are_left_out() {
        for line in
            ["", "x", "1-", "2000-1000 r-xp 0 0 0", "1000-2000", "zz-10 rwxp 0 0 0", "1-2 r 0"]
        {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }
}
