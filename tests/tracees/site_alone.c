// A program without libraries and without data that its loader makes read-only, so the loader calls no mprotect. The
// program does, under a filter that kills a process for sending a signal to a thread.
// Built with -nostdlib and -Wl,-z,norelro.
//
// Exact: only this program calls getppid.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// Padding keeps them away from code without symbols, whose bytes could look like jumps into them.
__asm__(".text\n.skip 256, 0x90\n"
        ".globl own_getppid\n.type own_getppid, @function\nown_getppid:\n"
        "  mov $110, %eax\n  syscall\n  ret\n.size own_getppid, . - own_getppid\n"
        ".globl own_mprotect\n.type own_mprotect, @function\nown_mprotect:\n"
        "  mov $10, %eax\n  syscall\n  ret\n.size own_mprotect, . - own_mprotect\n"
        ".globl _start\n_start:\n  xor %ebp, %ebp\n  and $-16, %rsp\n  call begin\n");
long own_getppid(void);
long own_mprotect(void *at, unsigned long size, long access);

static long call(long number, long a, long b, long c)
{
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

static char page[4096] __attribute__((aligned(4096)));

__attribute__((used)) void begin(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    const char said[] = "syscall getppid 30\n";
    long code = call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0;
    code |= call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program) != 0;
    for (int i = 0; i < 30; i++) own_getppid();
    code |= own_mprotect(page, sizeof page, PROT_READ) != 0;
    code |= call(SYS_write, 1, (long)said, sizeof said - 1) != sizeof said - 1;
    call(SYS_exit_group, code, 0, 0);
}
