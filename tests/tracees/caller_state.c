// Checks which of its caller's registers a vDSO call changes, and how much of the caller's stack it uses.
//   caller_state sweep MILLIS         for so long, calls every function from every alignment of the stack,
//                                     with the direction flag clear and set; then each combination once
//                                     more in a forked child of its own
//   caller_state sweep MILLIS orphan  kills its parent, and sweeps once more
//   caller_state handler MILLIS       after so long, finds the smallest alternate stack, above
//                                     the kernel's least, on which a handler can read the clock
//
// A call is made on a painted stack, with a pattern in every register that the kernel's functions do
// not change: rbx, rbp, r12 to r15, all vector and mask registers, MXCSR and the state of the x87.
#define _GNU_SOURCE
#include "say.h"
#include "vdso_reader.h"
#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define STACK 65536
#define PAINTED 8192
#define PAINT 0x5a

// State that the assembly below reads and writes.
struct state {
    unsigned char vector[32][64];
    uint64_t mask[8], saved[6];
    uint32_t mxcsr, pad;
    unsigned char x87[32];
};
__attribute__((used)) struct state state_before, state_after;
__attribute__((used)) uint64_t call_function, call_a, call_b, call_stack, call_result, stack_after, flags_after, own_stack;
__attribute__((used)) uint32_t call_backwards, vectors; // 0: SSE, 1: AVX, 2: AVX-512
void call_with_state(void);

