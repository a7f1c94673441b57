//! System calls as paths to measure.

use super::path::{Path, Route};
use clockscope_model::bench::{PathDecline, PathName};
use clockscope_sys::system_calls::{Once, SystemCall, TABLE};
use clockscope_text::names::NoSuchName;

/// Rows with their measured calls, whose answers are checked again.
#[derive(Default)]
pub struct Answers(Vec<(&'static SystemCall, Once)>);

impl Answers {
    /// Makes each call once more. A call whose answer has changed was not measured throughout; it is returned
    /// with the reason.
    pub fn changed(&self) -> Vec<PathDecline> {
        let tried = self.0.iter().map(|(row, once)| (row, row.try_once(once)));
        tried
            .filter_map(|(row, answer)| {
                let reason = format!("it stopped working while it was measured: {}", answer.err()?);
                Some(PathDecline { name: name(row), reason })
            })
            .collect()
    }
}

/// Paths to measure.
#[derive(Default)]
pub struct Chosen {
    /// The chosen paths; `bench` has the loop without a call before them.
    pub paths: Vec<Path>,
    /// Chosen paths that this machine does not have, with reasons.
    pub declined: Vec<PathDecline>,
    /// Expected answers of the system calls, to be checked again after measuring.
    pub answers: Answers,
}

/// Every name, in the order of the table.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}

/// The paths of the named system calls, in the given order and each once; without names, of all. Each call is
/// tried once. A call that a filter forbids or this kernel lacks is declined with the kernel's answer.
///
/// # Errors
///
/// When the table does not have a name.
pub fn paths(names: &[String]) -> Result<Chosen, NoSuchName> {
    let mut calls = Chosen::default();
    for row in chosen(names)? {
        match prepared(row) {
            Ok((path, once)) => {
                calls.paths.push(path);
                calls.answers.0.push((row, once));
            }
            Err(reason) => calls.declined.push(PathDecline { name: name(row), reason }),
        }
    }
    Ok(calls)
}

fn name(row: &SystemCall) -> PathName {
    let route = if row.by_libc { Route::Libc } else { Route::Syscall };
    PathName { clock: None, call: Some(row.name.to_owned()), route: route.name().to_owned() }
}

fn chosen(names: &[String]) -> Result<Vec<&'static SystemCall>, NoSuchName> {
    if names.is_empty() {
        return Ok(TABLE.iter().collect());
    }
    let mut chosen: Vec<&SystemCall> = Vec::new();
    for name in names {
        let wanted = name.to_ascii_lowercase();
        let wanted = wanted.strip_prefix("sys_").unwrap_or(&wanted);
        let row = TABLE.iter().find(|row| row.name == wanted);
        let unknown = || NoSuchName::new("system call to measure", name, name, &self::names());
        let row = row.ok_or_else(unknown)?;
        if chosen.iter().all(|other| other.name != row.name) {
            chosen.push(row);
        }
    }
    Ok(chosen)
}

fn prepared(row: &SystemCall) -> Result<(Path, Once), String> {
    let prepared = (row.prepare)().map_err(|error| error.to_string())?;
    row.try_once(&prepared.once).map_err(|error| format!("the kernel refuses it here: {error}"))?;
    Ok((Path { name: name(row), calling: prepared.calling }, prepared.once))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &str) -> Vec<String> {
        list.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn no_names_mean_the_whole_table() {
        let all = paths(&[]).unwrap();
        assert_eq!(all.paths.len() + all.declined.len(), names().len());
        assert!(all.answers.changed().is_empty());
    }

    #[test]
    fn names_choose_in_their_order_and_once_each() {
        let calls = paths(&words("read GETPPID read")).unwrap();
        let paths: Vec<String> = calls.paths.iter().map(ToString::to_string).collect();
        assert_eq!(paths, ["read by syscall", "getppid by syscall"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_the_list() {
        let error = paths(&words("getppid getpidd")).err().unwrap().to_string();
        assert!(
            error.starts_with(
                "no system call to measure is called \"getpidd\"; did you mean getpid? \
                 there are getppid, "
            ),
            "{error}"
        );
        let error = paths(&words("perf_event_open")).err().unwrap().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    /// A filter set during the measurement would change a call's answer; here a table row with another
    /// expected answer stands for that.
    #[test]
    fn a_call_that_changes_its_answer_is_reported() {
        static STRICT: SystemCall = SystemCall {
            name: "getppid",
            expected_error: Some(1),
            by_libc: false,
            prepare: TABLE[0].prepare,
        };
        let once = (STRICT.prepare)().unwrap().once;
        let changed = Answers(vec![(&STRICT, once)]).changed();
        assert_eq!(changed.len(), 1);
        assert!(changed[0].reason.starts_with("it stopped working"), "{}", changed[0].reason);
        assert!(prepared(&STRICT).err().unwrap().starts_with("the kernel refuses it here"));
    }
}
