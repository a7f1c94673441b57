// System calls for which the thread's address matters. `sites signals` makes calls in five threads while a timer
// interrupts them, and prints how often a handler came from outside of the program's own files. `sites cancel` cancels
// threads in the middle of calls. `sites joined` makes two calls by one instruction, with more than one number in the
// code before it. `sites refused` asks for file mappings that the kernel refuses. `sites faulting` faults right before
// a call. `sites halted` is stopped and continued while signals come, and prints how many came. `sites stackless` makes
// memory executable, and maps no file, with a stack pointer that points nowhere. `sites errors` makes calls that fail.
// `sites ends` has children that end in several threads at once. `sites storm` makes calls in five threads that a timer
// interrupts all the time, until a line comes.
//
// Exact: only this program calls getppid. Handlers count their calls by an atomic.
#define _GNU_SOURCE
#include "say.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

enum { CALLS = 100000, THREADS = 4, CANCELLED = 200, QUEUED = 4000 };

static _Atomic long handled, outside, cleaned;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ucontext_t *from = context;
    Dl_info found;
    void *at = (void *)from->uc_mcontext.gregs[REG_RIP];
    // The shim and its areas belong to no file; the dynamic loader knows the vDSO.
    if (!dladdr(at, &found)) outside++;
    syscall(SYS_getppid);
    handled++;
}

static void *call(void *nothing)
{
    REPEAT(CALLS) syscall(SYS_getppid);
    return nothing;
}

static void with_signals(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, call, NULL);
    call(NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    SAY("handled %ld outside %ld\n", handled, outside);
    say_syscall("getppid", (THREADS + 1) * (long)CALLS + handled);
}

static atomic_int is_over;

static void *call_until_the_end(void *nothing)
{
    while (!is_over) syscall(SYS_getppid), close(-1);
    return nothing;
}

static void in_a_storm(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[THREADS];
    char line;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, call_until_the_end, NULL);
    SAY("ready\n");
    if (read(0, &line, 1) != 1) _exit(84);
    is_over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    SAY("result over\n");
}

static int ends[2];

static void clean(void *nothing)
{
    (void)nothing;
    cleaned++;
}

static void *read_all(void *nothing)
{
    char byte;
    pthread_cleanup_push(clean, NULL);
    for (;;) if (read(ends[0], &byte, 1) < 0) _exit(98);
    pthread_cleanup_pop(0);
    return nothing;
}

static void *write_all(void *nothing)
{
    char byte = 0;
    pthread_cleanup_push(clean, NULL);
    for (;;) if (write(ends[1], &byte, 1) < 0) _exit(97);
    pthread_cleanup_pop(0);
    return nothing;
}

static void with_cancellation(void)
{
    if (pipe(ends) != 0) _exit(96);
    for (int i = 0; i < CANCELLED; i++) {
        pthread_t reader, writer;
        pthread_create(&reader, NULL, read_all, NULL);
        pthread_create(&writer, NULL, write_all, NULL);
        usleep(i * 37 % 500);
        pthread_cancel(reader), pthread_join(reader, NULL);
        pthread_cancel(writer), pthread_join(writer, NULL);
    }
    SAY("cleaned %ld\n", cleaned);
}

// own_getppid loads its number right before the common code. Padding keeps both away from code without symbols, whose
// bytes could look like jumps into them.
long own_getppid(void);
long own_getuid(void);
__asm__(".text\n.skip 256, 0x90\n.globl own_getuid\n.type own_getuid, @function\nown_getuid:\n"
        "  mov $102, %eax\n  jmp 1f\n"
        ".size own_getuid, . - own_getuid\n"
        ".globl own_getppid\n.type own_getppid, @function\nown_getppid:\n"
        "  mov $110, %eax\n"
        "1: xor %edi, %edi\n  xor %esi, %esi\n  xor %edx, %edx\n  syscall\n  ret\n"
        ".size own_getppid, . - own_getppid\n");

static void joined(void)
{
    REPEAT(30) own_getppid();
    REPEAT(7) own_getuid();
    say_syscall("getppid", 0);
}

static void refused(void)
{
    REPEAT(5) if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, -1, 0) != MAP_FAILED) _exit(95);
    say_syscall("getppid", 0);
}

// Nothing but the first instruction would make room for a jump, and it reads memory that is not readable.
long own_call(const long *number);
__asm__(".text\n.globl own_call\n.type own_call, @function\nown_call:\n"
        "  mov (%rdi), %rax\n  xor %esi, %esi\n  syscall\n  ret\n"
        ".size own_call, . - own_call\n");

static long *forbidden;

static void allow(int signal)
{
    (void)signal;
    handled++;
    mprotect(forbidden, 4096, PROT_READ);
}

static void faulting(void)
{
    forbidden = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *forbidden = SYS_getppid;
    signal(SIGSEGV, allow);
    REPEAT(100) {
        mprotect(forbidden, 4096, PROT_NONE);
        if (own_call(forbidden) != getppid()) _exit(91);
    }
    if (handled != 100) _exit(90);
    // The calls of the C library.
    say_syscall("getppid", 100);
}

