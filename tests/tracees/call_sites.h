// Saying where calls were made, by construction.
#pragma once
#include "say.h"

// Says that it is ready, and waits until it is sent a line.
static inline void await_word(void)
{
    char word;
    SAY("ready\n");
    while (read(0, &word, 1) == 1 && word != '\n') continue;
}

#define OUT_OF_LINE __attribute__((noinline, noclone))
// Keeps a call from becoming a jump, after which the caller would not be on the stack.
#define NOT_LAST __asm__ volatile("" ::: "memory")

// `calls` calls of a vDSO function ("clock_gettime CLOCK_TAI", "time -") by this path: the caller
// first, `+` before a function that the compiler puts into the next one, `*N` after one that is
// there N times.
static inline void say_path(const char *path, const char *called, long calls)
{
    SAY("path %s %s %ld\n", path, called, calls);
}
