# Joined sources. In: the option SPILLWAY_JOINED; a list of sources. Out: with the option, sources that each include several of the list,
# in order. Each template is then compiled once for all of them, which takes a quarter to a half off their time.
# Invariant: a file whose local names clash with another's stays apart; the compiler refuses any other clash.
set(SPILLWAY_APART
    # cpu, ref
    convtranspose2d groupnorm layernorm linear multiply residualnorm softmax stochasticdepth table winograd_gradient
    # runtime, cuda, test/native/host_cuda
    cublaslt cudnn ranks single_call streams runtime own_kernels)
# More share more; fewer leave both cores a share.
set(SPILLWAY_JOINED_FILES 6)

function(spillway_join sources name)
  if(NOT SPILLWAY_JOINED)
    return()
  endif()
  set(result "")
  set(together "")
  foreach(source ${${sources}})
    get_filename_component(base ${source} NAME_WE)
    get_filename_component(file ${source} ABSOLUTE)
    if(base IN_LIST SPILLWAY_APART)
      list(APPEND result ${source})
    else()
      list(APPEND together ${file})
    endif()
  endforeach()
  list(LENGTH together count)
  set(first 0)
  while(first LESS count)
    list(SUBLIST together ${first} ${SPILLWAY_JOINED_FILES} part)
    list(TRANSFORM part REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN part "" text)
    set(joined ${CMAKE_BINARY_DIR}/joined/${name}_${first}.cpp)
    file(CONFIGURE OUTPUT ${joined} CONTENT "${text}" @ONLY)
    list(APPEND result ${joined})
    math(EXPR first "${first} + ${SPILLWAY_JOINED_FILES}")
  endwhile()
  set(${sources} ${result} PARENT_SCOPE)
endfunction()
