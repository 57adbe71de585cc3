// The modules that were loaded at program start. dlclose() unmaps none of them, so their tables and their names can be
// read at any time.
//
// The loader's list of modules (struct link_map, in _r_debug) begins with them: the program, preloaded libraries, and
// the libraries that these need, breadth first. dlopen() appends to the list, perhaps before this library's
// constructors run. So the first part of the list ends with the last module that one of the part needs by DT_NEEDED;
// later modules do not count as initial. The list is read once, by a constructor: no field is read of an entry that
// may be freed later.
#pragma once

namespace usher::preload {

/// Whether this is the loader's entry (link_map) of such a module. The entry is not read. False before this library's
/// constructors have run.
bool is_initial(const void* link_map);

}  // namespace usher::preload
