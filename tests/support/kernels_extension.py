"""The extension module of the compiled kernels, with the compiler's options, as setup.py has it."""

import runpy

from setuptools import Extension

from support.paths import ROOT

KERNELS: Extension = runpy.run_path(str(ROOT / "setup.py"))["KERNELS"]
