import os, sys
print('ready', flush=True)
sys.stdin.buffer.raw.readline()
[os.getppid() for _ in range(1000)]
if os.fork() == 0:
    os.execv('/bin/sleep', ['sleep', '100'])
os.execv(sys.argv[1], [sys.argv[1], '4'])
