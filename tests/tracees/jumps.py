# Reads a clock in a library (a handler jumps out of its reads, maybe while a thread waits), then reads another clock.
import ctypes
import sys
import time

jumps = ctypes.CDLL(sys.argv[1]).jumps
jumps.restype = ctypes.c_long
jumps.argtypes = [ctypes.c_long]
print("jumps", jumps(int(sys.argv[2])))
for _ in range(int(sys.argv[3])):
    time.clock_gettime(time.CLOCK_TAI)
