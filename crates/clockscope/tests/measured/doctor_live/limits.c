// A library for LD_PRELOAD that puts limits on its program before `main`. Defined when it is compiled:
// DENY_TSC: reading the counter is a fault.
// FILTER_ALL: a filter that lets every system call pass.
// KEEP_DENIED: a filter that refuses `prctl(PR_SET_TSC, ...)` and allows all other calls.
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static struct sock_filter filter[] = {
#ifdef KEEP_DENIED
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_prctl},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[0])},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PR_SET_TSC},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 1},
#endif
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
};

__attribute__((constructor)) static void before_main(void)
{
#ifdef DENY_TSC
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
#endif
#if defined FILTER_ALL || defined KEEP_DENIED
    struct sock_fprog program = {LENGTH(filter), filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
#else
    (void)filter;
#endif
}
