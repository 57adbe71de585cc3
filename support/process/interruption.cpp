#include "support/process/interruption.hpp"

#include <signal.h>

#include <csignal>

namespace usher::support {

const int interrupting_signals[4] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

namespace {

volatile std::sig_atomic_t interruption = 0;
volatile std::sig_atomic_t continued = 0;

void note_interruption(int signal) {
  interruption = signal;
}
void note_continuation(int) {
  continued = continued + 1;
}

}  // namespace

int interrupted() {
  return interruption;
}

unsigned continuations() {
  return static_cast<unsigned>(continued);
}

void watch_for_interruption() {
  struct sigaction action {};
  action.sa_handler = note_interruption;  // without SA_RESTART, so that poll() returns
  for (const int s : interrupting_signals) {
    struct sigaction before {};
    sigaction(s, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(s, &action, nullptr);
  }
  action.sa_handler = note_continuation;
  sigaction(SIGCONT, &action, nullptr);
}

}  // namespace usher::support
