// Makes system calls and prints how many: one line `ABI NUMBER PID TID CALLS ERRORS` for each thread and call.
// Before that, writes a byte and waits for one, so that a counter can be attached in between.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void did(const char *abi, long number, long calls, long errors)
{
	char line[128];
	int length = snprintf(line, sizeof line, "%s %ld %d %d %ld %ld\n", abi, number, getpid(),
			      gettid(), calls, errors);

	if (write(1, line, length) != length)
		abort();
}

static void parents(long calls)
{
	for (long i = 0; i < calls; i++)
		syscall(SYS_getppid);
	did("x86_64", SYS_getppid, calls, 0);
}

static void *parents_thread(void *calls)
{
	parents((long)calls);
	did("x86_64", SYS_exit, 1, 0);
	return NULL;
}

static void threads(int count, long calls)
{
	pthread_t thread[64];

	for (int i = 0; i < count; i++)
		pthread_create(&thread[i], NULL, parents_thread, (void *)(calls + 2 * i));
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

// Prints the last line of a process. Only its end may follow.
static void ends(void)
{
	did("x86_64", SYS_exit_group, 1, 0);
	_exit(0);
}

static void forks(int count, long calls)
{
	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			if (i % 2) // a grandchild too
				if (fork() == 0) {
					threads(2, 31);
					ends();
				}
			parents(calls + i);
			while (wait(NULL) > 0)
				;
			ends();
		}
	}
	while (wait(NULL) > 0)
		;
}

static void failures(long calls)
{
	for (long i = 0; i < calls; i++)
		syscall(SYS_close, -1);
	did("x86_64", SYS_close, calls, calls);
	for (long i = 0; i < 23; i++)
		syscall(5000);
	did("x86_64", 5000, 23, 23);
	for (long i = 0; i < 7; i++)
		syscall(0x40000000 | SYS_getpid);
	did("x86_64", 0x40000000 | SYS_getpid, 7, 7);
	for (long i = 0; i < 5; i++)
		syscall(SYS_restart_syscall);
	did("x86_64", SYS_restart_syscall, 5, 5);
}

static char **arguments;

// Executes this program again, `depth` times.
static void *again(void *depth)
{
	char text[32];

	snprintf(text, sizeof text, "%ld", (long)depth - 1);
	did("x86_64", SYS_execve, 1, 0);
	execl("/proc/self/exe", arguments[0], arguments[1], text, (char *)NULL);
	abort();
}

static void executes(long depth)
{
	pthread_t thread;

	parents(101 + depth);
	if (depth > 3) // from another thread: on exec it gets the first thread's id
		if (pthread_create(&thread, NULL, again, (void *)depth) == 0)
			pause();
	if (depth > 0)
		again((void *)depth);
}

static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void signals(int count)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < count; i++)
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
	did("x86_64", SYS_tgkill, count, 0);
	did("x86_64", SYS_rt_sigreturn, handled, 0);
}

// 20 is getpid to 32-bit programs and writev to 64-bit ones.
static void compat(int count)
{
	for (int i = 0; i < count; i++) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10",
				 "r11");
		if (result != getpid())
			return; // no 32-bit calls in this kernel
	}
	did("ia32", 20, count, 0);
	did("x86_64", SYS_writev, 0, 0);
}

static void refused(int count)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {4, code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter))
		abort();
	for (int i = 0; i < count; i++)
		syscall(SYS_getuid);
	did("x86_64", SYS_getuid, count, count);
	parents(11);
}

// Puts `mark` into r9 (the sixth argument), which getppid ignores.
static void marked(int count, unsigned long mark)
{
	for (int i = 0; i < count; i++)
		syscall(SYS_getppid, 0L, 0L, 0L, 0L, 0L, mark);
	for (int i = 0; i < count; i++) // refused calls too
		syscall(5000, 0L, 0L, 0L, 0L, 0L, mark);
	did("x86_64", 5000, 0, 0);
	parents(13);
}

static int is_in_pause(pid_t pid)
{
	char text[64];
	FILE *file;
	long number = -1;

	snprintf(text, sizeof text, "/proc/%d/syscall", pid);
	file = fopen(text, "r");
	if (!file)
		abort();
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_pause;
}

// Children that are killed in the middle of a call.
static void killed(int count)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		abort();
	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child == 0) {
			did("x86_64", SYS_pause, 1, 1); // a signal ends the call, as EINTR would
			if (write(ready[1], "r", 1) != 1)
				abort();
			for (;;)
				pause();
		}
		if (read(ready[0], &byte, 1) != 1)
			abort();
		while (!is_in_pause(child))
			usleep(100);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

int main(int count, char **words)
{
	const char *what = words[1];
	char byte;

	arguments = words;
	if (count == 3)
		executes(atol(words[2]));
	else if (write(1, "r", 1) != 1 || read(0, &byte, 1) != 1)
		return 1;
	if (!strcmp(what, "loop"))
		parents(10007);
	else if (!strcmp(what, "threads"))
		threads(8, 10007);
	else if (!strcmp(what, "forks"))
		forks(13, 997);
	else if (!strcmp(what, "failures"))
		failures(997);
	else if (!strcmp(what, "executes") && count == 2)
		executes(7);
	else if (!strcmp(what, "signals"))
		signals(503);
	else if (!strcmp(what, "compat"))
		compat(307);
	else if (!strcmp(what, "refused"))
		refused(401);
	else if (!strcmp(what, "marked"))
		marked(103, 0x6d61726b65640001);
	else if (!strcmp(what, "killed"))
		killed(5);
	ends();
}
