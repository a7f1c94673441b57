# Reads one clock in a library, out of which a handler jumps while a thread may wait, and then another one.
import ctypes
import sys
import time

jumps = ctypes.CDLL(sys.argv[1]).jumps
jumps.restype = ctypes.c_long
jumps.argtypes = [ctypes.c_long]
print("jumps", jumps(int(sys.argv[2])))
for _ in range(int(sys.argv[3])):
    time.clock_gettime(time.CLOCK_TAI)
