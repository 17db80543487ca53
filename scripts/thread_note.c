// Loaded into a test program (LD_PRELOAD) by threaded_tests.py: each thread that it starts is a line
// of the program's output, and so is its end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void* (*Run)(void*);
typedef int (*Create)(pthread_t*, const pthread_attr_t*, Run, void*);
struct Begun {
  Run run;
  void* argument;
};

static void Note(const char* what) {
  char line[64];
  const int length = snprintf(line, sizeof(line), "\nATTNDB_THREAD %s %d\n", what, (int)getpid());
  const ssize_t ignored = write(STDOUT_FILENO, line, (size_t)length);
  (void)ignored;
}

static void* RunAndNote(void* argument) {
  const struct Begun begun = *(struct Begun*)argument;
  free(argument);
  void* const result = begun.run(begun.argument);
  Note("ends");
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, Run run, void* argument) {
  const Create create = (Create)dlsym(RTLD_NEXT, "pthread_create");
  struct Begun* const begun = malloc(sizeof(*begun));
  if (begun == NULL) abort();
  *begun = (struct Begun){run, argument};
  Note("begins");
  const int result = create(thread, attributes, RunAndNote, begun);
  if (result == 0) return 0;
  free(begun);
  Note("ends");
  return result;
}
