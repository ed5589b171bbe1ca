// The parts of cuda_tests.cpp that have files of their own.
#pragma once

void test_chosen_calls();  // chosen_calls.cpp
void test_devices();       // devices.cpp
