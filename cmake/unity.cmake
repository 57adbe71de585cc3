# Several sources in a translation unit: most of the compiler's work would be the headers and templates that all of them need. A
# mistake is said with its file and line all the same. USHER_UNITY=OFF is for those who change one file again and again. Not for
# what ships and is counted in instructions: gcc decides by the translation unit what it puts in line.
option(USHER_UNITY "Several sources in one translation unit: less work for a build from nothing" ON)
mark_as_advanced(USHER_UNITY)

# usher_sources_together(<target> <sources in a translation unit> [<source that is a translation unit by itself>...])
function(usher_sources_together target count)
  if(USHER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
