// A test under each instruction set of this CPU. The set is decided once in a process, so each has
// a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "myops/isa.h"

// The exit status of a program whose test is `run`, which returns its own.
inline int for_each_isa(int (*run)(myops::Isa)) {
  int worst = 0;
  for (const myops::Isa isa : myops::available_isas()) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("MYOPS_ISA", myops::isa_name(isa), 1);
      const int status = run(isa);
      std::fflush(stdout);
      _exit(status);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) worst = 1;
  }
  return worst;
}
