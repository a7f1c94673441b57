// A program whose code is changed by another tool: the first byte of an instruction is written back, as the kernel
// does when it removes a uprobe. If the other bytes are not the program's, they are waited for.
//
// Exact: getppid, as often as it was called before.
#include <fcntl.h>
#include <string.h>

#include "say.h"

long broken_getppid(void);
__asm__(".text\n.globl broken_getppid\n.type broken_getppid, @function\nbroken_getppid:\n"
        "  mov $110, %eax\n  syscall\n  ret\n"
        ".size broken_getppid, . - broken_getppid\n"
        ".data\nbroken_at: .quad broken_getppid\n.text\n");
extern unsigned char *broken_at __asm__("broken_at");

int main(void)
{
    static const unsigned char whole[] = {0xb8, 110, 0, 0, 0};
    long parent = 0;
    REPEAT(30) parent = broken_getppid();
    say_syscall("getppid", 30);
    int memory = open("/proc/self/mem", O_WRONLY);
    if (memory < 0 || pwrite(memory, whole, 1, (long)broken_at) != 1)
        return 1;
    unsigned char found[sizeof whole];
    do {
        usleep(1000);
        memcpy(found, broken_at, sizeof found);
    } while (memcmp(found, whole, sizeof whole));
    int right = 0;
    REPEAT(50) right += broken_getppid() == parent;
    printf("right %d\n", right);
    return 0;
}
