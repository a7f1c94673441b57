//! Chooses paths by the words of the command line.

use anyhow::{Result, bail};

use super::Request;
use crate::clocks;
use crate::path::Route;
use crate::system_calls::{self, Chosen};
use clockscope_sys::vdso_functions::Functions;

/// The word for all system calls.
const SYSTEM_CALLS: &str = "syscalls";

/// Finds the paths that the command line names.
///
/// # Errors
///
/// When a name does not exist.
pub fn choose(request: &Request) -> Result<Chosen> {
    let words = request.names.as_slice();
    let (before, after) = match words.iter().position(|word| is(word, SYSTEM_CALLS)) {
        Some(at) => (&words[..at], Some(&words[at + 1..])),
        None => (words, None),
    };
    let (mut calls, read): (Vec<String>, Vec<String>) =
        before.iter().cloned().partition(|word| is_system_call(word));
    // Without names: all clocks, or after the word `syscalls` all system calls.
    let has_calls = after.is_some() || !calls.is_empty();
    calls.extend(after.into_iter().flatten().cloned());
    let mut chosen = Chosen::default();
    if !read.is_empty() || !has_calls {
        let clocks = clocks::choose(&read, &request.routes)?;
        (chosen.paths, chosen.declined) = clocks::paths(&clocks, &Functions::own());
    }
    if has_calls {
        let calls = system_calls(&calls, &request.routes)?;
        chosen.paths.extend(calls.paths);
        chosen.declined.extend(calls.declined);
        chosen.answers = calls.answers;
    }
    chosen.paths.insert(0, clocks::empty_loop());
    Ok(chosen)
}

fn is(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

/// Whether a word names a system call and no clock.
fn is_system_call(word: &str) -> bool {
    clocks::choose(&[word.to_owned()], &[]).is_err()
        && system_calls::names().iter().any(|name| is(word, name))
}

/// The paths of system calls, which have one route.
fn system_calls(names: &[String], routes: &[String]) -> Result<Chosen> {
    let route = Route::Syscall.name();
    if !routes.is_empty() && !routes.iter().any(|word| word.trim().eq_ignore_ascii_case(route)) {
        bail!("system calls are made by route {route} only, not by {}", routes.join(" or "));
    }
    Ok(system_calls::paths(names)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;

    fn subjects(words: &[&str]) -> Vec<String> {
        let names = words.iter().map(ToString::to_string).collect();
        let request = Request { names, routes: vec!["syscall".to_owned()], ..Request::default() };
        let chosen = choose(&request).unwrap();
        let of =
            |path: &Path| path.name.clock.clone().or(path.name.call.clone()).unwrap_or_default();
        let mut subjects: Vec<String> = chosen.paths[1..].iter().map(of).collect();
        subjects.dedup();
        subjects
    }

    #[test]
    fn clocks_and_system_calls_are_named_together() {
        assert_eq!(subjects(&["monotonic", "getppid"]), ["CLOCK_MONOTONIC", "getppid"]);
        assert_eq!(subjects(&["getppid"]), ["getppid"]);
        assert_eq!(subjects(&["syscalls", "getppid"]), ["getppid"]);
        let with_all = subjects(&["monotonic", "syscalls"]);
        assert_eq!(with_all[0], "CLOCK_MONOTONIC");
        assert!(with_all.len() > 3, "{with_all:?}");
        assert_eq!(subjects(&["syscalls"]), with_all[1..]);
        assert!(!subjects(&[]).contains(&"getppid".to_owned()));
    }

    #[test]
    fn what_is_neither_is_told() {
        let request = Request { names: vec!["monotonix".to_owned()], ..Request::default() };
        let error = choose(&request).err().unwrap().to_string();
        assert!(error.contains("did you mean monotonic"), "{error}");
    }
}
