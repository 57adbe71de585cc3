# Results name the commit of the build. The name is in a source file of its own, so that a new commit compiles nothing large
# again.
set(commit_source ${PROJECT_BINARY_DIR}/generated/commit.cpp)
add_custom_target(usher_commit_source BYPRODUCTS ${commit_source}
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DOUT=${commit_source} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_library(usher_commit OBJECT ${commit_source})
add_dependencies(usher_commit usher_commit_source)
