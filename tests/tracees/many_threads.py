# Reads a clock in more threads at once than there are slots to count in.
import sys
import threading
import time

threads, turns = int(sys.argv[1]), int(sys.argv[2])
barrier = threading.Barrier(threads)


def many():
    time.clock_gettime(time.CLOCK_BOOTTIME)
    barrier.wait()
    for _ in range(turns):
        time.clock_gettime(time.CLOCK_BOOTTIME)
    barrier.wait()


all_of_them = [threading.Thread(target=many) for _ in range(threads)]
[thread.start() for thread in all_of_them]
[thread.join() for thread in all_of_them]
print("clock_gettime CLOCK_BOOTTIME", threads * (turns + 1))
