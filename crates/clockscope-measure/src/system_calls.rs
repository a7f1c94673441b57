//! System calls as paths to measure.

use super::path::{Path, Route};
use clockscope_model::bench::{PathDecline, PathName};
use clockscope_sys::system_calls::{Once, SystemCall, TABLE};
use clockscope_text::names::NoSuchName;

/// Rows with the call that was measured, to look at its answer again.
#[derive(Debug, Default)]
pub struct Answers(Vec<(&'static SystemCall, Once)>);

impl Answers {
    /// Makes each call once more. A call whose answer has become another one was not measured all
    /// the time: it is in the answer, with the reason.
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

/// What can be measured of what was asked for.
#[derive(Debug, Default)]
pub struct SystemCalls {
    /// A path for each call that answers as it should.
    pub paths: Vec<Path>,
    /// The calls that cannot be measured here, and why.
    pub declined: Vec<PathDecline>,
    /// The same calls, to be tried again afterwards.
    pub answers: Answers,
}

/// Every name, in the order of the table.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}

/// The paths of the named system calls, in the order given and each once; of all if there are no
/// names. Each call is tried once: one that a filter forbids, or that this kernel does not have, is
/// declined with the kernel's answer.
///
/// # Errors
///
/// A name that the table does not have.
pub fn paths(names: &[String]) -> Result<SystemCalls, NoSuchName> {
    let mut calls = SystemCalls::default();
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
        let error = paths(&words("getppid getpidd")).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "no system call to measure is called \"getpidd\"; did you mean getpid? \
                 there are getppid, "
            ),
            "{error}"
        );
        let error = paths(&words("perf_event_open")).unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    /// What a filter does to a call afterwards, done here by a table row that expects something
    /// else.
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
        assert!(prepared(&STRICT).unwrap_err().starts_with("the kernel refuses it here"));
    }
}
