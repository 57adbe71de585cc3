// Ends the region that shadow_begin.h has begun.
#pragma GCC diagnostic pop
