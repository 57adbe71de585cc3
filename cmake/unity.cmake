# Compiles several sources in one translation unit, because the headers and templates that all of them include are most
# of the compiler's work. USHER_UNITY=OFF suits repeated changes of one file. libusher.so and the locks are compiled
# separately: their instructions are counted, and gcc's decisions about inlining depend on the translation unit.
option(USHER_UNITY "Several sources in one translation unit: less work for a build from nothing" ON)
mark_as_advanced(USHER_UNITY)

# usher_sources_together(<target> <sources in a translation unit> [<source that is a translation unit by itself>...])
function(usher_sources_together target count)
  if(USHER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
