"""Listening: addresses, ports, and what is said when they cannot be had."""

import socket

import pytest

from relens.errors import InputError, RelensError
from relens.serve import server


def test_port_0_picks_a_free_one_on_the_loopback():
    with server.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert server.address(listener) == f"http://127.0.0.1:{port}/"
        assert server.is_loopback(listener)
        assert server.hosts_of(listener, "127.0.0.1") == {"127.0.0.1", "::1", "localhost"}


def test_a_name_of_the_loopback_is_one_too():
    with server.listen("localhost", 0) as listener:
        assert server.is_loopback(listener)


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
def test_an_ipv6_address_is_written_in_brackets():
    try:
        listener = server.listen("::1", 0)
    except RelensError:
        pytest.skip("IPv6 has no loopback here")
    with listener:
        assert server.address(listener).startswith("http://[::1]:")
        assert server.is_loopback(listener)


def test_all_addresses_are_not_the_loopback_and_answer_to_any_name():
    with server.listen("0.0.0.0", 0) as listener:
        assert not server.is_loopback(listener)
        assert server.hosts_of(listener, "0.0.0.0") is None


def test_a_taken_port_is_named_with_a_way_out():
    with server.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        message = f"cannot listen at 127.0.0.1 port {port}: Address already in use. Choose another port with `port=N`"
        with pytest.raises(RelensError, match=message):
            server.listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no such host", "a" * 80, "999.1.1.1"])
def test_a_host_that_is_none_is_refused(host):
    with pytest.raises(InputError, match="no such host"):
        server.listen(host, 0)
