// Finds all vDSO functions (six on x86-64, four on arm64) with its own ELF reader and calls them through pointers, as
// language runtimes do. Built twice: with DT_HASH, and with -DUSE_GNU_HASH.
//
// Exact: no other code in the process calls the vDSO, except that a C library that uses the vDSO's
// getrandom asks it once for its size; the test expects calls of getrandom only here.
#define _GNU_SOURCE
#include "say.h"
#include "vdso_reader.h"
#include <sys/time.h>
#include <time.h>

#ifdef __aarch64__
#define VDSO "__kernel_"
#define SECOND_NAME VDSO
#else
#define VDSO "__vdso_"
#define SECOND_NAME
#endif

int main(void)
{
    int (*gettime)(clockid_t, struct timespec *) = vdso_function(VDSO "clock_gettime");
    int (*getres)(clockid_t, struct timespec *) = vdso_function(SECOND_NAME "clock_getres");
    int (*day)(struct timeval *, void *) = vdso_function(VDSO "gettimeofday");
    time_t (*seconds)(time_t *) = vdso_function("time");
    long (*getcpu)(unsigned *, unsigned *, void *) = vdso_function(VDSO "getcpu");
    ssize_t (*random)(void *, size_t, unsigned, void *, size_t) = vdso_function(VDSO "getrandom");
    if (!gettime || !getres || !day) return 1;
    if (vdso_function("__vdso_no_such_function")) return 2;

    struct timespec now, resolution;
    struct timeval today;
    unsigned cpu = 0, node = 0;
    (void)cpu, (void)node;
    REPEAT(1009) if (gettime(CLOCK_TAI, &now) != 0) return 3;
    REPEAT(101) if (getres(CLOCK_MONOTONIC, &resolution) != 0 || resolution.tv_nsec == 0) return 4;
    REPEAT(10) getres(CLOCK_BOOTTIME, NULL);
    REPEAT(503) if (day(&today, NULL) != 0) return 5;
#ifdef __aarch64__
    if (seconds || getcpu) return 6;
#else
    if (!seconds || !getcpu) return 1;
    REPEAT(307) if (seconds(NULL) < today.tv_sec - 1) return 6;
    REPEAT(211) if (getcpu(&cpu, &node, NULL) != 0) return 7;
    say_vdso("time", "-", 307);
    say_vdso("getcpu", "-", 211);
#endif
    say_vdso("clock_gettime", "CLOCK_TAI", 1009);
    say_vdso("clock_getres", "CLOCK_MONOTONIC", 101);
    say_vdso("clock_getres", "CLOCK_BOOTTIME", 10);
    say_vdso("gettimeofday", "-", 503);
    if (random) { // since Linux 6.11
        struct { unsigned size, protection, flags, reserved[13]; } state;
        REPEAT(37) if (random(NULL, 0, 0, &state, ~0UL) != 0) return 8; // asks for the size
        if (state.size == 0 || state.protection == 0) return 9;
#if __GLIBC_PREREQ(2, 41)
        say_vdso("getrandom", "-", 1); // the C library asks too, at its start
#endif
        say_vdso("getrandom", "-", 37);
    }
    return 0;
}
