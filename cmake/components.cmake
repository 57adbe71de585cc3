# usher_component(<name> <description> [NEEDS <name>] [DEFAULT <value>]) defines the option USHER_BUILD_<name>. By
# default the option is on if Usher is the top-level project and the component that it needs is on. If a component is
# switched on without the one that it needs, the configuration fails with a message of one line.
function(usher_component name description)
  cmake_parse_arguments(ARG "" "NEEDS;DEFAULT" "" ${ARGN})
  set(default ${PROJECT_IS_TOP_LEVEL})
  if(DEFINED ARG_DEFAULT)
    set(default ${ARG_DEFAULT})
  endif()
  if(ARG_NEEDS AND NOT USHER_BUILD_${ARG_NEEDS})
    if(USHER_BUILD_${name})
      message(NOTICE "Usher: USHER_BUILD_${name}=ON needs USHER_BUILD_${ARG_NEEDS}=ON")
      message(FATAL_ERROR "Usher: options contradict each other: see above")
    endif()
    set(default OFF)
  endif()
  option(USHER_BUILD_${name} "${description}" ${default})
endfunction()
