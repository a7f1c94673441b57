// Every clock that libc reads through the vDSO, a prime number of times each, and system calls.
//
// Exact: libc's start-up and stdio make no vDSO calls, so the table of vDSO calls must equal
// these lines with nothing left over. No libc start-up calls getppid, time or fchdir.
// Built with: glibc dynamic, static, static-pie, static at a fixed address; musl static and dynamic;
// AddressSanitizer, whose runtime reads no clock either; for 32 bits, where nothing is counted.
#define _GNU_SOURCE
#include "say.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static void read_clock(clockid_t clock, const char *name, long calls)
{
    struct timespec now;
    REPEAT(calls) clock_gettime(clock, &now);
    say_vdso("clock_gettime", name, calls);
}
#define READ(clock, calls) read_clock(clock, #clock, calls)

int main(void)
{
    struct timespec now;
    struct timeval day;
    READ(CLOCK_REALTIME, 211);
    READ(CLOCK_MONOTONIC, 307);
    READ(CLOCK_MONOTONIC_RAW, 401);
    READ(CLOCK_REALTIME_COARSE, 503);
    READ(CLOCK_MONOTONIC_COARSE, 601);
    READ(CLOCK_BOOTTIME, 701);
    READ(CLOCK_TAI, 1009);
    READ(CLOCK_PROCESS_CPUTIME_ID, 13); // for this and the next clock the vDSO makes a system call
    READ(CLOCK_BOOTTIME_ALARM, 17);
    clockid_t of_this_process = (clockid_t)(~(unsigned)getpid() << 3 | 2);
    read_clock(of_this_process, "other", 19);
    REPEAT(23) if (clock_gettime(99, &now) == 0) return 1; // no such clock
    say_vdso("clock_gettime", "other", 23);
    REPEAT(809) gettimeofday(&day, NULL);
    REPEAT(907) time(NULL);
    REPEAT(29) clock_getres(CLOCK_TAI, &now);
#ifdef __GLIBC__
    say_vdso("gettimeofday", "-", 809);
    say_vdso("clock_getres", "CLOCK_TAI", 29);
#ifdef SYS_time
    say_vdso("time", "-", 907);
#else // the arm64 vDSO has no `time` function
    say_vdso("clock_gettime", "CLOCK_REALTIME_COARSE", 907);
#endif
#else // musl has a single path to the vDSO, and none for clock_getres
    say_vdso("clock_gettime", "CLOCK_REALTIME", 809 + 907);
    say_syscall("clock_getres", 29);
#endif
    REPEAT(223) syscall(SYS_getppid);
    say_syscall("getppid", 223);
#ifdef SYS_time
    REPEAT(41) syscall(SYS_time, NULL);
    say_syscall("time", 41);
#endif
    REPEAT(43) syscall(SYS_fchdir, -1);
    say_syscall("fchdir", 43);
    SAY("errors fchdir 43\n");
    SAY("processes 1\nthreads 1\n");
    return 0;
}
