/* Preloaded into a process under test: its file system has no locks, no hard links or no shared memory maps, as FAULT says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int lacks(const char *what) {
  const char *fault = getenv("FAULT");
  return fault != NULL && strcmp(fault, what) == 0;
}

static int fault(int code) {
  errno = code;
  return -1;
}

static int is_lock(int command) { return command == F_SETLK || command == F_SETLKW; }

typedef int (*fcntl_call)(int, int, ...);

#define FCNTL(name)                                                            \
  int name(int file, int command, ...) {                                       \
    va_list list;                                                              \
    va_start(list, command);                                                   \
    void *argument = va_arg(list, void *);                                     \
    va_end(list);                                                              \
    if (is_lock(command) && lacks("locks")) return fault(ENOLCK);              \
    return ((fcntl_call)dlsym(RTLD_NEXT, #name))(file, command, argument);     \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

typedef int (*link_call)(const char *, const char *);

int link(const char *from, const char *to) {
  if (lacks("links")) return fault(EPERM);
  return ((link_call)dlsym(RTLD_NEXT, "link"))(from, to);
}

typedef void *(*mmap_call)(void *, size_t, int, int, int, off_t);

void *mmap(void *at, size_t size, int access, int flags, int file, off_t from) {
  if (file >= 0 && (flags & MAP_SHARED) && lacks("maps")) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  return ((mmap_call)dlsym(RTLD_NEXT, "mmap"))(at, size, access, flags, file, from);
}

void *mmap64(void *at, size_t size, int access, int flags, int file, off_t from) {
  return mmap(at, size, access, flags, file, from);
}
