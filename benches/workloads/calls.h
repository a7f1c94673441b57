/* The kinds of calls that loop.c can make. */
#ifndef CALLS_H
#define CALLS_H

#include "vdso.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The program that `execs` executes. */
static char *exec_path;

static void clock_gettime_calls(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static void clock_gettime_coarse_calls(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
}

static void realtime_coarse_calls(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
}

static void pointer_calls(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		vdso_gettime(CLOCK_MONOTONIC, &now);
}

static void realtime_pointer_calls(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		vdso_gettime(CLOCK_REALTIME, &now);
}

static void gettimeofday_calls(uint64_t calls)
{
	struct timeval now;

	while (calls--)
		gettimeofday(&now, NULL);
}

static void getppid_calls(uint64_t calls)
{
	while (calls--)
		getppid();
}

#ifdef __x86_64__
static void rdtsc_calls(uint64_t calls)
{
	while (calls--)
		__asm__ volatile("rdtsc; shl $32, %%rdx; or %%rdx, %%rax" : : : "rax", "rdx", "cc");
}

static void rdtscp_calls(uint64_t calls)
{
	while (calls--)
		__asm__ volatile("rdtscp; shl $32, %%rdx; or %%rdx, %%rax" : : : "rax", "rcx", "rdx", "cc");
}

static void lfence_rdtsc_calls(uint64_t calls)
{
	while (calls--)
		__asm__ volatile("lfence; rdtsc; shl $32, %%rdx; or %%rdx, %%rax" : : : "rax", "rdx", "cc");
}
#endif

static void ignore_signal(int signal)
{
	(void)signal;
}

static void signal_calls(uint64_t calls)
{
	static int installed;

	if (!installed) {
		signal(SIGUSR1, ignore_signal);
		installed = 1;
	}
	while (calls--)
		raise(SIGUSR1);
}

static void fork_calls(uint64_t calls)
{
	while (calls--) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		if (child < 0 || waitpid(child, NULL, 0) != child)
			_exit(3);
	}
}

static void exec_calls(uint64_t calls)
{
	while (calls--) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			execl(exec_path, exec_path, (char *)NULL);
			_exit(127);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			_exit(3);
	}
}

static const struct kind {
	const char *name;
	calls_function call;
	/* How to take time stamps; see batches.h. */
	struct stamp stamp;
} kinds[] = {
	{ "clock_gettime", clock_gettime_calls, { .by_syscall = 1 } },
	{ "clock_gettime_coarse", clock_gettime_coarse_calls, { .by_syscall = 1 } },
	{ "realtime_coarse", realtime_coarse_calls, { .by_syscall = 1 } },
	{ "pointer", pointer_calls, { .by_syscall = 1 } },
	{ "realtime_pointer", realtime_pointer_calls, { .by_syscall = 1 } },
	{ "gettimeofday", gettimeofday_calls, { .by_syscall = 1 } },
	{ "getppid", getppid_calls, { .by_syscall = 0 } },
#ifdef __x86_64__
	{ "rdtsc", rdtsc_calls, { .by_syscall = 1 } },
	{ "rdtscp", rdtscp_calls, { .by_syscall = 1 } },
	{ "lfence_rdtsc", lfence_rdtsc_calls, { .by_syscall = 1 } },
#endif
	{ "signals", signal_calls, { .by_syscall = 0 } },
	{ "forks", fork_calls, { .by_syscall = 0 } },
	{ "execs", exec_calls, { .by_syscall = 0 } },
};

static const struct kind *kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

#endif
