# cmake -DTREE=<tree> -DOUT=<file> -P commit.cmake writes the source file OUT, which contains the name of the commit,
# unless OUT already contains it. This script runs in every build, because a commit does not cause a new configuration.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git describe --always --dirty --exclude=* --abbrev=12
  WORKING_DIRECTORY ${TREE} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "extern const char* const workloads_commit;\nconst char* const workloads_commit = \"${commit}\";\n")
