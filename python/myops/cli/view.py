"""`myops view`."""

from __future__ import annotations

from typing import Annotated

import typer

from myops.cli import _console, _graphs


def view(
    model: _graphs.Model,
    port: Annotated[int | None, typer.Option(help="Port on this machine.", min=1)] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only say where the page is.")
    ] = False,
    function_bodies: Annotated[
        bool,
        typer.Option(
            "--function-bodies", help="Show our nodes as functions to open, without their help."
        ),
    ] = False,
    json: _graphs.Json = False,
) -> None:
    """Show a model in Netron, our ops with their documentation. Ctrl-C ends it.

    Needs Netron: pip install "myops[tools]"

    Example: myops view model.onnx --no-browser --port 8080
    """
    import signal
    import sys

    from myops.onnx.surgery.viewer import view as view_

    with _graphs.warned():
        viewer = view_(
            _graphs.source(model),
            port=port,
            browser=not no_browser,
            function_bodies=function_bodies,
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that its files are removed too
    with viewer:
        if json:
            _console.print_json({"url": viewer.url})
        else:
            _console.say(f"{viewer.url} shows {model}; Ctrl-C ends it")
        sys.stdout.flush()
        viewer.wait()
