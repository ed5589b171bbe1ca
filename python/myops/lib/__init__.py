"""The native libraries: `libmyops_torch` and `libmyops_ort` lie in this folder once built."""
