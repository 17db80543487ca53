// Loaded into a test program (LD_PRELOAD) by threaded_suites.py: each thread that it starts is a
// line of the program's output.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static const char kNote[] = "\nATTNDB_THREAD\n";
  const Create create = (Create)dlsym(RTLD_NEXT, "pthread_create");
  const ssize_t ignored = write(STDOUT_FILENO, kNote, sizeof(kNote) - 1);
  (void)ignored;
  return create(thread, attributes, run, argument);
}
