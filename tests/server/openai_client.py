"""OpenAI's own client, as the tests ask a server with it."""

import openai

from server_case import WAIT


def client_of(server, **more):
    """A client of the server, which asks once. `more`: what OpenAI's class takes."""
    return openai.OpenAI(base_url=server.url + "/v1",
                         **{"api_key": "none", "timeout": WAIT, "max_retries": 0, **more})
