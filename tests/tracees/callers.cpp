// Call paths in C++ that are known by construction: `callers ROUNDS`.
//
// Exact: each path prints how many calls it made, and the libraries make none by themselves.
#define _GNU_SOURCE 1
#include "call_sites.h"
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <sys/time.h>
#include <ctime>
#include <thread>
#include <vector>

namespace shop {

thread_local timespec now;

template <typename T> struct Counter {
    T calls{};
    OUT_OF_LINE void site_template(int times)
    {
        for (int i = 0; i < times; i++) {
            clock_gettime(CLOCK_BOOTTIME, &now);
            calls++;
        }
        NOT_LAST;
    }
};

struct Reader {
    virtual ~Reader() = default;
    virtual void site_virtual(int times) = 0;
};

struct Tai final : Reader {
    OUT_OF_LINE void site_virtual(int times) override
    {
        for (int i = 0; i < times; i++) clock_gettime(CLOCK_TAI, &now);
        NOT_LAST;
    }
};

// Reads the clock in a destructor while an exception unwinds: the unwinder's frames are in between.
struct Guard {
    OUT_OF_LINE ~Guard()
    {
        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        NOT_LAST;
    }
};

OUT_OF_LINE void throw_through()
{
    Guard guard;
    throw std::runtime_error("on purpose");
}

OUT_OF_LINE void run_throw()
{
    try {
        throw_through();
    } catch (const std::runtime_error &) {
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    }
    NOT_LAST;
}

OUT_OF_LINE void site_chrono(int times)
{
    for (int i = 0; i < times; i++) {
        auto time = std::chrono::steady_clock::now();
        __asm__ volatile("" : : "r"(&time) : "memory");
    }
    NOT_LAST;
}

template <int times> inline __attribute__((always_inline)) void site_inlined()
{
    for (int i = 0; i < times; i++) time(nullptr);
    NOT_LAST;
}

OUT_OF_LINE void site_outer()
{
    site_inlined<100>();
    NOT_LAST;
}

OUT_OF_LINE void site_function(int times)
{
    timeval time_of_day;
    for (int i = 0; i < times; i++) gettimeofday(&time_of_day, nullptr);
    NOT_LAST;
}

OUT_OF_LINE void run_function(const std::function<void(int)> &function, int times)
{
    function(times); // frames of the library's templates are in between
    NOT_LAST;
}

OUT_OF_LINE void site_pool(int times)
{
    for (int i = 0; i < times; i++) clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    NOT_LAST;
}

OUT_OF_LINE void pool_thread(long rounds)
{
    for (long i = 0; i < rounds; i++) site_pool(100);
    NOT_LAST;
}

OUT_OF_LINE void run_sites(long rounds, Counter<long> &counter, Reader &reader)
{
    const std::function<void(int)> function = site_function;
    for (long i = 0; i < rounds; i++) {
        counter.site_template(100);
        reader.site_virtual(100);
        run_throw();
        site_chrono(100);
        site_outer();
        run_function(function, 100);
    }
    NOT_LAST;
}

} // namespace shop

int main(int count, char **arguments)
{
    long rounds = count > 1 ? atol(arguments[1]) : 1000;
    shop::Counter<long> counter;
    shop::Tai tai;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) threads.emplace_back(shop::pool_thread, rounds);
    shop::run_sites(rounds, counter, tai);
    for (auto &thread : threads) thread.join();
    say_path("site_template;run_sites;main", "clock_gettime CLOCK_BOOTTIME", counter.calls);
    say_path("site_virtual;run_sites;main", "clock_gettime CLOCK_TAI", 100 * rounds);
    say_path("~Guard;throw_through;run_throw;run_sites;main", "clock_gettime CLOCK_MONOTONIC_RAW", rounds);
    say_path("run_throw;run_sites;main", "clock_gettime CLOCK_REALTIME_COARSE", rounds);
    say_path("site_chrono;run_sites;main", "clock_gettime CLOCK_MONOTONIC", 100 * rounds);
    say_path("+site_inlined;site_outer;run_sites;main", "time -", 100 * rounds);
    say_path("site_function;run_function;run_sites;main", "gettimeofday -", 100 * rounds);
    say_path("site_pool;pool_thread", "clock_gettime CLOCK_MONOTONIC_COARSE", 200 * rounds);
    return 0;
}
