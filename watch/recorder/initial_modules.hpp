// Finds the modules that were loaded at program start. dlclose() unmaps none of them, so their tables and names can be
// read at any time.
//
// The loader's list of modules (struct link_map, in _r_debug) begins with them: the program, preloaded libraries, and
// the libraries that these need, breadth first. dlopen() appends to the list, perhaps before this library's
// constructors run. So the initial part of the list ends with the last module that a module of this part needs by
// DT_NEEDED; later modules do not count as initial. A constructor reads the list once: entries that may be freed later
// are never read.
#pragma once

namespace usher::recorder {

/// Whether this loader entry (link_map) is that of an initial module. The entry is compared by its address and not
/// read. False before this library's constructors have run.
bool is_initial(const void* link_map);

}  // namespace usher::recorder
