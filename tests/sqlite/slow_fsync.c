/* Loaded before the C library: every fsync and fdatasync takes as long as FSYNC_DELAY says, in microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void pause_a_while(void) {
    const char *delay = getenv("FSYNC_DELAY");
    if (delay != NULL) usleep((useconds_t)atoi(delay));
}

int fsync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    pause_a_while();
    return real(descriptor);
}

int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    pause_a_while();
    return real(descriptor);
}
