//! The reasons why eBPF cannot count system calls.

use std::error::Error;
use std::io;

/// Why eBPF cannot count system calls on this host; prints as a clause with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BpfDecline {
    /// The program was compiled without the eBPF part.
    #[error("clockscope was built without clang and so without eBPF; build it again with clang")]
    NotBuilt,
    /// The kernel refuses eBPF to this user.
    #[error("eBPF is not allowed; run as root or with CAP_BPF and CAP_PERFMON")]
    NotAllowed,
    /// The kernel does not describe its own types.
    #[error(
        "the kernel has no /sys/kernel/btf/vmlinux; use a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The kernel refused an operation: its name, and the kernel's answer in one line.
    #[error("the kernel refused to {what}: {reason}; Linux 5.12 or newer is needed")]
    Refused {
        /// The operation, as a verb with its object.
        what: String,
        /// The kernel's answer.
        reason: String,
    },
}

impl BpfDecline {
    /// The reason for an error of the loader while it tried to `what`.
    pub(super) fn from_error(what: &str, error: &(dyn Error + 'static)) -> Self {
        let mut reason = error.to_string();
        let mut source = Some(error);
        while let Some(error) = source {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if kind == Some(io::ErrorKind::PermissionDenied) {
                return Self::NotAllowed;
            }
            if kind.is_some() && !reason.contains(&error.to_string()) {
                reason = format!("{reason}: {error}");
            }
            source = error.source();
        }
        Self::Refused { what: what.to_string(), reason: one_line(&reason) }
    }
}

/// The most informative line of a loader's error: the verifier's last message, or the first line.
fn one_line(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines().next().unwrap_or("no reason given");
    let verdict = lines()
        .skip(1)
        .filter(|line| !line.starts_with("processed ") && !line.starts_with("verification time"))
        .last();
    let line = match verdict {
        Some(verdict) => format!("{first} ... {verdict}"),
        None => first.to_string(),
    };
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create map `rows`")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_permission_error_anywhere_in_the_chain_is_a_lack_of_privilege() {
        let error = Outer(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(BpfDecline::from_error("load it", &error), BpfDecline::NotAllowed);
    }

    #[test]
    fn other_errors_keep_the_cause_in_one_line() {
        let error = Outer(io::Error::from_raw_os_error(libc::E2BIG));
        let text = BpfDecline::from_error("load it", &error).to_string();
        assert!(text.contains("refused to load it: failed to create map `rows`: "), "{text}");
        assert!(text.contains("os error 7"), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn a_verifier_log_is_cut_to_its_verdict() {
        let log = "load failed. Verifier output: 0: R1=ctx()\n1: (85) call 158\n\
                   unknown func bpf_get_current_task_btf#158\n\
                   processed 2 insns (limit 1000000)\n";
        assert_eq!(
            one_line(log),
            "load failed. Verifier output: 0: R1=ctx() ... \
             unknown func bpf_get_current_task_btf#158"
        );
        assert!(one_line(&"x".repeat(1000)).len() < 210);
        assert_eq!(one_line(""), "no reason given");
    }
}
