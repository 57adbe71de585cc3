/* GLib's mutex: on Linux a futex of its own. */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

static GMutex mutex;
static long count, each;

static gpointer work(gpointer unused) {
  for (long i = 0; i < each; i++) {
    g_mutex_lock(&mutex);
    count++;
    g_mutex_unlock(&mutex);
  }
  return unused;
}

int main(int argc, char** argv) {
  GThread* threads[4];
  each = argc > 1 ? atol(argv[1]) : 250000;
  for (int i = 0; i < 4; i++) threads[i] = g_thread_new("work", work, NULL);
  for (int i = 0; i < 4; i++) g_thread_join(threads[i]);
  printf("%ld\n", count);
}
