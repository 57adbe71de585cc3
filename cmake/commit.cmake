# cmake -DTREE=<tree> -DOUT=<file> -P commit.cmake: writes a source file that says which commit is being built, and
# touches it only when that changed. Run at every build, because a commit that was read when the build was configured is soon wrong.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git describe --always --dirty --abbrev=12
  WORKING_DIRECTORY ${TREE} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "extern const char* const workloads_commit;\nconst char* const workloads_commit = \"${commit}\";\n")
