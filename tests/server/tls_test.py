"""Goal: https is as good as http for every client, and a handshake that fails is said and harms
nobody else.

Method: certificates that sign themselves, made by openssl's command, which clients are told to
trust; sockets that speak no TLS, or half of it; files that are no pair.
"""

import contextlib
import http.client
import socket
import ssl
import subprocess

import openai
import pytest

import server_case
from openai_client import client_of
from server_case import ROOT, WAIT, Server, run_attndb, run_client, user

PYTHON = ROOT / ".deps/venv/bin/python"
ERROR, USAGE = 1, 2
ASK = {"model": "smollm2", "messages": [user(server_case.CAPITAL)], "temperature": 0,
       "max_tokens": 8}

# What attndb's client in Python says over https, and whom it does not believe.
SCRIPT = """
import os, sys
import attndb
server = attndb.connect(sys.argv[1])
print(server.ask(sys.argv[2], temperature=0, max_tokens=8).text)
del os.environ["SSL_CERT_FILE"]
try:
    server.list()
except attndb.IoError as error:
    print(error)
"""


def make_certificate(folder, name="server"):
    """A certificate of 127.0.0.1 for a day, and its private key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                    f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", certificate],
                   check=True, capture_output=True, timeout=WAIT)
    return certificate, key


class TlsServer(Server):
    """A server of https, which is asked by one that trusts its certificate."""

    def __init__(self, store, certificate, key, *args):
        self.certificate = certificate
        self.trust = ssl.create_default_context(cafile=certificate)
        super().__init__(store, "--tls-cert", certificate, "--tls-key", key, *args)

    def connection(self, timeout=WAIT):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout,
                                           context=self.trust)


@pytest.fixture(scope="module")
def tls():
    with server_case.new_folder() as folder:
        with TlsServer(folder / "store", *make_certificate(folder)) as server:
            yield server


def client_hello():
    """The bytes that a client begins with."""
    come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
    begun = ssl.create_default_context().wrap_bio(come, go, server_hostname="attndb")
    with contextlib.suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    return go.read()


def send(server, data):
    """A socket of which the server has got so many bytes."""
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT)
    raw.sendall(data)
    return raw


def until_closed(raw):
    """All that comes until the other side closes."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := raw.recv(65536):
            data += piece
    return data


@pytest.fixture(scope="module", autouse=True)
def half_handshakes(tls):
    """Begun with the module, because they have half a minute to end: all tests run beside them."""
    hello = client_hello()
    with send(tls, b"") as silent, send(tls, hello[:100]) as half, send(tls, hello) as one_way:
        yield silent, half, one_way


@pytest.fixture
def still_well(tls):
    """Behind the test the server answers as ever."""
    yield
    assert tls.process.poll() is None, tls.said()
    assert "Paris" in tls.ask(server_case.CAPITAL).text


def trusting_client(server, trust):
    return client_of(server, http_client=openai.DefaultHttpxClient(verify=trust))


class TestClients:
    def test_openais_chats_and_streams(self, tls):
        assert tls.url == f"https://127.0.0.1:{tls.port}"
        with trusting_client(tls, tls.trust) as client:
            whole = client.chat.completions.create(**ASK)
            assert "Paris" in whole.choices[0].message.content
            chunks = list(client.chat.completions.create(**ASK, stream=True))
            words = [chunk.choices[0].delta.content or "" for chunk in chunks]
            assert "".join(words) == whole.choices[0].message.content
            assert len(chunks) > 3

    def test_openais_that_does_not_know_the_certificate_says_nothing(self, tls):
        with trusting_client(tls, ssl.create_default_context()) as client:
            with pytest.raises(openai.APIConnectionError):
                client.chat.completions.create(**ASK)

    def test_the_command_line_trusts_what_its_environment_names(self, tls):
        trusted = {"SSL_CERT_FILE": str(tls.certificate)}
        run_client(tls.url, "import", "-", "--name", "notes", stdin="The key is red.", **trusted)
        rows = run_client(tls.url, "ls", **trusted)["contexts"]
        assert "notes" in [row["name"] for row in rows]
        assert run_client(tls.url, "ls", flag=False, **trusted)["contexts"] == rows

    def test_the_command_line_trusts_nobody_else(self, tls, folder):
        other, _ = make_certificate(folder, "other")
        for trusted in ({}, {"SSL_CERT_FILE": str(other)}):
            error = run_client(tls.url, "ls", exit_code=ERROR, **trusted)["error"]
            assert "certificate verify failed" in error["message"]

    def test_a_certificate_is_of_one_place(self, tls):
        """It names 127.0.0.1, not what leads there."""
        error = run_client(tls.url.replace("127.0.0.1", "localhost"), "ls", exit_code=ERROR,
                           SSL_CERT_FILE=str(tls.certificate))["error"]
        assert "certificate verify failed" in error["message"]

    def test_pythons_trusts_what_its_environment_names(self, tls):
        done = subprocess.run(
            [PYTHON, "-c", SCRIPT, tls.url, server_case.CAPITAL], capture_output=True, check=False,
            env={**server_case.environment("/nowhere"), "SSL_CERT_FILE": str(tls.certificate)},
            timeout=WAIT)
        assert done.returncode == 0, done.stderr.decode()
        answer, error = done.stdout.decode().splitlines()
        assert "Paris" in answer
        assert "CERTIFICATE_VERIFY_FAILED" in error


