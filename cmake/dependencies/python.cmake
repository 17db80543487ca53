# Headers to build a module of Python with. Target: Python::Module.
attndb_find(Python 3.11 COMPONENTS Interpreter Development.Module)
