// Prints the facts about a tracee's own calls: one line for each fact, in one write, so that the lines of several
// processes do not mix. README.md lists the kinds of lines.
#pragma once
#include <stdio.h>
#include <unistd.h>

#define SAY(...)                                                                                   \
    do {                                                                                           \
        char line_[160];                                                                           \
        int length_ = snprintf(line_, sizeof line_, __VA_ARGS__);                                  \
        if (write(1, line_, (size_t)length_) != length_) _exit(99);                                \
    } while (0)

// Prints `calls` calls of a vDSO function that takes a clock.
static inline void say_vdso(const char *function, const char *clock, long calls)
{
    SAY("vdso %s %s %ld\n", function, clock, calls);
}

static inline void say_syscall(const char *name, long calls)
{
    SAY("syscall %s %ld\n", name, calls);
}

#define REPEAT(n) for (long repeat_ = 0; repeat_ < (n); repeat_++)
