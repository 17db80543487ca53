"""pytest --attndb PATH: the binary whose server is tested. One server for each test module."""

import pathlib

import pytest

import browser
import server_case


def pytest_addoption(parser):
    parser.addoption("--attndb", required=True, help="the command line's binary")
    parser.addoption("--arch-models", type=pathlib.Path, help="make_arch_models.py's folder")
    parser.addoption("--load-seconds", type=float, default=28, help="of load_test.py")
    parser.addoption("--kill-every", type=float, default=9, help="seconds, of load_test.py")
    parser.addoption("--mixed-seconds", type=float, default=8, help="of mixed_load_test.py")
    parser.addoption("--restart-every", type=float, default=2,
                     help="seconds, of mixed_load_test.py")
    parser.addoption("--mixed-seed", type=int, default=17, help="of mixed_load_test.py")
    parser.addoption("--llama-server", help="the binary that required_calls_test.py compares with")
    parser.addoption("--templates", default="", help="a regex of names, of required_calls_test.py")


def pytest_configure(config):
    server_case.use_binary(config.getoption("--attndb"))


@pytest.fixture(scope="module")
def server():
    with server_case.new_server() as running:
        yield running


@pytest.fixture
def folder():
    with server_case.new_folder() as path:
        yield path


@pytest.fixture
def arch_models(request):
    """Random models of many architectures, of 128 tokens at most."""
    return request.config.getoption("--arch-models", skip=False)


@pytest.fixture
def page(server):
    """The page of the module's server: temperature 0, answers of 24 tokens at most."""
    with browser.new_page(server.url) as opened:
        opened.wait_for_text("#model", "smollm2")
        opened.set_field("#temperature", "0")
        opened.set_field("#max_tokens", "24")
        opened.tab_to("#question", back=True)
        yield opened
