// `counted_reads READS [threads|timer|forks|forbidden|asked]` reads the CPU's counter itself, so many times in each of
// several ways, and prints how often, and by which functions. In each way registers and flags must be kept, and no read may be less than the one
// before. `threads`: four threads at once. `timer`: a signal each 50 us, whose handler must find the program's own code.
// `forks`: a child before each tenth of the reads. `forbidden`: each read faults, and the handler makes it up.
// `asked`: such signals, too, until a line end on standard input; READS is the number of reads between two looks,
// and the first looks are told.
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static long reads, outside, made_up;
static struct {
    uint64_t begin, end;
} nameless[64];
static int ranges;

struct result {
    long plain, ordered, backwards, changed;
};

#define FUNCTION __attribute__((noinline)) static uint64_t

FUNCTION plain(void)
{
    uint64_t low, high;
    __asm__ volatile("rdtsc; shl $32, %1; or %1, %0" : "=a"(low), "=d"(high) : : "cc");
    return low;
}

FUNCTION fenced(void)
{
    uint32_t low, high;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

FUNCTION fenced_behind(void)
{
    uint64_t low, high;
    __asm__ volatile("rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
    return high << 32 | low;
}

FUNCTION ordered(uint32_t *cpu)
{
    uint64_t low, high;
    __asm__ volatile("rdtscp; mov %%rdx, %1" : "=a"(low), "=r"(high), "=c"(*cpu) : : "rdx");
    return high << 32 | low;
}

// All flags that a program sees go over the read, and the registers besides rax and rdx.
FUNCTION with_flags(long *changed)
{
    uint64_t low, high, flags, r11, rcx;
    __asm__ volatile("lea -128(%%rsp), %%rsp; mov $0x1234567, %%r11d; mov $0x7654321, %%ecx\n"
                     "pushfq; orq $0x8d5, (%%rsp); popfq\n"
                     "rdtsc; mov %%rax, %%rsi\n"
                     "pushfq; pop %2; lea 128(%%rsp), %%rsp; mov %%r11, %3; mov %%rcx, %4"
                     : "=&a"(low), "=&d"(high), "=&r"(flags), "=&r"(r11), "=&r"(rcx)
                     :
                     : "cc", "rcx", "r11", "rsi", "memory");
    *changed += (flags & 0x8d5) != 0x8d5 || r11 != 0x1234567 || rcx != 0x7654321;
    return high << 32 | low;
}

// A page of the code that can be read only: the mapping is split, and what is behind it begins at another address.
__attribute__((noinline, aligned(4096))) static void page(void)
{
    __asm__ volatile(".fill 4096, 1, 0x90");
}

// No room for a jump: a branch leads behind the read, whose neighbour reads memory.
FUNCTION left(long *times)
{
    uint64_t low, high;
    __asm__ volatile("test %2, %2; jz 1f; 2: rdtsc; 1: mov (%3), %%rcx"
                     : "=a"(low), "=d"(high)
                     : "r"(*times), "r"(times)
                     : "rcx", "cc");
    return high << 32 | low;
}

// Reached by a computed jump alone.
FUNCTION by_table(long *times)
{
    static const void *const labels[] = {&&reads, &&reads_not};
    uint64_t low, high;
    goto *labels[*(volatile long *)times & 1];
reads:
    __asm__ volatile("rdtsc; shl $32, %1; or %1, %0" : "=a"(low), "=d"(high) : : "cc");
    return low;
reads_not:
    return 1;
}

static void check(struct result *result, uint64_t *last, uint64_t now)
{
    result->backwards += now < *last;
    *last = now;
}

static void *work(void *at)
{
    struct result *result = at;
    uint64_t last = 0;
    uint32_t cpu;
    for (long i = 0; i < reads; i++) {
        check(result, &last, plain());
        check(result, &last, fenced());
        check(result, &last, fenced_behind());
        check(result, &last, ordered(&cpu));
        check(result, &last, with_flags(&result->changed));
    }
    result->plain += 4 * reads;
    result->ordered += reads;
    return NULL;
}

static void find_nameless(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps) && ranges < 64) {
        unsigned long begin, end;
        char perms[5], name[256] = "";
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &begin, &end, perms, name) < 3) continue;
        if (perms[2] != 'x' || name[0]) continue;
        nameless[ranges].begin = begin;
        nameless[ranges++].end = end;
    }
    if (maps) fclose(maps);
}

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *of = context;
    greg_t *registers = of->uc_mcontext.gregs;
    uint64_t at = (uint64_t)registers[REG_RIP];
    if (signal == SIGSEGV) {
        unsigned char *code = (unsigned char *)at;
        if (code[0] != 0x0f || (code[1] != 0x31 && code[1] != 0x01)) _exit(3);
        registers[REG_RIP] += code[1] == 0x31 ? 2 : 3;
        uint64_t now = (uint64_t)++made_up;
        registers[REG_RAX] = (uint32_t)now;
        registers[REG_RDX] = (greg_t)(now >> 32);
        if (code[1] != 0x31) registers[REG_RCX] = 0;
        return;
    }
    for (int i = 0; i < ranges; i++) outside += nameless[i].begin <= at && at < nameless[i].end;
}

static void say(struct result result)
{
    SAY("result rdtsc %ld\nresult rdtscp %ld\nresult wrong %ld\n", result.plain, result.ordered,
        result.backwards + result.changed + outside);
    long each = result.ordered;
    SAY("result by plain %ld\nresult by fenced %ld\nresult by fenced_behind %ld\n", each, each, each);
    SAY("result by ordered %ld\nresult by with_flags %ld\n", each, each);
}

int main(int count, char **words)
{
    struct result all = {0};
    reads = count > 1 ? atol(words[1]) : 1000;
    const char *mode = count > 2 ? words[2] : "";
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (mprotect((void *)page, 4096, PROT_READ)) return 2;
    if (!strcmp(mode, "timer")) find_nameless();
    if (!strcmp(mode, "timer") || !strcmp(mode, "asked")) {
        sigaction(SIGALRM, &action, NULL);
        struct itimerval each = {{0, 50}, {0, 50}};
        setitimer(ITIMER_REAL, &each, NULL);
    }
    if (!strcmp(mode, "forbidden")) {
        sigaction(SIGSEGV, &action, NULL);
        if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 4;
    }
    if (!strcmp(mode, "forks")) {
        long tenth = reads / 10;
        reads = tenth;
        for (int i = 0; i < 10; i++) {
            pid_t child = fork();
            struct result own = {0};
            work(child ? &all : &own);
            if (child) {
                int status;
                if (waitpid(child, &status, 0) != child || status) return 5;
            } else {
                say(own);
                _exit(0);
            }
        }
    } else if (!strcmp(mode, "threads")) {
        pthread_t threads[4];
        struct result of[4] = {0};
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, work, &of[i])) return 6;
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            all.plain += of[i].plain;
            all.ordered += of[i].ordered;
            all.backwards += of[i].backwards;
            all.changed += of[i].changed;
        }
    } else if (!strcmp(mode, "asked")) {
        SAY("ready\n");
        struct pollfd input = {.fd = 0, .events = POLLIN};
        for (int looks = 0; poll(&input, 1, 0) <= 0; looks++) {
            work(&all);
            if (looks < 12) SAY("looked\n");
        }
    } else {
        work(&all);
    }
    struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, NULL);
    long times = 3;
    for (long i = 0; i < times && strcmp(mode, "forbidden"); i++) left(&times), by_table(&i);
    say(all);
    return all.backwards + all.changed + outside != 0;
}
