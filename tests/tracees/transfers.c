// Transfers 1 MiB by a system call that waits again and again meanwhile: `transfers CALL`. A child has the other end of
// the pipe or socket. Prints "ready" at the start. On "go" a thread begins a transfer; on "take" the child takes or
// gives 1/8 of it every 20 ms; on "count" the transfer runs to its end, and it prints how many transfers have ended and
// how many of them early, then "done". At the end of its input it prints how it ended, and exits with status 7.
#define _GNU_SOURCE
#include "say.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { WHOLE = 1 << 20, PARTS = 8, PART = WHOLE / PARTS };

static char data[WHOLE];
static const char *name;
static int own, others, file, full[2], takes[2];
static long ended, early;
static sem_t begins, ends;

static int is(const char *call)
{
    return strcmp(name, call) == 0;
}

static long whole_messages(struct mmsghdr *messages, long count)
{
    long bytes = 0;
    for (long message = 0; message < count; message++) bytes += messages[message].msg_len;
    return bytes;
}

static long transfer(void)
{
    struct iovec parts[PARTS];
    struct mmsghdr messages[PARTS];
    memset(messages, 0, sizeof messages);
    for (int part = 0; part < PARTS; part++) {
        parts[part] = (struct iovec){data + part * PART, PART};
        messages[part].msg_hdr = (struct msghdr){.msg_iov = parts + part, .msg_iovlen = 1};
    }
    struct msghdr all = {.msg_iov = parts, .msg_iovlen = PARTS};
    loff_t begin = 0;
    if (is("write")) return write(own, data, WHOLE);
    if (is("writev")) return writev(own, parts, PARTS);
    if (is("pwritev2")) return pwritev2(own, parts, PARTS, -1, 0);
    if (is("sendto")) return send(own, data, WHOLE, 0);
    if (is("sendmsg")) return sendmsg(own, &all, 0);
    if (is("sendmmsg")) return whole_messages(messages, sendmmsg(own, messages, PARTS, 0));
    if (is("sendfile")) return sendfile(own, file, &begin, WHOLE);
    if (is("splice")) {
        if (write(full[1], data, WHOLE) != WHOLE) _exit(3);
        long done = splice(full[0], NULL, own, NULL, WHOLE, 0);
        if (done < WHOLE && read(full[0], data, WHOLE) != WHOLE - done) _exit(3);
        return done;
    }
    if (is("recvfrom")) return recv(own, data, WHOLE, MSG_WAITALL);
    if (is("recvmsg")) return recvmsg(own, &all, MSG_WAITALL);
    if (is("recvmmsg")) return whole_messages(messages, recvmmsg(own, messages, PARTS, MSG_WAITALL, NULL));
    _exit(2);
}

static void *transfers(void *unused)
{
    for (;;) {
        while (sem_wait(&begins) != 0);
        early += transfer() != WHOLE;
        ended++;
        sem_post(&ends);
    }
    return unused;
}

static void other_end(void)
{
    char byte;
    while (read(takes[0], &byte, 1) == 1)
        for (int part = 0; part < PARTS; part++) {
            nanosleep(&(struct timespec){0, 20000000}, NULL);
            long left = PART, done = 1;
            for (; left > 0 && done > 0; left -= done)
                done = strncmp(name, "recv", 4) == 0 ? write(others, data, left) : read(others, data, left);
            if (done <= 0) break;
        }
    _exit(0);
}

int main(int count, char **arguments)
{
    if (count != 2) return 2;
    name = arguments[1];
    int pair[2];
    if (strstr(name, "write") ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
    others = pair[0];
    own = pair[1];
    file = memfd_create("data", 0);
    if (ftruncate(file, WHOLE) != 0 || pipe(takes) != 0 || pipe(full) != 0 || fcntl(full[1], F_SETPIPE_SZ, WHOLE) < WHOLE) return 3;
    sem_init(&begins, 0, 0);
    sem_init(&ends, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        close(own);
        close(takes[1]);
        other_end();
    }
    pthread_t thread;
    if (child < 0 || pthread_create(&thread, NULL, transfers, NULL) != 0) return 3;
    SAY("ready\n");
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'g') sem_post(&begins);
        if (line[0] == 't' && write(takes[1], line, 1) != 1) return 3;
        if (line[0] == 'c') {
            while (sem_wait(&ends) != 0);
            SAY("result transfers %ld early %ld\ndone\n", ended, early);
        }
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SAY("result ended well backwards 0 wrong 0\n");
    _exit(7);
}
