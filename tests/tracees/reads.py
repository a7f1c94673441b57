# CPython: each clock a prime number of times.
#
# Exact: the interpreter itself reads CLOCK_MONOTONIC some 200 times and calls time(2) once, but
# never reads these two clocks.
import os
import time


def read_clock(name, calls):
    clock = getattr(time, name)
    for _ in range(calls):
        time.clock_gettime(clock)
    print("vdso clock_gettime", name, calls)


read_clock("CLOCK_TAI", 1009)
read_clock("CLOCK_BOOTTIME", 503)
for _ in range(223):
    os.getppid()
print("syscall getppid 223")
