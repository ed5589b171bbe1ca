from setuptools import setup

import myops.build

setup(
    ext_modules=[
        *myops.build.extensions("many_ops", ["csrc/many.cpp"], extra_compile_args=["-O1"]),
        *myops.build.extensions("one_op", ["csrc/one.cpp"], extra_compile_args=["-O1"]),
    ],
    cmdclass={"build_ext": myops.build.BuildExtension},
)
