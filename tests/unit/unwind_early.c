// Loads a module in a constructor that runs before the constructors of watch/recorder. Unlike the modules of the
// program itself, this one may be unloaded later.
#include <dlfcn.h>

void* loaded_early;
__attribute__((constructor)) static void load(void) {
  loaded_early = dlopen(EARLY_MODULE, RTLD_NOW);
}
