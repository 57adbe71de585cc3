// Finds the modules that were loaded at program start. dlclose() unmaps none of them, so their tables and names can be
// read at any time.
//
// The loader's list of modules (struct link_map, in _r_debug) begins with the program, preloaded libraries, and the
// libraries that these need, breadth first. dlopen() appends to the list, perhaps before this library's constructors
// run. So the initial part of the list ends with the last module that another module of this part needs by DT_NEEDED. A
// constructor reads the list once, up to this module: entries that may be freed later are never read.
#pragma once

namespace usher::recorder {

/// Whether this loader entry (link_map) belongs to an initial module. Compares the address, and does not read the
/// entry. False before this library's constructors have run.
bool is_initial(const void* link_map);

}  // namespace usher::recorder
