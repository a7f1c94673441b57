/* clock_gettime of the vDSO that this process was given, by its address. */
#ifndef VDSO_H
#define VDSO_H

#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#include "vdso_name.h"

typedef int (*gettime_function)(clockid_t clock, struct timespec *now);

/* NULL before find_vdso(), and where there is none. */
static gettime_function vdso_gettime;

static void find_vdso(void)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);

	vdso_gettime = vdso ? (gettime_function)dlvsym(vdso, VDSO_NAME, VDSO_VERSION) : NULL;
}

#endif
