# Reads its clocks as often as each input line says, and prints how often.
#
# Exact: the interpreter itself reads neither of these clocks while it runs.
import sys
import time

print("ready", flush=True)
for line in sys.stdin:
    calls = int(line)
    for _ in range(calls):
        time.time()
    for _ in range(calls // 2):
        time.clock_gettime(time.CLOCK_TAI)
    print("vdso clock_gettime CLOCK_REALTIME", calls)
    print("vdso clock_gettime CLOCK_TAI", calls // 2, flush=True)
    print("done", flush=True)
