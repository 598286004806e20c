# cmake/JoinSources.cmake: a script: cmake -DOUTPUT=<file> -DBASE=<folder> -DSOURCES=<paths below BASE, separated by ,>
# -P JoinSources.cmake writes one source from several. Each anonymous namespace is put in a namespace of its own file,
# so that files may use the same names.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" sources "${SOURCES}")
set(text "")
foreach(source IN LISTS sources)
  file(READ ${BASE}/${source} content)
  string(MAKE_C_IDENTIFIER "${source}" name)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} { namespace {\n" content "${content}")
  string(REPLACE "\n}  // namespace\n" "\n}}  // namespace\n" content "${content}")
  string(APPEND text "#line 1 \"${source}\"\n${content}")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "@text@" @ONLY)
