// Two threads that share one CPU for 0.1 s of CPU time each: each waits for it about as long.
//
// Prints "result queued NS", the time that both have waited on run queues since main began.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

static pthread_barrier_t together;

static void burn(void)
{
    struct timespec cpu;
    pthread_barrier_wait(&together);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    while (cpu.tv_sec == 0 && cpu.tv_nsec < 100000000);
    pthread_barrier_wait(&together);
}

static void *other(void *unused)
{
    burn();
    pthread_barrier_wait(&together); // lives until its time has been read
    return unused;
}

// The second number of /proc/self/task/*/schedstat, summed.
static unsigned long long queued(void)
{
    unsigned long long sum = 0, waited;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%*u %llu", &waited) == 1)
            sum += waited;
        if (file)
            fclose(file);
    }
    return sum;
}

int main(void)
{
    pthread_t thread;
    cpu_set_t one;
    unsigned long long before = queued();
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    pthread_barrier_init(&together, NULL, 2);
    if (sched_setaffinity(0, sizeof one, &one) || pthread_create(&thread, NULL, other, NULL))
        return 1;
    burn();
    printf("result queued %llu\n", queued() - before);
    fflush(stdout);
    pthread_barrier_wait(&together);
    pthread_join(thread, NULL);
    return 0;
}
