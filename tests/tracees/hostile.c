// `hostile victim` is a program that hides from the other processes of its user; `hostile attack` is one of these.
//
// `hostile victim` prints `canary ADDRESS`, and after the line `hide` on standard input `hidden`. From then on the
// kernel refuses other processes of the user access to its memory. It reads clocks all the time, and makes threads,
// children and twins (tasks with its memory and its FS base) that do. After the line `end` it prints the errors that it
// found, and `done`.
//
// `hostile attack ADDRESS ROUNDS` writes to everything that the user may write and that other processes have mapped. It
// takes over segments of System V shared memory (IPC_SET), attaches and overwrites them. It opens the memory files of
// the user's processes, writes to them, truncates and maps them. It writes breakpoints (0xcc), zeroes, and the address,
// and prints how many segments and files it has written to.
#define _GNU_SOURCE
#include "say.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

// ---- The victim ----

#define TOLERATED 50000000LL // ns between the program's clock and the kernel's

static uint64_t canary[1 << 14];
static volatile long wrong_times, wrong_order, wrong_children;

static int64_t nanos(struct timespec t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void read_clocks(void)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
    struct timespec before, now, again, after;
    for (unsigned i = 0; i < 3; i++) {
        syscall(SYS_clock_gettime, clocks[i], &before);
        if (clock_gettime(clocks[i], &now) != 0 || clock_gettime(clocks[i], &again) != 0) wrong_times++;
        syscall(SYS_clock_gettime, clocks[i], &after);
        if (nanos(now) < nanos(before) - TOLERATED || nanos(now) > nanos(after) + TOLERATED) wrong_times++;
        if (clocks[i] != CLOCK_REALTIME && nanos(again) < nanos(now)) wrong_order++;
    }
    struct timeval day;
    gettimeofday(&day, NULL);
    if (llabs(day.tv_sec - time(NULL)) > 2) wrong_times++;
}

static void *thread(void *unused)
{
    (void)unused;
    REPEAT(50) read_clocks();
    return NULL;
}

static int twin(void *unused)
{
    (void)unused;
    struct timespec now;
    REPEAT(50) clock_gettime(CLOCK_MONOTONIC, &now);
    syscall(SYS_exit, 0);
    return 0;
}

static void expect_success(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, __WALL) != child || status != 0) wrong_children++;
}

static void make_others(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    pthread_t other;
    if (pthread_create(&other, NULL, thread, NULL) != 0 || pthread_join(other, NULL) != 0) wrong_children++;
    pid_t child = fork();
    if (child == 0) {
        REPEAT(50) read_clocks();
        _exit(wrong_times || wrong_order);
    }
    expect_success(child);
    expect_success(clone(twin, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
}

static int victim(void)
{
    SAY("canary %lu\n", (unsigned long)canary);
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        char line[16];
        REPEAT(20) read_clocks();
        make_others();
        if (poll(&input, 1, 0) == 0) continue;
        if (read(0, line, sizeof line) <= 0 || line[0] == 'e') break;
        prctl(PR_SET_DUMPABLE, 0);
        SAY("hidden\n");
    }
    long written = 0;
    for (unsigned i = 0; i < sizeof canary / sizeof canary[0]; i++) written += canary[i] != 0;
    SAY("result wrong times %ld\n", wrong_times);
    SAY("result wrong order %ld\n", wrong_order);
    SAY("result wrong children %ld\n", wrong_children);
    SAY("result words written to its memory %ld\n", written);
    SAY("done\n");
    return 0;
}

// ---- The attacker ----

static void fill(void *at, size_t size, uint64_t word)
{
    for (size_t i = 0; i < size / 8; i++) ((volatile uint64_t *)at)[i] = word;
}

// Overwrites the user's segments; returns how many.
static long write_to_segments(uint64_t word)
{
    long written = 0;
    struct shm_info all;
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)&all);
    for (int i = 0; i <= last; i++) {
        struct shmid_ds segment;
        int id = shmctl(i, SHM_STAT_ANY, &segment);
        if (id < 0 || (segment.shm_perm.uid != getuid() && segment.shm_perm.cuid != getuid())) continue;
        segment.shm_perm.mode = 0777;
        shmctl(id, IPC_SET, &segment);
        void *at = shmat(id, NULL, 0);
        if (at == (void *)-1) continue;
        fill(at, segment.shm_segsz, word);
        shmdt(at);
        written++;
    }
    return written;
}

// Overwrites a memory file at the offset of clockscope's page and at its start; returns 1 if that was possible.
static long write_to_file(const char *path, uint64_t word)
{
    static const off_t places[] = {0x00636c6f636b0000, 0};
    int file = open(path, O_RDWR);
    long written = 0;
    if (file < 0) return 0;
    for (unsigned i = 0; i < 2; i++) {
        written |= pwrite(file, &word, sizeof word, places[i]) > 0;
        void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, places[i]);
        if (at == MAP_FAILED) continue;
        struct stat found;
        if (fstat(file, &found) == 0 && found.st_size > places[i]) fill(at, 4096, word);
        written = 1;
        munmap(at, 4096);
    }
    written |= fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, places[0], 4096) == 0;
    written |= ftruncate(file, 0) == 0;
    close(file);
    return written;
}

// Counts the memory files that the user's processes have open, and those that could be written.
static void write_to_files(uint64_t word, long *found, long *written)
{
    char directory[64], path[400], target[64];
    DIR *processes = opendir("/proc");
    for (struct dirent *process; processes && (process = readdir(processes)) != NULL;) {
        if (atoi(process->d_name) <= 0 || atoi(process->d_name) == getpid()) continue;
        snprintf(directory, sizeof directory, "/proc/%d/fd", atoi(process->d_name));
        DIR *files = opendir(directory);
        for (struct dirent *file; files && (file = readdir(files)) != NULL;) {
            snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
            ssize_t length = readlink(path, target, sizeof target);
            if (length < 7 || memcmp(target, "/memfd:", 7) != 0) continue;
            ++*found;
            *written += write_to_file(path, word);
        }
        if (files) closedir(files);
    }
    if (processes) closedir(processes);
}

static int attack(uint64_t address, long rounds)
{
    const uint64_t words[] = {address, 0xcccccccccccccccc, 0};
    long segments = 0, files = 0, written = 0;
    for (long round = 0; round < rounds; round++) {
        segments += write_to_segments(words[round % 3]);
        if (round % 100 == 0) write_to_files(words[round / 100 % 3], &files, &written);
    }
    SAY("result segments written %s\n", segments ? "some" : "none");
    SAY("result memory files found %s\n", files ? "some" : "none");
    SAY("result memory files written %ld\n", written);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "victim") == 0) return victim();
    if (count == 4 && strcmp(arguments[1], "attack") == 0)
        return attack(strtoul(arguments[2], NULL, 10), strtol(arguments[3], NULL, 10));
    return 2;
}
