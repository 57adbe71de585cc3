// Interruption of this process by the user.
#pragma once

namespace usher::support {

/// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless they are ignored, and for SIGCONT.
void watch_for_interruption();

/// The last of SIGINT, SIGTERM, SIGHUP and SIGQUIT that was received since the handlers were installed, or 0.
int interrupted();

/// How often this process was continued (SIGCONT) since the handlers were installed. Each time it had been stopped
/// before, while clocks ran on.
unsigned continuations();

/// The signals of watch_for_interruption(), without SIGCONT.
extern const int interrupting_signals[4];

}  // namespace usher::support
