// Layout of a CPU's sample and of the kernel's copy of a program's registers, for sample.bpf.c.

// arch/x86/include/uapi/asm/ptrace.h and include/uapi/linux/bpf_perf_event.h (Linux 6.18). All fields are 64-bit words:
// since Linux 6.9 the kernel's own `cs` has 16 bits, but the verifier wants 8-byte loads.
struct sampled {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp,
		ss;
	u64 sample_period;
	u64 address;
};

struct thread_info {
	u32 status;
} KERNEL;

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
} KERNEL;

#define IS_USER(context) ((*(volatile u64 *)&(context)->cs & 3) == 3)
// __USER32_CS in arch/x86/include/asm/segment.h (Linux 6.18)
#define IS_32_BIT_CODE(context) ((*(volatile u64 *)&(context)->cs & 0xffff) == 0x23)
#define INSTRUCTION(context) ((context)->ip)
#define FIRST_ARGUMENT(context) ((context)->di)
#define CALL_NUMBER(regs) ((regs)->orig_ax)
#define CALL_INSTRUCTION(regs) ((regs)->ip)
#define CALL_ARGUMENT(regs) ((regs)->di)
// TS_COMPAT in arch/x86/include/asm/thread_info.h (Linux 6.18): a 32-bit call is being made.
#define IS_32_BIT(task) ((task)->thread_info.status & 2)
// clock_gettime, gettimeofday, time
#define READS_CLOCK(number) ((number) == 228 || (number) == 96 || (number) == 201)
#define TAKES_CLOCK(number) ((number) == 228)
