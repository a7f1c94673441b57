// Prints a program's registers at its first instruction: all general registers except the stack pointer, the flags,
// segment selectors and bases, vector registers, MXCSR and the x87's control word.
// Built with -nostdlib -static, so no other code runs before.
#include <stdint.h>

struct state {
    uint64_t general[15], flags, stack, selectors[4], bases[2];
    unsigned char vectors[16][16];
    uint32_t mxcsr, x87;
};
__attribute__((used)) struct state start;

__asm__(".globl _start\n"
        "_start:\n"
        "mov %rsp, start+128(%rip)\n"
        "mov %rax, start(%rip)\n mov %rbx, start+8(%rip)\n mov %rcx, start+16(%rip)\n"
        "mov %rdx, start+24(%rip)\n mov %rsi, start+32(%rip)\n mov %rdi, start+40(%rip)\n"
        "mov %rbp, start+48(%rip)\n mov %r8, start+56(%rip)\n mov %r9, start+64(%rip)\n"
        "mov %r10, start+72(%rip)\n mov %r11, start+80(%rip)\n mov %r12, start+88(%rip)\n"
        "mov %r13, start+96(%rip)\n mov %r14, start+104(%rip)\n mov %r15, start+112(%rip)\n"
        "pushfq\n popq start+120(%rip)\n"
        "mov %ds, start+136(%rip)\n mov %es, start+144(%rip)\n mov %fs, start+152(%rip)\n mov %gs, start+160(%rip)\n"
        "movups %xmm0, start+184(%rip)\n movups %xmm1, start+200(%rip)\n movups %xmm2, start+216(%rip)\n"
        "movups %xmm3, start+232(%rip)\n movups %xmm4, start+248(%rip)\n movups %xmm5, start+264(%rip)\n"
        "movups %xmm6, start+280(%rip)\n movups %xmm7, start+296(%rip)\n movups %xmm8, start+312(%rip)\n"
        "movups %xmm9, start+328(%rip)\n movups %xmm10, start+344(%rip)\n movups %xmm11, start+360(%rip)\n"
        "movups %xmm12, start+376(%rip)\n movups %xmm13, start+392(%rip)\n movups %xmm14, start+408(%rip)\n"
        "movups %xmm15, start+424(%rip)\n"
        "stmxcsr start+440(%rip)\n fnstcw start+444(%rip)\n"
        "and $-16, %rsp\n"
        "call report\n");
_Static_assert(__builtin_offsetof(struct state, flags) == 120 && __builtin_offsetof(struct state, stack) == 128, "as above");
_Static_assert(__builtin_offsetof(struct state, selectors) == 136 && __builtin_offsetof(struct state, vectors) == 184, "as above");
_Static_assert(__builtin_offsetof(struct state, mxcsr) == 440 && __builtin_offsetof(struct state, x87) == 444, "as above");

static long system_call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

// Prints `result NAME NUMBER`, in hexadecimal.
static void say(const char *name, uint64_t number)
{
    char line[64] = "result ";
    long length = 7;
    while (*name) line[length++] = *name++;
    line[length++] = ' ';
    int digits = 1;
    while (digits < 16 && number >> (4 * digits)) digits++;
    while (digits-- > 0) line[length++] = "0123456789abcdef"[number >> (4 * digits) & 15];
    line[length++] = '\n';
    system_call(1, 1, (long)line, length);
}

static uint64_t base(long which)
{
    uint64_t found = ~0ul;
    system_call(158, which, (long)&found, 0); // arch_prctl
    return found;
}

__attribute__((used)) void report(void)
{
    static const char *const general[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8",
                                          "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    uint64_t vectors = 0;
    for (int i = 0; i < 15; i++) say(general[i], start.general[i]);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) vectors |= start.vectors[i][j];
    say("flags", start.flags);
    say("stack-alignment", start.stack & 15);
    say("ds", start.selectors[0] & 0xffff), say("es", start.selectors[1] & 0xffff);
    say("fs", start.selectors[2] & 0xffff), say("gs", start.selectors[3] & 0xffff);
    say("fs-base", base(0x1003)), say("gs-base", base(0x1004)); // ARCH_GET_FS, ARCH_GET_GS
    say("vectors", vectors);
    say("mxcsr", start.mxcsr), say("x87", start.x87 & 0xffff);
    system_call(60, 0, 0, 0);
}
