// Walks the stack from a signal handler that interrupts clock reads, or with `calls` system calls. Every walk must
// reach main().
// Compile with -rdynamic, and link with -ldl where libc needs it.
//
// Exact: counts the walks that do not reach main, by where they began: inside the image of AT_SYSINFO_EHDR; behind it
// in its segment (the kernel's functions if traced, nothing if untraced); or elsewhere. All counts are 0 if the
// kernel's image has an unwind table.
#define _GNU_SOURCE
#include "say.h"
#include "vdso_reader.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

enum { WALKS = 1009 };
static volatile long walks, inside, incomplete_inside, incomplete_behind, incomplete_elsewhere;
static uintptr_t image_start, image_end, segment_end;
// Called through a pointer, because lld writes no unwind table for the PLT.
static int (*volatile read_clock)(clockid_t, struct timespec *) = clock_gettime;

#ifdef __aarch64__
#define PC(context) ((context)->uc_mcontext.pc)
#else
#define PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#endif

static void find_image(void)
{
    image_start = getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const void *)image_start;
    const Elf64_Phdr *segment = (const void *)(image_start + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && image_end == 0) {
            image_end = image_start + segment[i].p_filesz;
            segment_end = image_start + segment[i].p_memsz;
        }
}

// Fires once: on a busy machine a repeating timer would send the next signal before the program has gone on.
static void start_timer(void)
{
    struct itimerval once = {{0, 0}, {0, 100}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static int is_in_main(void *address)
{
    Dl_info symbol;
    return dladdr(address, &symbol) && symbol.dli_sname && strcmp(symbol.dli_sname, "main") == 0;
}

static void on_alarm(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    void *frame[64];
    uintptr_t at = (uintptr_t)PC((ucontext_t *)context);
    int reached = 0, depth = backtrace(frame, 64), is_inside = at >= image_start && at < image_end;
    int is_behind = at >= image_end && at < segment_end;
    for (int i = 0; i < depth; i++) reached |= is_in_main(frame[i]);
    walks++;
    inside += is_inside;
    if (!reached && is_inside) incomplete_inside++;
    if (!reached && is_behind) incomplete_behind++;
    if (!reached && !is_inside && !is_behind) incomplete_elsewhere++;
    start_timer();
}

int main(int count, char **words)
{
    int calls = count > 1 && strcmp(words[1], "calls") == 0;
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_RESTART | SA_SIGINFO};
    struct itimerval off = {{0, 0}, {0, 0}};
    struct timespec now;
    void *first[1];
    find_image();
    backtrace(first, 1); // loads libgcc before the first signal
    sigaction(SIGALRM, &action, NULL);
    start_timer();
    while (walks < WALKS)
        if (calls) syscall(SYS_getppid);
        else read_clock(CLOCK_TAI, &now);
    setitimer(ITIMER_REAL, &off, NULL);
    SAY("result hits inside the image: %s\n", inside > 0 ? "some" : "none");
    SAY("result incomplete inside the image %ld\n", incomplete_inside);
    SAY("result incomplete behind the image %ld\n", incomplete_behind);
    SAY("result incomplete elsewhere %ld\n", incomplete_elsewhere);
    return 0;
}
