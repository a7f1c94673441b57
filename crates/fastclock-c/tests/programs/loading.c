/* Loads, uses and closes the library again and again, as a plug-in would do. The program is not
 * linked with the library. Usage: loading LIBRARY */

#include <dlfcn.h>
#include <string.h>

#include "checks.h"

enum { ROUNDS = 20 };

/* dlsym() gives an object pointer; ISO C has no cast from it to a function's. */
#define LOOK_UP(library, function)                                                                 \
    do {                                                                                           \
        void *found = dlsym(library, "fastclock_" #function);                                      \
        CHECK(found != NULL);                                                                      \
        memcpy(&function, &found, sizeof found);                                                   \
    } while (0)

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int64_t before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fastclock_t *(*alone)(void);
        int64_t (*now)(const fastclock_t *);
        void (*free)(fastclock_t *);
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        LOOK_UP(library, alone);
        LOOK_UP(library, now);
        LOOK_UP(library, free);
        fastclock_t *clock = alone();
        CHECK(clock != NULL);
        for (int i = 0; i < 1000; i++) {
            int64_t time = now(clock);
            CHECK(time >= before);
            before = time;
        }
        free(clock);
        CHECK(dlclose(library) == 0);
    }
    printf("loaded and closed %d times\n", ROUNDS);
    return 0;
}
