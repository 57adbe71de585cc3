# Compiles several sources as one translation unit, because most of the compiler's work is in headers and templates that
# all of them include. USHER_UNITY=OFF is better for repeated changes of one file. Each source of libusher.so and of the
# locks stays a translation unit of its own: tests count their instructions, and gcc's inlining depends on the
# translation unit.
option(USHER_UNITY "Several sources in one translation unit: less work for a build from nothing" ON)
mark_as_advanced(USHER_UNITY)

# usher_sources_together(<target> <count> [<source>...]) compiles up to <count> sources of the target as one translation
# unit; each <source> stays a translation unit of its own.
function(usher_sources_together target count)
  if(USHER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# usher_seldom_run(<target>): for targets that parse options, start programs or print tables. Their speed matters less
# than the time of the build (-O1 takes two thirds of the usual time) or, in packages, than their size. With -Os g++ 12
# warns wrongly of indices and of empty optionals; the usual build has all warnings.
function(usher_seldom_run target)
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:$<IF:$<BOOL:${USHER_PORTABLE}>,-Os$<SEMICOLON>-ffunction-sections$<SEMICOLON>-fdata-sections$<SEMICOLON>-w,-O1>>)
endfunction()
