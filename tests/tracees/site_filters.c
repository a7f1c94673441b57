// System calls under a seccomp filter that the program installs itself. `site_filters late` and `late-by-prctl` load a
// library under a filter that kills a process for a call that clockscope makes elsewhere. `site_filters pinned` makes calls under
// a filter that kills for a getppid from another address.
//
// Exact: only this program calls getppid.
#define _GNU_SOURCE
#include "say.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

long own_getppid(void);
extern const char behind_own_call[];
// Padding keeps it away from code without symbols, whose bytes could look like jumps into it.
__asm__(".text\n.skip 256, 0x90\n.globl own_getppid\n.type own_getppid, @function\nown_getppid:\n"
        "  mov $110, %eax\n  syscall\n"
        "behind_own_call:\n  ret\n"
        ".size own_getppid, . - own_getppid\n");

static void filtered(int by_prctl, int pins)
{
    const unsigned kill = SECCOMP_RET_KILL_PROCESS, number = offsetof(struct seccomp_data, nr);
    const unsigned low = (unsigned)(uintptr_t)behind_own_call;
    struct sock_filter calls[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, kill),
    }, places[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, kill),
    };
    struct sock_fprog program = {sizeof calls / sizeof *calls, pins ? places : calls};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(84);
    long refused = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                            : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    if (refused) _exit(83);
    if (!pins && dlopen("libresolv.so.2", RTLD_NOW) == NULL) _exit(82);
    REPEAT(30) own_getppid();
    say_syscall("getppid", 30);
}

int main(int count, char **words)
{
    if (count != 2) return 2;
    filtered(strcmp(words[1], "late-by-prctl") == 0, strcmp(words[1], "pinned") == 0);
    return 0;
}
