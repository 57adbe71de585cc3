// Ends what shadow_begin.h began.
#pragma GCC diagnostic pop
