// Programs that use their vDSO in unusual ways: `own_vdso look|unmap|move`.
//   look   AT_SYSINFO_EHDR, /proc/self/auxv and /proc/self/maps each lead to a working image
//   unmap  removes the mapping named [vdso] and goes on by system calls
//   move   moves [vvar*] and [vdso], as CRIU does, and calls the functions at the new address
//
// Exact: only calls through AT_SYSINFO_EHDR are promised to be counted, and only they use
// CLOCK_TAI; other calls use CLOCK_BOOTTIME and are not in the printed lines.
#define _GNU_SOURCE
#include "say.h"
#include "vdso_reader.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

typedef int gettime(clockid_t, struct timespec *);

struct range { uintptr_t start, end; };

// The range of the mappings whose names begin with `name`; they are neighbours.
static struct range mapping(const char *name)
{
    struct range all = {0, 0};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char *bracket = strchr(line, '[');
        if (!bracket || strncmp(bracket, name, strlen(name)) != 0 || sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
        if (!all.start) all.start = start;
        all.end = end;
    }
    if (maps) fclose(maps);
    return all;
}

static uintptr_t base_in_auxv(void)
{
    Elf64_auxv_t entry[64];
    int file = open("/proc/self/auxv", O_RDONLY);
    ssize_t size = read(file, entry, sizeof entry);
    close(file);
    for (ssize_t i = 0; i < size / (ssize_t)sizeof entry[0]; i++)
        if (entry[i].a_type == AT_SYSINFO_EHDR) return entry[i].a_un.a_val;
    return 0;
}

// Whether the answers of the image at `base` lie between two system calls.
static const char *answer(uintptr_t base, clockid_t clock, long calls)
{
    struct timespec before, now, after;
    struct image image = read_image(base);
    gettime *function = image.symbols ? (gettime *)find_function(&image, "__vdso_clock_gettime") : NULL;
    if (!function) return "is not readable";
    REPEAT(calls) {
        syscall(SYS_clock_gettime, clock, &before);
        function(clock, &now);
        syscall(SYS_clock_gettime, clock, &after);
        long since = (now.tv_sec - before.tv_sec) * 1000000000L + now.tv_nsec - before.tv_nsec;
        long until = (after.tv_sec - now.tv_sec) * 1000000000L + after.tv_nsec - now.tv_nsec;
        if (since < 0 || until < 0) return "lies";
    }
    return "answers";
}

static int look(void)
{
    uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    SAY("result AT_SYSINFO_EHDR %s\n", answer(base, CLOCK_TAI, 1009));
    say_vdso("clock_gettime", "CLOCK_TAI", 1009);
    SAY("result /proc/self/auxv %s\n", answer(base_in_auxv(), CLOCK_BOOTTIME, 101));
    SAY("result /proc/self/maps %s\n", answer(mapping("[vdso]").start, CLOCK_BOOTTIME, 101));
    return 0;
}

static int unmap(void)
{
    struct timespec now;
    REPEAT(211) clock_gettime(CLOCK_TAI, &now);
    say_vdso("clock_gettime", "CLOCK_TAI", 211);
    struct range image = mapping("[vdso]");
    SAY("result munmap %d\n", munmap((void *)image.start, image.end - image.start));
    REPEAT(223) syscall(SYS_getppid);
    say_syscall("getppid", 223);
    return 0;
}

static int move(void)
{
    struct range data = mapping("[vvar"), image = mapping("[vdso]");
    size_t size = image.end - data.start;
    char *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct range rest = mapping("[vvar]"); // each mapping moves on its own
    const char *names[] = {"[vvar]", "[vvar_vclock]", "[vdso]"};
    for (int i = 0; i < 3; i++) {
        rest = mapping(names[i]);
        if (!rest.start) continue;
        size_t length = rest.end - rest.start;
        char *to = place + (rest.start - data.start);
        if (mremap((void *)rest.start, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return 1;
    }
    SAY("result the moved image %s\n", answer((uintptr_t)place + (image.start - data.start), CLOCK_BOOTTIME, 101));
    return 0;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    if (strcmp(mode, "look") == 0) return look();
    if (strcmp(mode, "unmap") == 0) return unmap();
    if (strcmp(mode, "move") == 0) return move();
    return 2;
}
