//! From the words of the command line to paths.

use anyhow::{Result, bail};

use super::Request;
use crate::clocks::{self, Declined};
use crate::path::{Path, Route, Subject};
use crate::system_calls::{self, Answers, SystemCalls};
use clockscope_model::bench::{PathDecline, PathName};
use clockscope_sys::vdso_functions::Functions;

/// The word that stands for system calls in place of clocks.
const SYSTEM_CALLS: &str = "syscalls";

/// What is to be measured.
#[derive(Debug)]
pub struct Chosen {
    /// The loop without a call first, then what was asked for.
    pub paths: Vec<Path>,
    /// What was asked for and is not possible on this machine.
    pub declined: Vec<Declined>,
    /// The answers of system calls, to be looked at again after measuring.
    pub answers: Answers,
}

/// Finds the paths that the command line names.
///
/// # Errors
///
/// A name that does not exist.
pub fn choose(request: &Request) -> Result<Chosen> {
    let SystemCalls { mut paths, declined, answers } = match request.names.split_first() {
        Some((first, names)) if first.eq_ignore_ascii_case(SYSTEM_CALLS) => {
            system_calls(names, &request.routes)?
        }
        _ => {
            let chosen = clocks::choose(&request.names, &request.routes)?;
            let (paths, declined) = clocks::paths(&chosen, &Functions::own());
            SystemCalls { paths, declined, answers: Answers::default() }
        }
    };
    paths.insert(0, clocks::empty_loop());
    Ok(Chosen { paths, declined, answers })
}

/// The paths of system calls, which have one route.
fn system_calls(names: &[String], routes: &[String]) -> Result<SystemCalls> {
    let route = Route::Syscall.name();
    if !routes.is_empty() && !routes.iter().any(|word| word.trim().eq_ignore_ascii_case(route)) {
        bail!("system calls are made by route {route} only, not by {}", routes.join(" or "));
    }
    Ok(system_calls::paths(names)?)
}

/// What a path is called in reports.
pub(super) fn name_of(path: &Path) -> PathName {
    name(&path.subject, path.route.name())
}

/// What was declined, as in reports.
pub(super) fn decline_of(declined: &Declined) -> PathDecline {
    PathDecline {
        name: name(&declined.subject, declined.route.name()),
        reason: declined.reason.clone(),
    }
}

fn name(subject: &Subject, route: &str) -> PathName {
    let route = route.to_owned();
    match subject {
        Subject::Clock(name) => PathName { clock: Some((*name).to_owned()), call: None, route },
        Subject::Call(name) => PathName { clock: None, call: Some((*name).to_owned()), route },
    }
}
