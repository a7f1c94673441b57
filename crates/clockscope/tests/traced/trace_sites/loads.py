import os, sys
print('ready', flush=True)
sys.stdin.readline()
import ctypes, sqlite3, ssl, threading
for _ in range(5):
    thread = threading.Thread(target=lambda: [os.getppid() for _ in range(100)])
    thread.start(); thread.join()
if os.fork() == 0:
    [os.getppid() for _ in range(1000)]
    os._exit(0)
os.wait()
print('done', flush=True)
sys.stdin.readline()
