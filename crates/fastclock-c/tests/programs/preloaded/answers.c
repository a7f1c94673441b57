/* Prints the results of clock_gettime() and gettimeofday() for every kind of argument: they are the
 * same with and without the preloaded library. Each time must lie between two system calls. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Allowed error, ns: far above a clock's error, far below the distance of another clock. */
static const int64_t OFF = 1000000;

static int64_t nanos(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t by_system_call(clockid_t id) {
    struct timespec time = {0, 0};
    CHECK(syscall(SYS_clock_gettime, id, &time) == 0);
    return nanos(time);
}

static void sandwich(clockid_t id) {
    struct timespec time = {-1, -1};
    int64_t before = by_system_call(id);
    errno = 77;
    CHECK(clock_gettime(id, &time) == 0);
    CHECK(errno == 77);
    int64_t after = by_system_call(id);
    CHECK(time.tv_nsec >= 0 && time.tv_nsec < 1000000000);
    CHECK(before - OFF <= nanos(time) && nanos(time) <= after + OFF);
}

static void sandwich_of_day(void) {
    struct timeval time;
    int64_t before = by_system_call(CLOCK_REALTIME);
    CHECK(gettimeofday(&time, NULL) == 0);
    int64_t after = by_system_call(CLOCK_REALTIME);
    int64_t day = (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
    CHECK(time.tv_usec >= 0 && time.tv_usec < 1000000);
    CHECK(before - OFF - 1000 <= day && day <= after + OFF);
}

static void numbers(void) {
    for (clockid_t id = -300; id <= 40; id++) {
        struct timespec time;
        errno = 0;
        int ours = clock_gettime(id, &time), our_error = errno;
        errno = 0;
        int kernels = (int)syscall(SYS_clock_gettime, id, &time), error = errno;
        CHECK(ours == kernels && our_error == error);
        if (ours == 0 && id >= 0) {
            sandwich(id);
            printf("clock %d: a time\n", id);
        } else if (id >= 0) {
            printf("clock %d: %s\n", id, strerrorname_np(our_error));
        }
    }
    clockid_t process, thread;
    CHECK(clock_getcpuclockid(getpid(), &process) == 0);
    CHECK(pthread_getcpuclockid(pthread_self(), &thread) == 0);
    sandwich(process);
    sandwich(thread);
    struct timespec time;
    CHECK(clock_gettime((clockid_t)(~0x1ffffffU << 3 | 2), &time) == -1);
    printf("the clock of a process that is not there: %s\n", strerrorname_np(errno));
}

/* Makes the call in a child process, because the call may kill the process. */
static void in_child(const char *what, int call(void *), void *argument) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        errno = 0;
        int result = call(argument);
        printf("%s: %d %s\n", what, result, errno ? strerrorname_np(errno) : "");
        fflush(stdout);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        printf("%s: signal %d\n", what, WTERMSIG(status));
}

static int monotonic(void *place) { return clock_gettime(CLOCK_MONOTONIC, place); }
static int boottime(void *place) { return clock_gettime(CLOCK_BOOTTIME, place); }
static int cpu_time(void *place) { return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, place); }
static int no_clock(void *place) { return clock_gettime(99, place); }
static int of_day(void *place) { return gettimeofday(place, NULL); }
static int of_day_at_one(void *place) { return gettimeofday((struct timeval *)1, place); }

static void pointers(void) {
    char *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(read_only != MAP_FAILED);
    void *places[] = {NULL, (void *)1, read_only, (void *)(UINTPTR_MAX - 7)};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        printf("place %zu\n", i);
        in_child("monotonic", monotonic, places[i]);
        in_child("boottime", boottime, places[i]);
        in_child("cpu time", cpu_time, places[i]);
        in_child("no clock", no_clock, places[i]);
        in_child("gettimeofday", of_day, places[i]);
        in_child("gettimeofday at 1", of_day_at_one, places[i]);
    }
}

static void zones(void) {
    struct timeval time;
    struct {
        struct timezone zone;
        int after;
    } place = {{-5, -5}, 77};
    CHECK(gettimeofday(&time, &place.zone) == 0 && place.after == 77);
    printf("zone %d %d\n", place.zone.tz_minuteswest, place.zone.tz_dsttime);
    CHECK(gettimeofday(NULL, &place.zone) == 0);
    printf("nothing: %d\n", gettimeofday(NULL, NULL));
}

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    sandwich(CLOCK_MONOTONIC);
    handled++;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 500}, {0, 500}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (handled < 200)
        sandwich(CLOCK_REALTIME);
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    puts("signal handlers read the clock");
}

static int64_t last;

static void *reader(void *unused) {
    (void)unused;
    for (int i = 0; i < 300000; i++) {
        int64_t seen = __atomic_load_n(&last, __ATOMIC_ACQUIRE);
        struct timespec time;
        CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
        CHECK(nanos(time) >= seen);
        int64_t now = nanos(time);
        while (seen < now && !__atomic_compare_exchange_n(&last, &seen, now, 0, __ATOMIC_ACQ_REL,
                                                          __ATOMIC_ACQUIRE))
            ;
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, reader, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    puts("4 threads saw no time run backwards");
}

static void forks(void) {
    for (volatile int i = 0; i < 20; i++) {
        pid_t child = i % 2 ? vfork() : fork();
        if (child == 0) {
            sandwich(CLOCK_MONOTONIC);
            sandwich(CLOCK_REALTIME);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    }
    puts("children read the clock");
}

static int in_constructor = -1;

__attribute__((constructor)) static void early(void) {
    struct timespec time;
    in_constructor = clock_gettime(CLOCK_MONOTONIC, &time);
}

/* Prints to stderr which library's functions are called, and whether the clock answers by itself. */
static void whose(void) {
    Dl_info info;
    int (*status)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "fastclock_preload_status");
    int (*const functions[])(clockid_t, struct timespec *) = {clock_gettime};
    CHECK(dladdr((void *)functions[0], &info) != 0);
    CHECK((status != NULL) == (strstr(info.dli_fname, "libfastclock-preload.so") != NULL));
    fprintf(stderr, "%s\n", status == NULL ? "libc" : status() == 0 ? "fastclock" : "kernel");
}

int main(void) {
    int64_t end = by_system_call(CLOCK_MONOTONIC) + 1000000000;
    while (by_system_call(CLOCK_MONOTONIC) < end) {
        sandwich(CLOCK_MONOTONIC); /* a clock that keeps itself measures the counter meanwhile */
        sandwich(CLOCK_REALTIME);
        sandwich(CLOCK_BOOTTIME);
        sandwich(CLOCK_TAI);
        sandwich_of_day();
    }
    printf("in a constructor: %d\n", in_constructor);
    numbers();
    pointers();
    zones();
    signals();
    threads();
    forks();
    whose();
    return 0;
}
