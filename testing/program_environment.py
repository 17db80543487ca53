"""The environment in which tests run the programs of a build."""

import os


def environment(store):
    """Nothing of the user's own settings gets in, but for where models are."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("ATTNDB_", "XDG_DATA"))}
    if "ATTNDB_MODELS" in os.environ:
        env["ATTNDB_MODELS"] = os.environ["ATTNDB_MODELS"]
    env["ATTNDB_PATH"] = str(store)
    # One thread: threads of a model that wait for each other crawl where tests run side by side.
    env["ATTNDB_THREADS"] = "1"
    return env
