# usher_component(<name> <description> [NEEDS <name>] [DEFAULT <value>]): the option USHER_BUILD_<name>. It is on by default if
# Usher is the top-level project, unless it needs a component that is off. A component that is switched on without the needed
# one is an error of one line.
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
