// Headers that most test programs include, compiled once for all of them (tests.cmake).
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session.hpp"
#include "runtime/single_call.hpp"
