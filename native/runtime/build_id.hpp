// Which build of native code this is: the linker's hash of all that it linked, which the loader keeps in memory (a GNU build id).
// In: an address inside the addon, a plugin or a program. Out: the id in hexadecimal; empty where it was linked without one.
#pragma once
#include <string>

namespace spillway {

std::string build_id(const void* inside);

}  // namespace spillway
