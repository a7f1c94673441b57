// Programs under limits: `confined LIMIT` sets the limit for itself and then reads clocks; `confined LIMIT exec
// PROGRAM...` executes PROGRAM under the limit instead.
//
// Exact: libc start-up makes no vDSO calls. The limits that forbid system calls end the program by a signal
// if a tracer makes such a call on its behalf.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#ifdef SYS_time // old calls, which arm64 does not have
#define OLD_CLOCK_CALLS SYS_time,
#define OLD_START_CALLS SYS_arch_prctl, SYS_readlink,
#else
#define OLD_CLOCK_CALLS
#define OLD_START_CALLS
#endif
static const int clock_calls[] = {OLD_CLOCK_CALLS SYS_clock_gettime, SYS_gettimeofday, SYS_getcpu, SYS_clock_getres};
// Calls that a static program needs to start, write and end. Mapping, opening and tracing are forbidden.
static const int start_calls[] = {OLD_START_CALLS SYS_execve, SYS_brk, SYS_set_tid_address, SYS_set_robust_list,
    SYS_rseq, SYS_prlimit64, SYS_readlinkat, SYS_getrandom, SYS_mprotect, SYS_write, SYS_exit_group};
static const int ptrace_calls[] = {SYS_ptrace};
static const int affinity_calls[] = {SYS_sched_setaffinity};

// Filters system calls: the calls in the list get `listed`, all others `others`.
static void filter(const int *list, size_t length, unsigned listed, unsigned others)
{
    struct sock_filter program[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    size_t n = 1;
    for (size_t i = 0; i < length; i++) {
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i], 0, 1);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    struct sock_fprog filter = {(unsigned short)n, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0)
        exit(1);
}

static void limit(int resource, unsigned long value)
{
    struct rlimit limits = {value, value};
    if (setrlimit(resource, &limits) != 0) exit(1);
}

static void impose(const char *name)
{
    const unsigned allow = SECCOMP_RET_ALLOW, kill = SECCOMP_RET_KILL_PROCESS;
    if (strcmp(name, "clock-calls-kill") == 0) filter(clock_calls, LENGTH(clock_calls), kill, allow);
    else if (strcmp(name, "all-but-start-kill") == 0) filter(start_calls, LENGTH(start_calls), allow, kill);
    else if (strcmp(name, "no-ptrace") == 0) filter(ptrace_calls, 1, SECCOMP_RET_ERRNO | EPERM, allow);
    else if (strcmp(name, "no-affinity") == 0) filter(affinity_calls, 1, SECCOMP_RET_ERRNO | EPERM, allow);
    else if (strcmp(name, "no-tsc") == 0) prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    else if (strcmp(name, "undumpable") == 0) prctl(PR_SET_DUMPABLE, 0);
    else if (strncmp(name, "files=", 6) == 0) limit(RLIMIT_NOFILE, strtoul(name + 6, NULL, 10));
    else if (strncmp(name, "stack=", 6) == 0) limit(RLIMIT_STACK, strtoul(name + 6, NULL, 10) << 10);
    else if (strcmp(name, "write-or-execute") == 0) {
        if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) exit(77); // Linux before 6.3 does not know it
    } else if (strncmp(name, "data=", 5) == 0) limit(RLIMIT_DATA, strtoul(name + 5, NULL, 10) << 10);
    else if (strncmp(name, "kib=", 4) == 0) limit(RLIMIT_AS, strtoul(name + 4, NULL, 10) << 10);
    else if (strcmp(name, "stdout-only") == 0) {
        syscall(SYS_close_range, 2, ~0U, 0);
        close(0);
    } else if (strcmp(name, "nothing") != 0) exit(2);
}

static void read_clock(clockid_t clock, const char *name, long calls)
{
    struct timespec now;
    REPEAT(calls) if (clock_gettime(clock, &now) != 0) exit(3);
    say_vdso("clock_gettime", name, calls);
}

int main(int count, char **arguments)
{
    if (count < 2) return 2;
    impose(arguments[1]);
    if (count > 3) {
        execv(arguments[3], arguments + 3);
        return 126;
    }
    read_clock(CLOCK_REALTIME_COARSE, "CLOCK_REALTIME_COARSE", 211);
    read_clock(CLOCK_MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE", 307);
    REPEAT(101) time(NULL);
#ifdef SYS_time
    say_vdso("time", "-", 101);
#else // the arm64 vDSO has no `time` function
    say_vdso("clock_gettime", "CLOCK_REALTIME_COARSE", 101);
#endif
    if (strcmp(arguments[1], "no-tsc") == 0) return 0;
    struct timeval now;
    REPEAT(503) gettimeofday(&now, NULL);
    say_vdso("gettimeofday", "-", 503);
    read_clock(CLOCK_TAI, "CLOCK_TAI", 1009);
    return 0;
}
