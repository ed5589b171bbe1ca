"""Built as the package of another author; without optimisation, because the ops are small."""

from setuptools import setup

import myops.build

setup(
    name="faulty_descriptions",
    version="1",
    packages=["faulty_descriptions"],
    ext_modules=myops.build.extensions("faulty_descriptions", extra_compile_args=["-O0"]),
    cmdclass={"build_ext": myops.build.BuildExtension},
)
