"""Each way of Python to read a clock lies between two system calls."""

import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)
NUMBER = {"x86_64": 228, "aarch64": 113}[__import__("platform").machine()]
OFF = 1_000_000


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


def by_system_call(clock):
    place = Timespec()
    assert libc.syscall(NUMBER, clock, ctypes.byref(place)) == 0
    return place.sec * 10**9 + place.nsec


WAYS = {
    "monotonic_ns": (1, time.monotonic_ns),
    "perf_counter_ns": (1, time.perf_counter_ns),
    "time_ns": (0, time.time_ns),
    "clock_gettime_ns realtime": (0, lambda: time.clock_gettime_ns(0)),
    "clock_gettime_ns monotonic": (1, lambda: time.clock_gettime_ns(1)),
    "clock_gettime_ns raw": (4, lambda: time.clock_gettime_ns(4)),
    "clock_gettime_ns boottime": (7, lambda: time.clock_gettime_ns(7)),
    "clock_gettime_ns tai": (11, lambda: time.clock_gettime_ns(11)),
    "process_time_ns": (2, time.process_time_ns),
    "thread_time_ns": (3, time.thread_time_ns),
}
until = time.monotonic() + 1
while time.monotonic() < until:
    for name, (clock, way) in WAYS.items():
        before, reading, after = by_system_call(clock), way(), by_system_call(clock)
        assert before - OFF <= reading <= after + OFF, (name, before, reading, after)
print("python:", len(WAYS), "ways")
