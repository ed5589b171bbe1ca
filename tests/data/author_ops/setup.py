from setuptools import setup

import myops.build

setup(
    ext_modules=myops.build.extensions("author_ops", extra_compile_args=["-O1"]),
    cmdclass={"build_ext": myops.build.BuildExtension},
)
