"""`tools`: list tools, or show one."""

from difflib import get_close_matches
from typing import Annotated

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import (
    as_json,
    one_line,
    write,
    write_json,
    write_table,
)
from stepwell.cli.session import application
from stepwell.errors import UnknownTool
from stepwell.settings import load
from stepwell.workflow import registered


def tools(
    name: Annotated[str | None, typer.Argument(help="Only this tool.", metavar="[NAME]")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List the tools of all workflows, or show one with its parameters."""
    found = {
        tool.name: tool
        for workflow in registered(application(load(), app)).values()
        for tool in workflow.tools
    }
    if name is not None and name not in found:
        close = get_close_matches(name, found, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Tools: {', '.join(found)}."
        raise UnknownTool(f"No workflow has a tool {name!r}.", hint)
    definitions = [tool.definition() for key, tool in found.items() if name in {None, key}]
    if json:
        write_json(definitions[0] if name else definitions)
    elif name:
        write(as_json(definitions[0]))
    else:
        rows = []
        for definition in definitions:
            flags = [key for key, value in definition.items() if value is True]
            summary = one_line(str(definition["description"]).partition("\n")[0], 80)
            rows.append((definition["name"], ", ".join(flags), summary))
        write_table(("tool", "flags", "what it does"), rows, cut={"flags", "what it does"})