@pytest.mark.usefixtures("still_well")
class TestFailedHandshakes:
    @pytest.mark.parametrize("data", [b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"\x00" * 1000,
                                      b"\x16\x03\x01\xff\xff" + b"x" * 1000])
    def test_what_is_no_tls_is_closed_without_an_answer(self, tls, data):
        with send(tls, data) as raw:
            assert b"HTTP" not in until_closed(raw)

    def test_http_on_the_port_of_https_is_an_error_that_names_the_place(self, tls):
        error = run_client(tls.url.replace("https", "http"), "ls", exit_code=ERROR)["error"]
        assert f"127.0.0.1 port {tls.port}" in error["message"]

    def test_https_on_the_port_of_http_is_an_error_that_names_the_place(self, server):
        error = run_client(server.url.replace("http", "https"), "ls", exit_code=ERROR)["error"]
        assert f"127.0.0.1 port {server.port}" in error["message"]
        assert server.json("GET", "/health") == {"status": "ok"}

    def test_who_goes_in_the_middle_of_one_is_forgotten(self, tls):
        hello = client_hello()
        for length in (1, 5, len(hello) // 2, len(hello)):
            send(tls, hello[:length]).close()

    def test_one_that_does_not_come_to_its_end_is_closed(self, half_handshakes):
        silent, half, one_way = half_handshakes
        assert until_closed(silent) == until_closed(half) == b""
        # The server's part of it, and no answer.
        assert until_closed(one_way)[:1] == b"\x16"


class TestFiles:
    def refused(self, folder, *args):
        """The message of a server that does not start."""
        error = run_attndb(folder / "store", "serve", "-p", 0, *args, exit_code=USAGE)["error"]
        return error["message"]

    def test_that_are_no_pair_end_the_start_and_leave_the_store_as_it_was(self, folder):
        certificate, key = make_certificate(folder)
        _, wrong = make_certificate(folder, "other")
        nothing, text = folder / "nothing.pem", folder / "text.pem"
        text.write_text("no certificate, and no key")
        run_attndb(folder / "store", "import", "-", "--name", "notes", stdin="The key is red.")
        for bad in (nothing, text):
            message = self.refused(folder, "--tls-cert", bad, "--tls-key", key)
            assert f"{bad}: no certificate in PEM: " in message
        for bad in (nothing, text, wrong):
            message = self.refused(folder, "--tls-cert", certificate, "--tls-key", bad)
            assert f"{bad}: no private key of the certificate: " in message
        with TlsServer(folder / "store", certificate, key) as server:
            [notes] = server.json("GET", server_case.CONTEXTS)["contexts"]
            assert notes["name"] == "notes"

    def test_one_without_the_other_is_refused(self, folder):
        certificate, key = make_certificate(folder)
        for given, missing in ((("--tls-cert", certificate), "--tls-key"),
                               (("--tls-key", key), "--tls-cert")):
            message = self.refused(folder, *given)
            assert f"{given[0]} is given without {missing}" in message

    def test_are_read_at_the_start_alone(self, folder):
        certificate, key = make_certificate(folder)
        with TlsServer(folder / "store", certificate, key) as server:
            certificate.unlink()
            key.write_text("no key")
            assert server.json("GET", "/health") == {"status": "ok"}
