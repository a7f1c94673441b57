//! The sets of system calls that `strace` names by a word after `%`.
//!
//! Source: strace 6.1 (its trace of each class, and its manual), with the calls that were added to Linux later.

/// The names in a class, or `None` if there is no such class.
pub(super) fn class(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "clock" => CLOCK,
        "desc" => DESC,
        "file" => FILE,
        "ipc" => IPC,
        "memory" => MEMORY,
        "net" | "network" => NETWORK,
        "process" => PROCESS,
        "signal" => SIGNAL,
        _ => return None,
    })
}

/// The classes, for messages.
pub(super) const CLASSES: &str = "%clock, %desc, %file, %ipc, %memory, %network, %process, %signal";

/// Read or set a clock.
#[rustfmt::skip]
const CLOCK: &[&str] = &[
    "adjtimex", "clock_adjtime", "clock_getres", "clock_gettime", "clock_settime", "gettimeofday",
    "settimeofday", "time",
];

/// Take or make a file descriptor.
#[rustfmt::skip]
const DESC: &[&str] = &[
    "bpf", "cachestat", "close", "copy_file_range", "creat", "dup", "dup2", "dup3", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "execveat", "faccessat", "faccessat2", "fadvise64", "fallocate", "fanotify_init",
    "fanotify_mark", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl",
    "fdatasync", "fgetxattr", "file_getattr", "file_setattr", "finit_module", "flistxattr", "flock",
    "fremovexattr", "fsconfig", "fsetxattr", "fsmount", "fsopen", "fspick", "fstat", "fstatfs",
    "fsync", "ftruncate", "futimesat", "getdents", "getdents64", "getxattrat", "inotify_add_watch",
    "inotify_init", "inotify_init1", "inotify_rm_watch", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioctl", "kexec_file_load", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "linkat", "listxattrat", "lseek", "memfd_create", "memfd_secret",
    "mkdirat", "mknodat", "mmap", "mount_setattr", "move_mount", "mq_getsetattr", "mq_notify",
    "mq_open", "mq_timedreceive", "mq_timedsend", "name_to_handle_at", "newfstatat", "open",
    "open_by_handle_at", "open_tree", "open_tree_attr", "openat", "openat2", "perf_event_open",
    "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2", "poll", "ppoll", "pread64",
    "preadv", "preadv2", "process_madvise", "process_mrelease", "pselect6", "pwrite64", "pwritev",
    "pwritev2", "quotactl_fd", "read", "readahead", "readlinkat", "readv", "removexattrat",
    "renameat", "renameat2", "select", "sendfile", "setns", "setxattrat", "signalfd", "signalfd4",
    "splice", "statx", "symlinkat", "sync_file_range", "syncfs", "tee", "timerfd_create",
    "timerfd_gettime", "timerfd_settime", "unlinkat", "userfaultfd", "utimensat", "vmsplice",
    "write", "writev",
];

/// Take a file name.
#[rustfmt::skip]
const FILE: &[&str] = &[
    "access", "acct", "chdir", "chmod", "chown", "chroot", "creat", "execve", "execveat",
    "faccessat", "faccessat2", "fanotify_mark", "fchmodat", "fchmodat2", "fchownat", "file_getattr",
    "file_setattr", "fsconfig", "fspick", "futimesat", "getcwd", "getxattr", "getxattrat",
    "inotify_add_watch", "lchown", "lgetxattr", "link", "linkat", "listxattr", "listxattrat",
    "llistxattr", "lremovexattr", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat",
    "mount", "mount_setattr", "move_mount", "name_to_handle_at", "newfstatat", "open", "open_tree",
    "open_tree_attr", "openat", "openat2", "pivot_root", "quotactl", "readlink", "readlinkat",
    "removexattr", "removexattrat", "rename", "renameat", "renameat2", "rmdir", "setxattr",
    "setxattrat", "stat", "statfs", "statx", "swapoff", "swapon", "symlink", "symlinkat",
    "truncate", "umount2", "unlink", "unlinkat", "uselib", "utime", "utimensat", "utimes",
];

/// System V IPC.
#[rustfmt::skip]
const IPC: &[&str] = &[
    "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat",
    "shmctl", "shmdt", "shmget",
];

/// Memory mapping and policy.
#[rustfmt::skip]
const MEMORY: &[&str] = &[
    "brk", "get_mempolicy", "io_destroy", "io_setup", "io_uring_register", "madvise",
    "map_shadow_stack", "mbind", "migrate_pages", "mincore", "mlock", "mlock2", "mlockall", "mmap",
    "move_pages", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap",
    "pkey_mprotect", "remap_file_pages", "set_mempolicy", "set_mempolicy_home_node", "shmat",
    "shmdt",
];

/// Sockets.
#[rustfmt::skip]
const NETWORK: &[&str] = &[
    "accept", "accept4", "bind", "connect", "getpeername", "getpmsg", "getsockname", "getsockopt",
    "listen", "putpmsg", "recvfrom", "recvmmsg", "recvmsg", "sendfile", "sendmmsg", "sendmsg",
    "sendto", "setsockopt", "shutdown", "socket", "socketpair",
];

/// Process management.
#[rustfmt::skip]
const PROCESS: &[&str] = &[
    "clone", "clone3", "execve", "execveat", "exit", "exit_group", "fork", "kill",
    "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill", "vfork",
    "wait4", "waitid",
];

/// Signals.
#[rustfmt::skip]
const SIGNAL: &[&str] = &[
    "io_uring_enter", "kill", "pause", "pidfd_send_signal", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_tgsigqueueinfo", "sigaltstack", "signalfd", "signalfd4", "tgkill", "tkill",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn every_class_has_only_known_names_in_order() {
        for word in CLASSES.split(", ") {
            let members = class(&word[1..]).unwrap();
            assert!(members.is_sorted(), "{word}");
            for name in members {
                assert!(names::number(name).is_some(), "{word} has {name}");
            }
        }
    }

    #[test]
    fn classes_have_the_members_that_the_manual_of_strace_names() {
        for (word, name) in [
            ("clock", "clock_gettime"),
            ("clock", "gettimeofday"),
            ("file", "openat"),
            ("net", "recvfrom"),
            ("network", "recvfrom"),
            ("process", "clone3"),
            ("desc", "read"),
            ("memory", "mmap"),
            ("signal", "rt_sigreturn"),
            ("ipc", "semop"),
        ] {
            assert!(class(word).unwrap().contains(&name), "%{word} lacks {name}");
        }
        assert!(!class("clock").unwrap().contains(&"clock_nanosleep"), "it reads no clock");
        assert_eq!(class("clocks"), None);
    }
}