static volatile long *given;

static void count_given(int signal)
{
    (void)signal;
    __atomic_fetch_add(given, 1, __ATOMIC_RELAXED);
}

static void halted(void)
{
    given = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGRTMIN, count_given);
    pid_t child = fork();
    if (child == 0) {
        long calls = 0;
        given[1] = 1;
        for (time_t end = time(NULL) + 60; *given < QUEUED && time(NULL) < end; calls++) syscall(SYS_getppid);
        SAY("given %ld of %d\n", *given, QUEUED);
        say_syscall("getppid", calls);
        _exit(0);
    }
    while (!given[1]);
    for (int i = 0; i < QUEUED; i++) {
        while (sigqueue(child, SIGRTMIN, (union sigval){.sival_int = i}) != 0 && errno == EAGAIN) sched_yield();
        if (i % 4 != 0) continue;
        kill(child, SIGSTOP);
        sched_yield();
        kill(child, SIGCONT);
    }
    waitpid(child, NULL, 0);
}

// Makes a call with another stack pointer.
long call_with_stack(long number, void *stack, void *address, long size, long access, long flags, long file);
__asm__(".text\n.globl call_with_stack\n.type call_with_stack, @function\ncall_with_stack:\n"
        "  push %rbx\n  mov %rsp, %rbx\n  mov 16(%rsp), %r10\n"
        "  mov %rdi, %rax\n  mov %rdx, %rdi\n  mov %r10, %r11\n  mov %r9, %r10\n  mov %rsi, %rsp\n"
        "  mov %rcx, %rsi\n  mov %r8, %rdx\n  mov %r11, %r8\n  xor %r9d, %r9d\n  syscall\n"
        "  mov %rbx, %rsp\n  pop %rbx\n  ret\n"
        ".size call_with_stack, . - call_with_stack\n");

static void without_a_stack(void)
{
    const int executed = PROT_READ | PROT_EXEC;
    char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REPEAT(20) {
        call_with_stack(SYS_getppid, nowhere + 64, NULL, 0, 0, 0, 0);
        if (call_with_stack(SYS_mprotect, nowhere + 64, code, 4096, executed, 0, 0) != 0) _exit(95);
        // A file that is mapped could be seen or not.
        if (call_with_stack(SYS_mmap, nowhere + 64, NULL, 4096, executed, MAP_PRIVATE, -1) != -EBADF) _exit(94);
    }
    say_syscall("getppid", 20);
}

// Makes calls that fail: in threads, in a child that shares the memory, and by one instruction for all numbers. The
// kernel refuses the first call of each kind.
static void *fail(void *nothing)
{
    REPEAT(500) {
        char byte;
        if (close(-1) == 0 || read(-1, &byte, 1) >= 0 || errno != EBADF) _exit(89);
        if (mprotect((void *)1, 1, PROT_READ) == 0 || errno != EINVAL) _exit(88);
    }
    return nothing;
}

// Each of the children ends in four threads at once.
static _Atomic int together;

static void *end_all(void *nothing)
{
    for (together++; together < THREADS;) sched_yield();
    _exit(0);
    return nothing;
}

static void end_together(void)
{
    REPEAT(CANCELLED) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (int i = 1; i < THREADS; i++) pthread_create(&thread, NULL, end_all, NULL);
            end_all(NULL);
        }
        if (waitpid(child, NULL, 0) != child) _exit(92);
    }
    say_syscall("fork", CANCELLED);
}

static void errors(void)
{
    pthread_t threads[THREADS];
    fail(NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, fail, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pid_t child = vfork();
    if (child == 0) {
        execl("/nonexistent", "nonexistent", NULL);
        _exit(errno == ENOENT ? 0 : 87);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) _exit(86);
    if (syscall(SYS_getuid) < 0) _exit(85);
    SAY("errors close %d\nerrors read %d\nerrors mprotect %d\nerrors execve 1\n", 500 * (THREADS + 1),
        500 * (THREADS + 1), 500 * (THREADS + 1));
}

int main(int count, char **words)
{
    if (count != 2) return 2;
    const char *mode = words[1];
    if (strcmp(mode, "signals") == 0) return with_signals(), 0;
    if (strcmp(mode, "storm") == 0) return in_a_storm(), 0;
    if (strcmp(mode, "cancel") == 0) return with_cancellation(), 0;
    if (strcmp(mode, "joined") == 0) return joined(), 0;
    if (strcmp(mode, "refused") == 0) return refused(), 0;
    if (strcmp(mode, "faulting") == 0) return faulting(), 0;
    if (strcmp(mode, "halted") == 0) return halted(), 0;
    if (strcmp(mode, "ends") == 0) return end_together(), 0;
    if (strcmp(mode, "errors") == 0) return errors(), 0;
    if (strcmp(mode, "stackless") == 0) return without_a_stack(), 0;
    return 2;
}
