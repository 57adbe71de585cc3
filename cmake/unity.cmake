# Several sources in one translation unit: otherwise most of the compiler's work is the headers and templates that all of them need. An
# error still has its own file and line. USHER_UNITY=OFF suits repeated changes of one file. libusher.so and the locks, whose
# instructions are counted, are not built so, because gcc decides about inlining by the translation unit.
option(USHER_UNITY "Several sources in one translation unit: less work for a build from nothing" ON)
mark_as_advanced(USHER_UNITY)

# usher_sources_together(<target> <sources in a translation unit> [<source that is a translation unit by itself>...])
function(usher_sources_together target count)
  if(USHER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
