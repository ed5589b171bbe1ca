from setuptools import setup

import myops.build

setup(
    ext_modules=myops.build.extensions("myops_gallery"),  # every .cpp file in csrc/
    cmdclass={"build_ext": myops.build.BuildExtension},
)
