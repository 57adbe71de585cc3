// Loads a module before the constructors of src/record run. Unlike the program's own modules, it may be unloaded later.
#include <dlfcn.h>

void* loaded_early;
__attribute__((constructor)) static void load(void) {
  loaded_early = dlopen(EARLY_MODULE, RTLD_NOW);
}
