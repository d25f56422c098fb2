"""A real JupyterLab for the tests: its own folders and settings, its notebooks as objects."""

import contextlib
import itertools
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import nbformat

PATIENCE = 90  # seconds; a busy machine is slow, not broken
NOT_OURS = "Could not restore the debugger state"  # JupyterLab's, when a kernel ends early


class Lab:
    """A JupyterLab server on `folder`, which holds notebooks."""

    def __init__(self, folder, process, port, token):
        self.folder, self.process = folder, process
        self.url, self.token = f"http://127.0.0.1:{port}", token
        self._workspaces = itertools.count()  # each page its own: none opens another's tabs

    def open(self, context, name):
        """The notebook `name` in a new page, its kernel ready."""
        where = f"{self.url}/lab/workspaces/{next(self._workspaces)}/tree/{name}"
        return Notebook(context.new_page(), f"{where}?token={self.token}")


@contextlib.contextmanager
def serve(folder, own, **environment):
    """A Lab on `folder`; `own` is an empty folder for what a server keeps for itself.

    Its settings, workspaces, kernels' files and progress are nobody else's, so that a learner's
    own settings cannot change what a test sees, nor a test a learner's.
    """
    kept = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
    kept += ["JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "TFCOURSE_HOME"]
    places = {name: str(own / name.lower()) for name in kept}
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1"]
    command += ["--allow-root", f"--IdentityProvider.token={token}", f"--notebook-dir={folder}"]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with (own / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ
            | places
            | {"JUPYTER_PREFER_ENV_PATH": "1", "TFCOURSE_DEVICE": "cpu"}
            | environment,
            stdout=log,
            stderr=log,
        )
    try:
        port = _wait_for(process, own)
        yield Lab(folder, process, port, token)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process, own):
    """The port on which the server answers; Jupyter takes the next one where 8888 is taken."""
    said = own / "jupyter_runtime_dir" / f"jpserver-{process.pid}.json"
    for _ in range(10 * PATIENCE):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, ValueError, KeyError):
            port = json.loads(said.read_text())["port"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5):
                return port
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab does not answer:\n{(own / 'log').read_text()[-3000:]}")


class Notebook:
    """A notebook open in a page, and everything that went wrong on that page."""

    def __init__(self, page, address):
        self.page, self.troubles = page, []
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        page.on("console", self._hear)
        page.on("request", self._watch)
        page.goto(address)
        self.wait_for_kernel()

    def _hear(self, message):
        if message.type == "error" and NOT_OURS not in message.text:
            self.troubles.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _watch(self, request):
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            self.troubles.append(f"request to another host: {request.url}")

    def wait_for_kernel(self):
        """Until the notebook is there and its kernel idle; its cells are there much sooner."""
        self.page.wait_for_function(
            """() => {
                const notebook = window.jupyterapp?.shell.currentWidget;
                const session = notebook?.sessionContext;
                return notebook?.context?.isReady && session?.isReady
                    && session.session?.kernel?.status === "idle";
            }"""
        )

    def command(self, name, **arguments):
        """Carry out a command of JupyterLab and wait for its end; its result."""
        return self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args).then(x => x === true)",
            [name, arguments],
        )

    def run_all(self):
        """Run all cells; True where none raised."""
        return self.command("notebook:run-all-cells")

    def new_kernel(self):
        """Start a kernel, or end the one that is there and start another; outputs are kept."""
        self.page.evaluate(
            """() => {
                const session = jupyterapp.shell.currentWidget.sessionContext;
                return session.session ? session.restartKernel()
                    : session.changeKernel({ name: "python3" }).then(() => null);
            }"""
        )
        self.wait_for_kernel()

    def end_kernel(self):
        """Shut the kernel down, and wait until it is gone."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.wait_for_function(
            "() => !jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
        )

    def turn_to(self, name):
        """Close this notebook, unsaved, and open another one in the same JupyterLab."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.dispose()")
        self.troubles.clear()
        self.command("docmanager:open", path=f"{name}.ipynb")
        self.wait_for_kernel()
        return self

    def reload_without_kernel(self):
        """Save, and open anew, as on the next day; no kernel knows of what was shown."""
        self.command("docmanager:save")
        self.end_kernel()
        self.page.reload()
        self.wait_for_kernel()
        self.end_kernel()

    def theme(self, name):
        """Change to the theme "JupyterLab Dark" or "JupyterLab Light"."""
        self.page.evaluate(
            "name => jupyterapp.commands.execute('apputils:change-theme', { theme: name })", name
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def count_cells(self):
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.content.widgets.length")

    def saved(self):
        """The notebook as it would be saved."""
        whole = self.page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON()")
        return nbformat.from_dict(whole)

    def outputs(self):
        """All outputs of all cells, as they would be saved."""
        return [output for cell in self.saved().cells for output in cell.get("outputs", [])]

    def views(self, count):
        """The interactive views on the page, self-contained or anywidget, once all are alive."""
        self.page.wait_for_function(
            """() => [...document.querySelectorAll("figure.tfcourse-view")]
                .every((figure) => figure.firstElementChild?.shadowRoot)"""
        )
        found = self.page.locator(".jp-Notebook .view[role='group']")
        found.nth(count - 1).wait_for()
        assert found.count() == count
        return [found.nth(i) for i in range(count)]
