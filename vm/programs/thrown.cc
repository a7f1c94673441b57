// Throws an exception out of a signal handler, through the clock read that the signal has interrupted: `thrown THROWS`.
//
// Throws only if the signal came in the image of AT_SYSINFO_EHDR itself. Behind the image, in its segment, are the
// kernel's functions, for which unwinders find no table on arm64. An exception that is not caught ends the program.
//
// At least: whether an interrupted read is counted depends on the place of the interruption.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <elf.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <ucontext.h>
#include "say.h"

static uintptr_t image_start, image_end;
struct interrupted {};

#ifdef __aarch64__
#define PC(context) ((context)->uc_mcontext.pc)
#else
#define PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#endif

static void find_image()
{
    image_start = getauxval(AT_SYSINFO_EHDR);
    auto header = reinterpret_cast<const Elf64_Ehdr *>(image_start);
    auto segment = reinterpret_cast<const Elf64_Phdr *>(image_start + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && image_end == 0) image_end = image_start + segment[i].p_filesz;
}

// Fires once: on a busy machine a repeating timer would send the next signal before the program has gone on.
static void start_timer()
{
    struct itimerval once = {{0, 0}, {0, 100}};
    setitimer(ITIMER_REAL, &once, nullptr);
}

static void on_alarm(int, siginfo_t *, void *context)
{
    auto at = static_cast<uintptr_t>(PC(static_cast<ucontext_t *>(context)));
    start_timer();
    if (at >= image_start && at < image_end) throw interrupted();
}

int main(int, char **words)
{
    // Called through a pointer, because the headers promise that the C library's function throws nothing.
    int (*volatile read_clock)(clockid_t, struct timespec *) = clock_gettime;
    struct sigaction action = {};
    struct itimerval off = {};
    long reads = 0, left = atol(words[1]);
    find_image();
    action.sa_sigaction = on_alarm;
    action.sa_flags = SA_RESTART | SA_SIGINFO | SA_NODEFER;
    sigaction(SIGALRM, &action, nullptr);
    start_timer();
    while (left > 0) {
        try {
            struct timespec now;
            for (;;) {
                read_clock(CLOCK_TAI, &now);
                reads++;
            }
        } catch (const interrupted &) {
            left--;
        }
    }
    setitimer(ITIMER_REAL, &off, nullptr);
    SAY("result caught %s\n", words[1]);
    SAY("at-least clock_gettime CLOCK_TAI %ld\n", reads);
    // After this read, the thread's counts are complete.
    struct timespec now;
    REPEAT(1009) read_clock(CLOCK_BOOTTIME, &now);
    say_vdso("clock_gettime", "CLOCK_BOOTTIME", 1009);
}
