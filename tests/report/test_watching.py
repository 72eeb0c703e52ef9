"""The report while runs go on: on this machine only, made anew when a run has changed, and honest about trouble."""

import http.client
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from ddopg.cli.main import main
from ddopg.errors import ArtefactError
from ddopg.report.watching import ADDRESS, LivePage, open_server


@contextmanager
def served(page):
    with open_server(page, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=60)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def numbered(tmp_path):
    """A page that counts how often it was made."""
    made = []
    return LivePage([tmp_path], lambda: made.append(0) or f"page {len(made)}"), tmp_path / "run.sqlite"


def test_it_is_made_anew_only_when_a_run_has_changed(tmp_path):
    page, store = numbered(tmp_path)
    with served(page) as server:
        assert [ask(server) for _ in range(3)] == [(200, "page 1")] * 3
        store.write_bytes(b"a rollout")
        assert ask(server) == (200, "page 2")
        (tmp_path / "run.sqlite-wal").write_bytes(b"another, in the log")
        assert ask(server, "/?again") == (200, "page 3")


def test_only_this_machine_is_served(tmp_path):
    page, _ = numbered(tmp_path)
    with served(page) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, host=f"localhost:{server.server_port}")[0] == 200
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1.evil.example"):
            assert ask(server, host=host)[0] == 403


def test_nothing_else_is_served(tmp_path):
    page, store = numbered(tmp_path)
    store.write_bytes(b"secret")
    with served(page) as server:
        for path in ("/run.sqlite", "/../run.sqlite", "/favicon.ico"):
            assert ask(server, path)[0] == 404
        assert ask(server, method="HEAD") == (200, "")
        assert ask(server, method="POST")[0] == 501


def test_a_run_without_a_rollout_is_waited_for(tmp_path):
    def build():
        raise ArtefactError("<runs> hold no rollout yet")

    with served(LivePage([tmp_path], build)) as server:
        status, text = ask(server)
    assert status == 503
    assert "&lt;runs&gt; hold no rollout yet" in text
    assert 'http-equiv="refresh"' in text


def test_a_port_that_is_taken_gets_a_sentence(tmp_path, capsys):
    page, _ = numbered(tmp_path)
    with served(page) as server:
        assert main(["report", str(tmp_path), "--watch", "--port", str(server.server_port)]) == 2
    assert "choose another one with --port" in capsys.readouterr().err


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_gets_a_sentence(tmp_path, capsys, port):
    assert main(["report", str(tmp_path), "--watch", f"--port={port}"]) == 2
    assert "from 0 to 65535" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_serves_a_live_page_until_it_is_interrupted(directories, tmp_path, browser):
    copy = shutil.copytree(directories.seeds[0], tmp_path / "run")
    command = [sys.executable, "-m", "ddopg", "report", str(copy), "--watch", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[1]
            page = browser.new_page()
            page.set_default_timeout(120_000)
            heard = []
            page.on("console", lambda message: heard.append(message.text))
            page.on("pageerror", lambda error: heard.append(str(error)))
            page.goto(address)
            assert "reloaded every 10 seconds" in page.inner_text("#watch")
            page.locator("#sigma").evaluate(
                "(node) => { node.value = 20; node.dispatchEvent(new Event('input'));"
                " node.dispatchEvent(new Event('change', { bubbles: true })); }"
            )
            page.locator(".seed-switch").first.click()
            page.reload()
            assert page.input_value("#sigma") == "20"
            assert page.locator(".seed-switch").first.get_attribute("aria-pressed") == "false"
            page.wait_for_event("load", timeout=60_000)  # the page reloads itself
            assert heard == []
            page.close()
        finally:
            process.send_signal(2)
            assert process.wait(60) == 0
