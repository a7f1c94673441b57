// Calls clock_gettime below an inlined function and during an exception, once it is told to.
#include <csignal>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <unistd.h>

volatile long sink;

namespace app {

struct Guard {
    ~Guard() noexcept(false);
};

template <typename T> __attribute__((noinline)) T read_clock(T scale)
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<T>(now.tv_nsec) * scale + static_cast<T>(sink);
}

__attribute__((always_inline)) inline long inlined(long n)
{
    return read_clock<long>(n) + 1;
}

__attribute__((noinline)) long Caller(const char *text)
{
    return inlined(static_cast<long>(strlen(text))) + sink;
}

// Reads while the stack is unwound by an exception.
__attribute__((noinline)) Guard::~Guard() noexcept(false)
{
    sink = Caller("guard") + sink;
}

__attribute__((noinline)) void thrower(int n)
{
    Guard guard;
    if (n > 0)
        throw std::runtime_error("thrown");
    sink = n;
}

} // namespace app

int main(int count, char **words)
{
    char word;
    if (read(0, &word, 1) == 1)
        raise(SIGSTOP);
    if (count > 1 && !strcmp(words[1], "exception")) {
        try {
            app::thrower(count);
        } catch (const std::exception &) {
            sink = 1;
        }
    } else {
        sink = app::Caller("plain") + sink;
    }
    return 0;
}
