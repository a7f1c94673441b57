/* Calls clock_gettime at the end of a chain of functions with known names, once it is told to. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile long sink;

#define FUNCTION __attribute__((noinline, noclone)) long

/* Waits for a word from the test, which then looks at this thread's next call. */
static void wait_for_the_test(void)
{
    char word;
    if (read(0, &word, 1) == 1)
        raise(SIGSTOP);
}

FUNCTION innermost(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_nsec + sink;
}

FUNCTION middle(long a, long b)
{
    return innermost() * a + innermost() * b + sink;
}

FUNCTION outermost(long a)
{
    char bytes[200];
    memset(bytes, (int)sink, sizeof bytes);
    sink = bytes[7];
    return middle(a, sink) + sink;
}

FUNCTION realigned(long n)
{
    alignas(64) volatile char bytes[128];
    volatile char more[n];
    bytes[3] = 1;
    more[n - 1] = 2;
    return outermost(bytes[3]) + more[n - 1];
}

FUNCTION recursive(long n)
{
    volatile char bytes[100];
    bytes[5] = (char)n;
    return (n ? recursive(n - 1) : outermost(1)) + bytes[5];
}

static void handler(int number)
{
    sink = outermost(number) + sink;
}

FUNCTION interrupted(void)
{
    raise(SIGUSR1);
    return sink;
}

static void *in_thread(void *nothing)
{
    wait_for_the_test();
    sink = outermost(3) + sink;
    return nothing;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "plain";
    if (!strcmp(mode, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
        return 0;
    }
    wait_for_the_test();
    if (!strcmp(mode, "realigned")) {
        sink = realigned(count * 10) + sink;
    } else if (!strcmp(mode, "signal")) {
        signal(SIGUSR1, handler);
        sink = interrupted() + sink;
    } else if (!strcmp(mode, "deep")) {
        sink = recursive(300) + sink;
    } else {
        sink = outermost(2) + sink;
    }
    return 0;
}
