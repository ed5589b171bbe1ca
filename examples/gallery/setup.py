import myops.build
from setuptools import setup

setup(
    ext_modules=myops.build.extensions("myops_gallery"),  # every .cpp file in csrc/
    cmdclass={"build_ext": myops.build.BuildExtension},
)
