"""Tries what was installed, in an interpreter of its own: `python -I -S -B research_probe.py DIRECTORY`.

Compiles every module, so that a confined reader, which may write nowhere, need not; imports what a reader imports; prints a JSON
object of every package's name and version there. Anything else ends with a message on stderr and another exit code than 0.
"""

import compileall
import importlib
import json
import sys
from importlib.metadata import distributions
from py_compile import PycInvalidationMode

MODULES = ("pypdf", "docx", "lxml.etree", "cryptography.hazmat.primitives.ciphers.algorithms")


def main(directory: str) -> None:
    """The directory is sealed afterwards, so no start compares times or sources."""
    if not compileall.compile_dir(directory, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH):
        sys.exit("a module does not compile")
    sys.path.insert(0, directory)
    for name in MODULES:
        importlib.import_module(name)
    print(json.dumps({found.name: found.version for found in distributions(path=[directory])}))


if __name__ == "__main__":
    main(sys.argv[1])
