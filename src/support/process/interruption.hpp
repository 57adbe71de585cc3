// Interruption of this process by the user.
#pragma once

namespace usher::cli {

/// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless they are ignored, and for SIGCONT.
void watch_for_interruption();

/// The last of the first four signals that was received since then, or 0.
int interrupted();

/// The number of times that this process was continued (SIGCONT) since then. It was stopped before, and its clocks
/// ran on.
unsigned continuations();

/// The signals of watch_for_interruption() but SIGCONT.
extern const int interrupting_signals[4];

}  // namespace usher::cli
