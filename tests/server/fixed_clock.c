// Loaded into llama-server before other libraries (LD_PRELOAD): its clock starts at $FIXED_CLOCK,
// seconds since 1970. So chat templates that write the date write the same one each day.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t started(void) {
  static time_t first = 0;
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  if (first == 0) first = now.tv_sec;
  return first;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  const char* const fixed = getenv("FIXED_CLOCK");
  if (result == 0 && clock == CLOCK_REALTIME && fixed != NULL) {
    struct timespec monotonic;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic);
    now->tv_sec = atoll(fixed) + monotonic.tv_sec - started();
  }
  return result;
}

time_t time(time_t* seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != NULL) *seconds = now.tv_sec;
  return now.tv_sec;
}
