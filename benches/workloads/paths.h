/* The calls whose cost clockscope bench is compared by: PATHS(X) expands X(name, expression) for each.
 *
 * `name` is that of the row on the page; `now`, a struct timespec, and
 * `vdso`, the function by its address, are in scope. */
#ifndef PATHS_H
#define PATHS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vdso_name.h"

typedef int (*clock_function)(clockid_t, struct timespec *);

/* The vDSO's function by its address; NULL without one. */
static clock_function vdso_clock_gettime(void)
{
	void *image = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return image ? (clock_function)dlsym(image, VDSO_NAME) : NULL;
}

static clock_function by_vdso;

/* The system call by its instruction. */
static inline long system_call(long number, long first, long second)
{
#ifdef __x86_64__
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second)
			 : "rcx", "r11", "memory");
	return result;
#else
	return syscall(number, first, second);
#endif
}

#define PATHS(X)                                                                             \
	X(monotonic_libc, clock_gettime(CLOCK_MONOTONIC, &now))                              \
	X(monotonic_vdso, vdso(CLOCK_MONOTONIC, &now))                                       \
	X(monotonic_syscall, system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now))    \
	X(monotonic_coarse_libc, clock_gettime(CLOCK_MONOTONIC_COARSE, &now))                \
	X(getppid_syscall, system_call(SYS_getppid, 0, 0))                                   \
	X(getppid_libc, getppid())

#endif
