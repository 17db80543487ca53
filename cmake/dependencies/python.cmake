# Headers to build a module of Python with. Target: Python::Module.
attndb_find(python3-dev Python 3.11 COMPONENTS Interpreter Development.Module)
