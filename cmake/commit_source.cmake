# Results contain the name of the commit. The name has its own source file, so that a new commit recompiles only this
# file.
set(commit_source ${PROJECT_BINARY_DIR}/generated/commit.cpp)
add_custom_target(usher_commit_source BYPRODUCTS ${commit_source}
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DOUT=${commit_source} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_library(usher_commit OBJECT ${commit_source})
add_dependencies(usher_commit usher_commit_source)
