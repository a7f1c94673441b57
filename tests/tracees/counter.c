// `counter [asked]` reads the CPU's counter itself, in functions of each shape, and has the same bytes where they are no
// instructions. It prints how many instructions there are, and the functions that have them. With `asked` it
// waits for a line end before it begins and before it ends.
#include "say.h"
#include <stdint.h>

#if defined __x86_64__
enum { PLACES = 5 };
#define FENCED "result function fenced_twice\n"

__attribute__((noinline)) static uint64_t plain(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

__attribute__((noinline)) static uint64_t ordered(void)
{
    uint32_t low, high, cpu;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu));
    return (uint64_t)high << 32 | low;
}

__attribute__((noinline)) static uint64_t fenced_twice(void)
{
    uint32_t low, high, later;
    __asm__ volatile("lfence; rdtsc; mov %%eax, %2; mfence; lfence; rdtsc"
                     : "=&a"(low), "=&d"(high), "=&r"(later));
    return later - low + high;
}

// The bytes of `rdtsc` and `rdtscp` in a constant, in a distance, and between instructions.
__attribute__((noinline)) static uint64_t by_chance(void)
{
    uint64_t constant;
    __asm__ volatile("movabs $0x0f31f9010f310f90, %0; lea 0x310f(%0), %0; jmp 1f; .byte 0x0f, 0x31, 0x0f, 0x01, 0xf9; 1:"
                     : "=r"(constant));
    return constant;
}

// Code of which no table tells, with the bytes of a read by chance, and of one whose halves are joined.
__asm__(".section .text.nameless, \"ax\"; rdtsc; ret; shl $32, %rdx; .fill 64, 1, 0xcc; rdtsc; shl $32, %rdx; or %rdx, %rax; ret");

// A function that no program has: to follow it takes much memory, so it is not searched.
__asm__(".text; .type too_long,@function; too_long: rdtsc; .fill 300000, 1, 0x90; ret; .size too_long, .-too_long");
#elif defined __aarch64__
enum { PLACES = 2 };
#define FENCED ""

__attribute__((noinline)) static uint64_t plain(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

__attribute__((noinline)) static uint64_t ordered(void)
{
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

// Another register.
__attribute__((noinline)) static uint64_t fenced_twice(void)
{
    uint64_t hertz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    return hertz;
}

__attribute__((noinline)) static uint64_t by_chance(void)
{
    return 0;
}
#endif

int main(int count, char **words)
{
    (void)words;
    char line;
    if (count > 1) {
        SAY("ready\n");
        if (read(0, &line, 1) != 1) return 4;
    }
    volatile uint64_t sum = plain() + ordered() + fenced_twice() + by_chance();
    (void)sum;
    SAY("result function plain\nresult function ordered\n" FENCED "result places %d\n", PLACES);
    if (count > 1) {
        SAY("done\n");
        if (read(0, &line, 1) != 1) return 4;
    }
    return 0;
}
