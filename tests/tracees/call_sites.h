// Prints where calls were made; the places are known by construction.
#pragma once
#include "say.h"

// Prints "ready", and waits for a line.
static inline void await_word(void)
{
    char word;
    SAY("ready\n");
    while (read(0, &word, 1) == 1 && word != '\n') continue;
}

#define OUT_OF_LINE __attribute__((noinline, noclone))
// Keeps a call from becoming a jump, which would take the caller off the stack.
#define NOT_LAST __asm__ volatile("" ::: "memory")

// Prints `calls` calls of a vDSO function ("clock_gettime CLOCK_TAI", "time -") by this path: the caller first, `+`
// before a function that the compiler inlines into the next one, `*N` after a function that is on the stack N
// times.
static inline void say_path(const char *path, const char *called, long calls)
{
    SAY("path %s %s %ld\n", path, called, calls);
}
