// A child asks to be traced by its parent, as under strace or gdb. Under a tracer that follows
// forks the kernel answers EPERM, and a debugger inside reports it and ends. Both are fine, hanging
// is not.
//
// Exact: no other code reads CLOCK_TAI.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

int main(void)
{
    struct timespec now;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int traced = ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
        if (traced) raise(SIGSTOP);
        else if (errno != EPERM) _exit(1);
        REPEAT(503) clock_gettime(CLOCK_TAI, &now);
        say_vdso("clock_gettime", "CLOCK_TAI", 503);
        SAY("result PTRACE_TRACEME %s\n", traced ? "works" : "is refused");
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) ptrace(PTRACE_CONT, child, NULL, NULL);
    REPEAT(211) clock_gettime(CLOCK_TAI, &now);
    say_vdso("clock_gettime", "CLOCK_TAI", 211);
    return status != 0;
}
