//! The names of this architecture's system calls, up to Linux 6.18.

use crate::arch::names::EARLY;

/// The name of a system call; `syscall_N` if the number `N` has none.
pub fn name(number: u32) -> String {
    known_name(number).map_or_else(|| format!("syscall_{number}"), str::to_string)
}

/// The name of a system call, if the number has one.
pub(crate) fn known_name(number: u32) -> Option<&'static str> {
    let late = number.checked_sub(FIRST_LATE).and_then(|place| LATE.get(place as usize));
    EARLY.get(number as usize).or(late).copied().filter(|name| !name.is_empty())
}

/// The number of a system call by its name.
pub fn number(name: &str) -> Option<u32> {
    all().find(|call| call.1 == name).map(|call| call.0)
}

/// Every system call that has a name, in order of numbers.
pub fn all() -> impl Iterator<Item = (u32, &'static str)> {
    let all = (0..).zip(EARLY).chain((FIRST_LATE..).zip(LATE));
    all.map(|(number, name)| (number, *name)).filter(|(_, name)| !name.is_empty())
}

/// The first number after the gap: since Linux 5.1 all architectures share the new numbers.
const FIRST_LATE: u32 = 424;

/// Numbers from [`FIRST_LATE`].
#[rustfmt::skip]
const LATE: &[&str] = &[
    "pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree",
    "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open", "clone3", "close_range",
    "openat2", "pidfd_getfd", "faccessat2", "process_madvise", "epoll_pwait2", "mount_setattr",
    "quotactl_fd", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    "memfd_secret", "process_mrelease", "futex_waitv", "set_mempolicy_home_node", "cachestat",
    "fchmodat2", "map_shadow_stack", "futex_wake", "futex_wait", "futex_requeue", "statmount",
    "listmount", "lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal",
    "setxattrat", "getxattrat", "listxattrat", "removexattrat", "open_tree_attr", "file_getattr",
    "file_setattr",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_of_the_c_library_agree() {
        for (number, name) in [
            (libc::SYS_read, "read"),
            (libc::SYS_getppid, "getppid"),
            (libc::SYS_clock_gettime, "clock_gettime"),
            (libc::SYS_rseq, "rseq"),
            (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
            (libc::SYS_clone3, "clone3"),
            (libc::SYS_futex_waitv, "futex_waitv"),
            (libc::SYS_mseal, "mseal"),
        ] {
            assert_eq!(known_name(u32::try_from(number).unwrap()), Some(name));
        }
        assert_eq!(known_name(u32::try_from(EARLY.len()).unwrap() - 1), EARLY.last().copied());
        assert_eq!(known_name(469), Some("file_setattr"));
    }

    #[test]
    fn names_and_numbers_are_inverse_and_unique() {
        let names: HashSet<_> = all().map(|call| call.1).collect();
        assert_eq!(names.len(), all().count());
        for (of, called) in all() {
            assert_eq!(known_name(of), Some(called));
            assert_eq!(number(called), Some(of));
        }
    }

    #[test]
    fn a_number_without_a_name_is_printed_as_one() {
        for number in [u32::try_from(EARLY.len()).unwrap(), 423, 470, u32::MAX] {
            assert_eq!(name(number), format!("syscall_{number}"));
        }
    }
}
