/* What the vDSO calls clock_gettime, and the version of its symbols. */
#ifndef VDSO_NAME
#ifdef __x86_64__
#define VDSO_NAME "__vdso_clock_gettime"
#define VDSO_VERSION "LINUX_2.6"
#else
#define VDSO_NAME "__kernel_clock_gettime"
#define VDSO_VERSION "LINUX_2.6.39"
#endif
#endif
