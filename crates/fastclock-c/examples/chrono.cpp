// fastclock's clocks in code that expects std::chrono's.

#include <chrono>
#include <ctime>
#include <iostream>

#include <fastclock.hpp>

// A program that names its clock once can switch clocks by changing this line.
using program_clock = fastclock::clock;

static_assert(program_clock::is_steady, "as std::chrono::steady_clock is");
#if __cplusplus >= 202002L
static_assert(std::chrono::is_clock_v<fastclock::clock>);
static_assert(std::chrono::is_clock_v<fastclock::wall_clock>);
#endif

template <typename Clock, typename Work>
typename Clock::duration time_of(Work work) {
    const auto before = Clock::now();
    work();
    return Clock::now() - before;
}

int main() {
    using std::chrono::microseconds;
    const int status = fastclock_calibrate(fastclock::handle(), 1000000000);
    const auto work = [] {
        volatile unsigned long sum = 0;
        for (unsigned long i = 0; i < 10000000; i++)
            sum = sum + i;
    };
    const auto ours = time_of<program_clock>(work);
    const auto theirs = time_of<std::chrono::steady_clock>(work);
    std::cout << "fastclock " << std::chrono::duration_cast<microseconds>(ours).count() << " us\n"
              << "steady_clock " << std::chrono::duration_cast<microseconds>(theirs).count()
              << " us\n"
              << "status " << status << ": " << fastclock_reason_text(status) << '\n';

    const auto wall = fastclock::wall_clock::to_system(fastclock::wall_clock::now());
    const auto apart = wall - std::chrono::system_clock::now();
    std::cout << "system_clock is "
              << (apart < std::chrono::seconds(1) && apart > std::chrono::seconds(-1)
                      ? "the same"
                      : "another")
              << " to the second\n";
    return 0;
}
