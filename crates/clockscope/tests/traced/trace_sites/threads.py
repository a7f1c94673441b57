import ctypes, decimal, os, sqlite3, ssl, subprocess, threading
threads = [threading.Thread(target=lambda: [os.getppid() for _ in range(1000)]) for _ in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
[subprocess.run(['ls', '/'], stdout=subprocess.DEVNULL) for _ in range(3)]
child = os.fork()
if child == 0: os._exit(0)
os.waitpid(child, 0)