#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define UPPER(f) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
#define MASKS(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define LOAD_X(n) "movups state_before+64*" #n "(%rip), %xmm" #n "\n"
#define LOAD_Y(n) "vmovups state_before+64*" #n "(%rip), %ymm" #n "\n"
#define LOAD_Z(n) "vmovups state_before+64*" #n "(%rip), %zmm" #n "\n"
#define LOAD_K(n) "kmovq state_before+2048+8*" #n "(%rip), %k" #n "\n"
#define SAVE_X(n) "movups %xmm" #n ", state_after+64*" #n "(%rip)\n"
#define SAVE_Y(n) "vmovups %ymm" #n ", state_after+64*" #n "(%rip)\n"
#define SAVE_Z(n) "vmovups %zmm" #n ", state_after+64*" #n "(%rip)\n"
#define SAVE_K(n) "kmovq %k" #n ", state_after+2048+8*" #n "(%rip)\n"
#define KEPT(f) f(rbx, 0) f(rbp, 8) f(r12, 16) f(r13, 24) f(r14, 32) f(r15, 40)
#define PUSH(r, n) "push %" #r "\n"
#define LOAD(r, n) "mov state_before+2112+" #n "(%rip), %" #r "\n"
#define SAVE(r, n) "mov %" #r ", state_after+2112+" #n "(%rip)\n"
__asm__(".text\n"
        "call_with_state:\n" KEPT(PUSH)
        "mov %rsp, own_stack(%rip)\n"
        "cmpl $1, vectors(%rip)\n je 1f\n ja 2f\n" EACH(LOAD_X) "jmp 3f\n"
        "1:\n" EACH(LOAD_Y) "jmp 3f\n"
        "2:\n" EACH(LOAD_Z) UPPER(LOAD_Z) MASKS(LOAD_K)
        "3:\n"
        "ldmxcsr state_before+2160(%rip)\n"
        "fninit\n fld1\n fldcw state_before+2168(%rip)\n fnstenv state_before+2168(%rip)\n"
        KEPT(LOAD)
        "mov call_a(%rip), %rdi\n mov call_b(%rip), %rsi\n mov call_function(%rip), %rax\n"
        "mov call_stack(%rip), %rsp\n"
        "cmpl $0, call_backwards(%rip)\n je 4f\n std\n"
        "4: call *%rax\n"
        "mov %rsp, stack_after(%rip)\n"
        "pushfq\n popq flags_after(%rip)\n"
        "cld\n"
        "mov %rax, call_result(%rip)\n"
        KEPT(SAVE)
        "mov own_stack(%rip), %rsp\n"
        "fnstenv state_after+2168(%rip)\n fninit\n"
        "stmxcsr state_after+2160(%rip)\n"
        "cmpl $1, vectors(%rip)\n je 1f\n ja 2f\n" EACH(SAVE_X) "jmp 3f\n"
        "1:\n" EACH(SAVE_Y) "jmp 3f\n"
        "2:\n" EACH(SAVE_Z) UPPER(SAVE_Z) MASKS(SAVE_K)
        "3:\n"
        "movl $0x1f80, -8(%rsp)\n ldmxcsr -8(%rsp)\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "ret\n");
_Static_assert(offsetof(struct state, mask) == 2048 && offsetof(struct state, saved) == 2112, "as the assembly has it");
_Static_assert(offsetof(struct state, mxcsr) == 2160 && offsetof(struct state, x87) == 2168, "as the assembly has it");

static void find_vectors(void)
{
    unsigned a, b, c, d, low = 0, high;
    __cpuid(1, a, b, c, d);
    if (!(c & bit_OSXSAVE)) return;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    __cpuid_count(7, 0, a, b, c, d);
    if ((low & 6) == 6) vectors = (low & 0xe6) == 0xe6 && b & bit_AVX512BW ? 2 : 1;
}

// A call: a vDSO function and its arguments.
struct call { const char *function; uint64_t a; void *b; void *address; };
static struct timespec time_;
static struct timeval day;
static struct timezone zone;
static time_t seconds;
static unsigned cpu, node;
static struct call calls[64];
static int many;

static void add(const char *name, uint64_t a, void *b)
{
    char whole[64];
    snprintf(whole, sizeof whole, "__vdso_%s", name);
    void *address = vdso_function(whole);
    if (address) calls[many++] = (struct call){name, a, b, address};
}

static void find_calls(void)
{
    for (int clock = 0; clock < 13; clock++) add("clock_gettime", clock, &time_);
    add("clock_gettime", -6, &time_); // the process's CPU time, as a dynamic id
    add("gettimeofday", (uint64_t)&day, 0);
    add("gettimeofday", (uint64_t)&day, &zone);
    add("gettimeofday", 0, &zone);
    add("time", 0, 0);
    add("time", (uint64_t)&seconds, 0);
    add("getcpu", (uint64_t)&cpu, &node);
    for (int clock = 0; clock < 8; clock++) add("clock_getres", clock, &time_);
}

// Findings, shared with the forked children.
struct found { long calls, changed, deepest; struct call deepest_call; };
static struct found *found;
static unsigned char *stack;

static int differs(const char *what, const void *before, const void *after, size_t size)
{
    if (memcmp(before, after, size) == 0) return 0;
    SAY("changed %s\n", what);
    return 1;
}

static void check(const struct call *call, int offset, int backwards)
{
    char what[32];
    int changed = 0;
    for (int i = 0; i < (vectors == 2 ? 32 : 16); i++) {
        snprintf(what, sizeof what, "vector register %d", i);
        changed |= differs(what, state_before.vector[i], state_after.vector[i], 16 << vectors);
    }
    if (vectors == 2) changed |= differs("a mask register", state_before.mask, state_after.mask, sizeof state_before.mask);
    changed |= differs("a general register", state_before.saved, state_after.saved, sizeof state_before.saved);
    changed |= differs("MXCSR", &state_before.mxcsr, &state_after.mxcsr, 4);
    // Control, status and tag words only: not every CPU keeps the address of the last instruction.
    changed |= differs("the x87", state_before.x87, state_after.x87, 12);
    changed |= differs("the stack pointer", &call_stack, &stack_after, 8);
    if ((flags_after >> 10 & 1) != (uint64_t)backwards) changed |= differs("the direction flag", "0", "1", 1);
    if (changed) SAY("changed by %s(%ld), stack at %d, %d\n", call->function, (long)call->a, offset, backwards);
    found->changed += changed;
}

static void make(const struct call *call, int offset, int backwards)
{
    unsigned char *at = stack + STACK - 4096 + offset, *painted = at - PAINTED;
    memset(painted, PAINT, PAINTED);
    call_function = (uint64_t)call->address;
    call_a = call->a, call_b = (uint64_t)call->b, call_stack = (uint64_t)at, call_backwards = backwards;
    call_with_state();
    check(call, offset, backwards);
    while (*painted == PAINT) painted++;
    found->calls++;
    if (at - painted > found->deepest) found->deepest = at - painted, found->deepest_call = *call;
}

static void sweep(void)
{
    for (int i = 0; i < many; i++)
        for (int offset = 0; offset < 16; offset++)
            for (int backwards = 0; backwards < 2; backwards++) make(&calls[i], offset, backwards);
}

static long now_ms(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void await(pid_t child, int *status)
{
    if (waitpid(child, status, 0) != child) _exit(98);
}

// Makes each combination the first call of a process.
static void sweep_in_children(void)
{
    for (int i = 0; i < many; i++)
        for (int offset = 0; offset < 16; offset++) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                make(&calls[i], offset, offset & 1);
                _exit(0);
            }
            await(child, &status);
            if (status) SAY("changed the life of a child: %s(%ld), stack at %d\n", calls[i].function, (long)calls[i].a, offset);
            found->changed += status != 0;
        }
}

