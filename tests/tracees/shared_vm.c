// Tasks that share memory but do not have their own thread pointer:
//   `process`  clone(CLONE_VM) without CLONE_SETTLS and without CLONE_VFORK: another process with
//              the same FS base, which reads at the same time as its parent
//   `thread`   clone(CLONE_THREAD, ...) without CLONE_SETTLS: a thread with its creator's FS base
//   `zero`     four such threads that set their FS base to 0
//
// With a second word, `calls`, they make system calls instead of clock reads.
//
// Exact: the calls go through function pointers, so no libc code needs the thread pointer; all
// tasks start together and read for several ms. If slots were found by FS base alone, a slot would
// have several writers here, and a plain add would lose counts.
#define _GNU_SOURCE
#include "say.h"
#include "vdso_reader.h"
#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { CALLS = 200003, SYSTEM_CALLS = 300007, STACK = 64 << 10 };

static int (*gettime)(clockid_t, struct timespec *);
static atomic_int there, done, zero_base;
static int tasks, makes_calls;

static void read_together(void)
{
    struct timespec now;
    there++;
    while (there < tasks) {}
    if (makes_calls)
        REPEAT(SYSTEM_CALLS) __asm__ volatile("mov $110, %%eax\n syscall" ::: "rax", "rcx", "r11", "memory");
    else
        REPEAT(CALLS) gettime(CLOCK_TAI, &now);
}

// Ends by the bare system call, because code behind it must not touch the thread pointer.
__attribute__((optimize("no-stack-protector"))) static int task(void *unused)
{
    (void)unused;
    if (zero_base)
        __asm__ volatile("syscall" ::"a"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(0) : "rcx", "r11", "memory");
    read_together();
    done++;
    __asm__ volatile("syscall" ::"a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
    __builtin_unreachable();
}

static void start(int flags)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (clone(task, stack + STACK, flags, NULL) == -1) exit(1);
}

int main(int count, char **arguments)
{
    const int of_a_thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_THREAD;
    gettime = vdso_function("__vdso_clock_gettime");
    makes_calls = count == 3 && strcmp(arguments[2], "calls") == 0;
    if ((count != 2 && !makes_calls) || !gettime) return 2;
    int process = strcmp(arguments[1], "process") == 0;
    zero_base = strcmp(arguments[1], "zero") == 0;
    int others = zero_base ? 4 : 1;
    tasks = others + 1;
    for (int i = 0; i < others; i++) start(process ? CLONE_VM | SIGCHLD : of_a_thread);
    read_together();
    while (done < others) {}
    if (makes_calls)
        say_syscall("getppid", (long)SYSTEM_CALLS * tasks);
    else
        say_vdso("clock_gettime", "CLOCK_TAI", (long)CALLS * tasks);
    SAY("processes %d\nthreads %d\n", process ? 2 : 1, tasks);
    return 0;
}
