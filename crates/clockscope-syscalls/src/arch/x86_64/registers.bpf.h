// The kernel's copy of a program's registers, for count.bpf.c.

struct thread_info {
	u32 status;
} KERNEL;

struct pt_regs {
	unsigned long r9;
	unsigned long orig_ax;
} KERNEL;

#define SIXTH_ARGUMENT(of) ((of)->r9)
#define CALL_NUMBER(of) ((of)->orig_ax)
// TS_COMPAT in arch/x86/include/asm/thread_info.h (Linux 6.18): a 32-bit call is being made.
#define IS_32_BIT(task) ((task)->thread_info.status & 2)
#define NR_GETPPID 110