static int swept(long millis, int orphan)
{
    long end = now_ms() + millis;
    do sweep(); while (now_ms() < end);
    sweep_in_children();
    if (orphan) {
        pid_t parent = getppid();
        kill(parent, SIGKILL);
        while (getppid() == parent) sched_yield();
        sweep();
        sweep_in_children();
    }
    SAY("result called %d\n", found->calls > 0);
    SAY("result changed %ld\n", found->changed);
    SAY("deepest %ld %s(%ld)\n", found->deepest, found->deepest_call.function, (long)found->deepest_call.a);
    return 0;
}

static const struct call *called;

static void handler(int signal)
{
    (void)signal;
    ((long (*)(uint64_t, void *))called->address)(called->a, called->b);
}

// Whether a process survives if its first call is made by a handler on an alternate stack of this size.
static int survives(const struct call *call, size_t size)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        stack_t alternate = {.ss_sp = stack + 4096, .ss_size = size};
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
        called = call;
        if (mprotect(stack, 4096, PROT_NONE) || sigaltstack(&alternate, 0) || sigaction(SIGUSR1, &action, 0)) _exit(97);
        raise(SIGUSR1);
        _exit(0);
    }
    await(child, &status);
    if (WIFEXITED(status) && WEXITSTATUS(status)) _exit(97);
    return status == 0;
}

static int handled(long millis)
{
    long end = now_ms() + millis, most = 0;
    size_t least = getauxval(AT_MINSIGSTKSZ);
    // A CPU without AVX-512 needs less than the kernel takes (MINSIGSTKSZ in do_sigaltstack, kernel/signal.c, Linux 6.18).
    if (least < 2048) least = 2048;
    while (now_ms() < end) sched_yield();
    for (int i = 0; i < many; i++) {
        long more = 0;
        while (more < 4096 && !survives(&calls[i], least + more)) more += 16;
        if (more > most) most = more;
    }
    SAY("smallest %ld\n", most);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    found = mmap(0, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || found == MAP_FAILED) return 2;
    find_vectors();
    find_calls();
    unsigned char *byte = (unsigned char *)&state_before;
    for (size_t i = 0; i < sizeof state_before; i++) byte[i] = (unsigned char)(i * 37 + 11);
    state_before.mxcsr = 0x9fc0; // flush and denormals-are-zero, all exceptions masked
    state_before.x87[0] = 0x7f, state_before.x87[1] = 0x06; // rounds down, doubles
    if (strcmp(argv[1], "sweep") == 0) return swept(atol(argv[2]), argc > 3);
    if (strcmp(argv[1], "handler") == 0) return handled(atol(argv[2]));
    return 2;
}
