//! System calls whose purpose is to wait.

/// System calls that return after an event or a timeout (section 2 of the manual). Their time measures
/// idleness, not cost. `read(2)` and `write(2)` wait on pipes and sockets only and are left out, as are
/// operations on files.
const WAITING: &str = "accept accept4 clock_nanosleep epoll_pwait epoll_pwait2 epoll_wait futex futex_wait \
    futex_waitv io_getevents io_pgetevents io_uring_enter mq_timedreceive mq_timedsend msgrcv msgsnd nanosleep pause \
    poll ppoll pselect6 recvfrom recvmmsg recvmsg restart_syscall rt_sigsuspend rt_sigtimedwait select semop \
    semtimedop vfork wait4 waitid";

/// Whether the purpose of the system call `name` is to wait.
pub fn waits(name: &str) -> bool {
    WAITING.split(' ').any(|waiting| waiting == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_wait() {
        assert!(waits("accept") && waits("futex") && waits("waitid"));
        assert!(!waits("wait") && !waits("accept accept4"));
        assert!(!waits("read") && !waits("clock_gettime") && !waits(""));
    }
}
