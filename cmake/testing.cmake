# What tests/ and lab/tests/ share.

# The locks that `make test` tests at length: one of each mechanism, and the C library's own lock as the reference. The
# same tests of the other locks have the label `all-locks`, and `make test-all` runs them.
set(usher_quick_locks futex ticket twa mcsg++ mcscr loiter steady pthread)
include(${PROJECT_SOURCE_DIR}/cmake/catalog.cmake)
usher_read_catalog(usher_lock_names headers types)
list(REMOVE_ITEM usher_lock_names null)  # no lock
# The locks for tests that run whole programs under each lock, or that load the machine.
set(usher_few_locks futex,fairlock,twa,mcsg++,k42-tls,c-bo-mcs,mcscr,lifo-cr,loiter,steady)

function(usher_label_lock_test test lock label)
  if(NOT lock IN_LIST usher_quick_locks)
    list(APPEND label all-locks)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "${label}")
endfunction()

# usher_share_precompiled(<target> <first target> <header>...) precompiles the headers in the first target; other
# targets with the same options use the result. GoogleTest's header takes most of the time to compile a small test.
function(usher_share_precompiled target first)
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# Options for tests that check results and measure nothing: of locks, which run as users compile them, and of other code.
set(usher_quick_to_compile $<$<CONFIG:Release>:-O1>)
set(usher_quickest_to_compile $<$<CONFIG:Release>:-O0>)
