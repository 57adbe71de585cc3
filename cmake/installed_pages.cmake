# cmake -D FROM=TREE -D TO=FOLDER -D DOCS=DIR -D HEADERS=DIR -P installed_pages.cmake writes the pages of TREE into
# FOLDER in the form in which they are installed. DOCS and HEADERS are the folders of the installed pages and headers.
# In this form a link to a header leads to the installed header, and a link to a file that is not installed is plain
# text.
file(GLOB pages RELATIVE ${FROM} ${FROM}/README.md ${FROM}/CHANGELOG.md ${FROM}/docs/*.md ${FROM}/docs/schema/*)
set(to_source "\\]\\((\\.\\./)*(lab|library|watch|support|tool|check|tests|tools|cmake|debian|CONTRIBUTING\\.md|Makefile|packages\\.txt)[^)]*\\)")
file(REMOVE_RECURSE ${TO})
foreach(page IN LISTS pages)
  file(READ ${FROM}/${page} text)
  if(page MATCHES "\\.md$")
    string(REGEX REPLACE "!\\[[^]]*${to_source}" "" text "${text}")
    string(REGEX REPLACE "!\\[[^]]*\\]\\([^)]*\\.png\\)" "" text "${text}")  # pictures are not installed
    string(REGEX REPLACE "\\[([^]]*)${to_source}" "\\1" text "${text}")
    get_filename_component(folder "${DOCS}/${page}" DIRECTORY)
    file(RELATIVE_PATH headers "${folder}" "${HEADERS}")
    string(REGEX REPLACE "\\]\\((\\.\\./)*include/" "](${headers}/" text "${text}")
  endif()
  file(WRITE ${TO}/${page} "${text}")
endforeach()
