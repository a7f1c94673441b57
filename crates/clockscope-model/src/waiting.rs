//! System calls whose purpose is to wait.

/// System calls that return after an event or a timeout (section 2 of the manual). Their time measures
/// idleness, not cost. `read(2)` and `write(2)` wait on pipes and sockets only and are left out, as are
/// operations on files.
const WAITING: [&str; 33] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "futex_wait",
    "futex_waitv",
    "io_getevents",
    "io_pgetevents",
    "io_uring_enter",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "restart_syscall",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "semop",
    "semtimedop",
    "vfork",
    "wait4",
    "waitid",
];

/// Whether the purpose of the system call `name` is to wait.
pub fn waits(name: &str) -> bool {
    WAITING.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(WAITING.is_sorted());
        assert!(WAITING.iter().all(|name| waits(name)));
        assert!(!waits("read") && !waits("clock_gettime") && !waits(""));
    }
}
