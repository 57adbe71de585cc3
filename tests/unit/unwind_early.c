// Loads a module in a constructor that runs before those of watch/recorder. Unlike modules of the program itself it may be
// unloaded later.
#include <dlfcn.h>

void* loaded_early;
__attribute__((constructor)) static void load(void) {
  loaded_early = dlopen(EARLY_MODULE, RTLD_NOW);
}
