//! Reads a program's name and memory layout from `/proc/PID/stat` in one read.

use std::fmt::Display;

use clockscope_sys::proc_text;
use clockscope_text::foreign::Foreign;

/// The contents of `/proc/PID/stat`.
#[derive(Debug)]
pub(crate) struct ProcStat(String);

impl ProcStat {
    /// Reads the file of a task, given as a path below `/proc`; `None` if the task is gone.
    pub(crate) fn of(task: impl Display) -> Option<Self> {
        proc_text::read(format!("/proc/{task}/stat")).ok().map(Self)
    }

    /// The name, and the text behind it. The name can contain parentheses, so the last one ends it.
    fn parts(&self) -> Option<(&str, &str)> {
        let (before, behind) = self.0.rsplit_once(')')?;
        Some((before.split_once('(')?.1, behind))
    }

    /// The name of the program, as `ps` shows it.
    pub(crate) fn name(&self) -> Option<Foreign> {
        self.parts().map(|(name, _)| name.trim_end().into())
    }

    /// State of the task as a letter.
    pub(crate) fn state(&self) -> Option<char> {
        self.parts()?.1.trim_start().chars().next()
    }

    /// Fields by their numbers in proc_pid_stat(5).
    pub(crate) fn fields<const N: usize>(&self, numbers: [usize; N]) -> Option<[u64; N]> {
        let fields: Vec<&str> = self.parts()?.1.split_ascii_whitespace().collect();
        let mut values = [0; N];
        for (value, number) in values.iter_mut().zip(numbers) {
            // The first two fields precede `behind`.
            *value = fields.get(number.checked_sub(3)?)?.parse().ok()?;
        }
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_parentheses_and_lines() {
        let stat = ProcStat("7 (a) (b\n c) S 6 5 18446744073709551615\n".to_owned());
        assert_eq!((stat.name(), stat.state()), (Some("a) (b\n c".into()), Some('S')));
        assert_eq!(stat.fields([4, 6]), Some([6, u64::MAX]));
        assert_eq!(stat.fields([3]), None, "the state is no number");
        assert_eq!(stat.fields([7]), None);
        assert_eq!(stat.fields([0]), None);
        assert_eq!(ProcStat("7 a S".to_owned()).name(), None);
    }

    #[test]
    fn this_process_is_called_as_it_is_elsewhere() {
        let me = i32::try_from(std::process::id()).unwrap();
        let stat = ProcStat::of(me).unwrap();
        assert_eq!(stat.name(), Some(crate::attach::command_name(me)));
        let [start, end] = stat.fields([26, 27]).unwrap();
        assert!(start < end);
    }
}
