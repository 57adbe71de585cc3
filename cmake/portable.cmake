# With USHER_PORTABLE, everything that is built runs with glibc 2.28 and later. The compiler is the usual one, so the
# instructions are those of the usual build; only the linker sees another C library (tools/link_stubs.py). The C++
# library and the libraries of cmake/packages.cmake are linked statically, because older systems lack them.
option(USHER_PORTABLE "Everything that is built runs with glibc 2.28 and later" OFF)
if(USHER_PORTABLE)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  file(GLOB stub_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/library/portable/*.c)
  set(stub_maker ${PROJECT_SOURCE_DIR}/tools/link_stubs.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${stub_sources} ${stub_maker})
  # The folder's name contains a hash of the files from which the stub libraries are made, so that a change of these
  # files links everything again.
  set(made_from "")
  foreach(file IN LISTS stub_maker stub_sources)
    file(SHA256 ${file} hash)
    string(APPEND made_from ${hash})
  endforeach()
  string(SHA256 made_from "${made_from}")
  string(SUBSTRING ${made_from} 0 8 made_from)
  # Programs of the tests call functions of glibc 2.30, so they are linked for glibc 2.31, the C library of Debian 11.
  foreach(glibc 2.28 2.31)
    set(stubs_${glibc} ${PROJECT_BINARY_DIR}/link_stubs/${glibc}-${made_from})
    execute_process(COMMAND ${Python3_EXECUTABLE} ${stub_maker} --glibc ${glibc} --out ${stubs_${glibc}}
      --compiler ${CMAKE_C_COMPILER} ${stub_sources} RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "Usher: no stub libraries for USHER_PORTABLE: see above")
    endif()
  endforeach()
  add_link_options(-L${stubs_2.28} -static-libgcc -static-libstdc++)
  # removes most of the code of the static libraries
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,--gc-sections>)
  # The tests' programs cancel threads. Before glibc 2.34 libpthread.so.0 unwinds a cancelled thread with the system's
  # libgcc_s.so.1, so the programs must use that unwinder, too.
  set(usher_portable_link -L${stubs_2.31} -static-libstdc++ -Wl,--allow-shlib-undefined)
  set(Boost_USE_STATIC_LIBS ON)
  set(ZLIB_USE_STATIC_LIBS ON)  # CMake 3.24 and later
endif()
