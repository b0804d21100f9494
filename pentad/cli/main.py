"""The ``pentad`` command: reads the command line, loads the settings, hands over to the module of the command."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.graph_nodes import MAX_FIRST_STATE
from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_RULE, is_external_id, is_identifier
from pentad.contracts.plain_json import read_json
from pentad.contracts.records import SHOWN_STATUSES
from pentad.contracts.streams import SERVICES
from pentad.shared.command_settings import adopt_env_file, command_settings
from pentad.shared.service.exits import USAGE, exit_code_of, leave, say_unknown_variables
from pentad.shared.service.options import add_serve_options
from pentad.shared.settings import load_settings

# Where each command is implemented: imported only when it is the one asked for.
_COMMANDS = {
    "up": ("pentad.cli.up", "run"),
    "serve": ("pentad.cli.serve", "run"),
    "chat": ("pentad.cli.chat", "run"),
    "send": ("pentad.cli.send", "run"),
    "tasks": ("pentad.cli.tasks", "run_tasks"),
    "task": ("pentad.cli.tasks", "run_task"),
    "cancel": ("pentad.cli.tasks", "run_cancel"),
    "pause": ("pentad.cli.tasks", "run_pause"),
    "resume": ("pentad.cli.tasks", "run_resume"),
    "complete": ("pentad.cli.tasks", "run_complete"),
    "move": ("pentad.cli.tasks", "run_move"),
    "approvals": ("pentad.cli.approvals", "run_approvals"),
    "approve": ("pentad.cli.approvals", "run_approve"),
    "refuse": ("pentad.cli.approvals", "run_refuse"),
    "result": ("pentad.cli.client_results", "run"),
    "policies": ("pentad.cli.policies", "run"),
    "top": ("pentad.cli.top", "run"),
    "open": ("pentad.cli.open", "run"),
    "schedules": ("pentad.cli.schedules", "run"),
    "doctor": ("pentad.cli.doctor.command", "run"),
    "tools": ("pentad.cli.tools", "run"),
    "tool": ("pentad.cli.tool", "run"),
    "inbound": ("pentad.cli.inbound", "run"),
    "records": ("pentad.cli.records", "run"),
    "models": ("pentad.cli.models", "run"),
    "instructions": ("pentad.cli.instructions", "run"),
    "graphs": ("pentad.cli.graphs", "run"),
    "hooks": ("pentad.cli.hooks", "run"),
    "files": ("pentad.cli.files", "run"),
    "mcp": ("pentad.cli.mcp", "run"),
    "plugins": ("pentad.cli.plugins", "run"),
    "webhooks": ("pentad.cli.webhooks", "run"),
    "memory": ("pentad.cli.memory", "run"),
    "dlq": ("pentad.cli.dlq", "run"),
}
_OF_SERVICES = {"up", "serve"}
_OF_OPERATORS = {"doctor", "inbound", "records"}
"""Commands that look at the stores themselves, not only at the gateway."""
_MEMORY_KINDS = ("working", "episodic", "semantic")
_PAGE = 20
"""Tasks of a list, when it is not said how many."""
_MAX_LIMIT = 1_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds of each unit of time."""


def command() -> NoReturn:
    """Be the program ``pentad``: run the command of the command line, and end the process with its exit code."""
    leave(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 usage, 130 interrupted. Without one, print help."""
    parser = build_parser()
    given = sys.argv[1:] if argv is None else argv
    if not given:
        parser.print_help()
        return 0
    args = parser.parse_args(given)
    return exit_code_of(lambda: _dispatch(args), prog="pentad", debug=args.debug)


def _dispatch(args: argparse.Namespace) -> int:
    if args.command == "up":  # a `serve` gets its variables from whoever deploys it
        adopt_env_file()
    say_unknown_variables("pentad")
    given = {"pentad_url": getattr(args, "url", None), "pentad_data_dir": getattr(args, "data_dir", None)}
    if args.command in _OF_SERVICES:
        settings = load_settings(**given)
    else:
        settings = command_settings(operator=args.command in _OF_OPERATORS, **given)
    module, function = _COMMANDS[args.command]
    run: Callable[..., int] = getattr(import_module(module), function)
    return run(args, settings)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Imports nothing of what the commands do."""
    parser = _Parser(prog="pentad", description="A durable agent backend over Redis Streams.")
    parser.add_argument("--version", action=_Version)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_services(commands)
    _add_clients(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; `{self.prog} --help` says how\n")


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the version and end")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"pentad {version('pentad')}")
        parser.exit()


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    # `--debug` may also follow the command; SUPPRESS keeps its absence there from overwriting one given before it.
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
    return parser


def _add_services(commands: Any) -> None:
    up = _command(commands, "up", "Run everything; only the gateway listens.")
    add_serve_options(up)
    taken_up = "plug-ins and the files of settings again when they change; calls under way finish as they began"
    up.add_argument("--reload", action="store_true", help=f"take up {taken_up}")
    serve = _command(commands, "serve", "Run one service; needs REDIS_URL.")
    serve.add_argument("service", choices=SERVICES, metavar="SERVICE", help=", ".join(SERVICES))
    add_serve_options(serve)


def _add_clients(commands: Any) -> None:
    chat = _client(commands, "chat", "Talk in the terminal; Ctrl-C cancels the running task.")
    chat.add_argument("--session", type=_external, help="the conversation to go on with")
    chat.add_argument("--plain", action="store_true", help="no panes, however wide the terminal is")
    _user(chat, "who speaks")
    _add_send(commands)
    _add_tasks(commands)
    _add_approvals(commands)
    _add_schedules(commands)
    _json(_client(commands, "tools", "List the tools: what each takes and does, and whether a worker has it."))
    _add_tool(commands)
    _json(_client(commands, "models", "List the models: which there are, and how each does."))
    _add_runnables(commands)
    _add_hooks(commands)
    _add_mcp(commands)
    _add_plugins(commands)
    _add_top(commands)
    _add_webhooks(commands)
    _json(_client(commands, "doctor", "Say what is reachable, and what to do about what is not."))
    _add_files(commands)
    _add_memory(commands)
    _add_dlq(commands)
    inbound = _command(commands, "inbound", "Mend the inbound stream.")
    inbound.add_argument(
        "what", choices=["renew"], help="renew: begin again, when its ids have run out or are far ahead of the clock"
    )
    inbound.add_argument("--data-dir", metavar="D", help="of the `pentad up` whose Redis is meant, without REDIS_URL")
    records = _command(commands, "records", "Look after the records of finished tasks.")
    records.add_argument(
        "what", choices=["index"], help="index: let lists find what earlier versions have archived; once is enough"
    )
    records.add_argument("--data-dir", metavar="D", help="of the `pentad up` that is meant, without PENTAD_RECORDS_URL")


def _add_top(commands: Any) -> None:
    text = "Watch the live system: streams, services, models, tasks, what is done in a second. Needs the admin key."
    top = _client(commands, "top", text)
    top.add_argument("--once", action="store_true", help="one look, as without a terminal")
    _json(top, "one look, as a line of JSON")


def _add_send(commands: Any) -> None:
    send = _client(commands, "send", "Send a message, follow its turn to the end, print what the agent says.")
    send.add_argument("text", metavar="TEXT", type=_text, help="the message")
    send.add_argument("--session", type=_external, help="the conversation it belongs to")
    _user(send, "who says it")
    send.add_argument(
        "--task", type=_name, help="the task it goes to; its conversation need not be named. new: a task of its own"
    )
    runs = "what is run: one of `pentad instructions` or `pentad graphs`"
    send.add_argument("--instruction", metavar="NAME", type=_name, help=runs)
    send.add_argument("--state", metavar="JSON", type=_state, help='first state of the graph: {"KEY": VALUE}')
    send.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="wait no longer; what it runs goes on")
    _json(send, "print every event as a line of JSON")


def _add_tool(commands: Any) -> None:
    parser = _command(commands, "tool", "Call a tool without a model; register endpoints of HTTP as tools.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    call = _client(actions, "call", "Call a tool, wait for its end, print the result. It runs once.")
    call.add_argument("name", metavar="NAME", help="the tool: one of `pentad tools`")
    call.add_argument("args", metavar="JSON", nargs="?", type=_object, default={}, help='{"ARGUMENT": VALUE}')
    _user(call, "for whom it is called")
    call.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="give the call up after so long")
    call.add_argument("--call-id", metavar="ID", type=_external, help="the same call again gives the same result")
    _json(call)
    text = "Register endpoints of HTTP as tools. Needs PENTAD_ADMIN_KEY where the gateway has one."
    add = _client(actions, "add", text)
    add.add_argument("source", metavar="FILE|URL", help="a file of tools in JSON; a document of OpenAPI 3, or its URL")
    of_api = "of a document: "
    add.add_argument("--base", metavar="URL", help=f"{of_api}where the API is, if not at its first server")
    add.add_argument("--operations", metavar="IDS", type=_names, help=f"{of_api}those that are wanted, with commas")
    add.add_argument("--prefix", metavar="TEXT", help=f"{of_api}begins the names of its tools")
    add.add_argument(
        "--header", metavar="TEXT", action="append", type=_header, help="NAME: VALUE, which may hold {{secret:NAME}}"
    )
    remove = _client(actions, "remove", "Remove registered tools.")
    remove.add_argument("names", metavar="NAME", nargs="+", help="a tool, or a pattern such as 'crm_*'")


def _names(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name for each in text.split(",") if (name := each.strip())]


def _header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError("a header is written as 'NAME: VALUE'")
    return name.strip(), value.strip()


def _add_runnables(commands: Any) -> None:
    for name, text, word in (
        ("instructions", "List the instructions: what can be run, and where each comes from.", "instruction"),
        ("graphs", "List the graphs: which can be run, and where each comes from.", "graph"),
    ):
        parser = _client(commands, name, text)
        _json(parser)
        actions = parser.add_subparsers(dest="action", metavar="ACTION")
        show = _client(actions, "show", f"Show what the {word} of a name is.", again=True)
        show.add_argument("name", metavar="NAME", type=_name, help=f"the {word}: one of `pentad {name}`")
        if name == "graphs":
            show.add_argument("--mermaid", action="store_true", help="a flowchart in the language of Mermaid")
        _json(show, again=True)


def _add_hooks(commands: Any) -> None:
    parser = _client(commands, "hooks", "List the hooks: what steps of tasks wait for, and whether a worker has it.")
    _json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    remove = _client(actions, "remove", "Remove a hook that no worker has any more.", again=True)
    remove.add_argument("name", metavar="NAME", help="the hook: one of `pentad hooks`")


def _add_mcp(commands: Any) -> None:
    parser = _client(commands, "mcp", "List the MCP servers whose tools are offered, and how each does.")
    _json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    text = "Check a file of MCP servers, and register its servers. Needs PENTAD_ADMIN_KEY where the gateway has one."
    given = _client(actions, "import", text, again=True)
    given.add_argument("file", metavar="FILE", type=Path, help="the file, as editors and assistants keep it")
    remove = _client(actions, "remove", "Remove a registered MCP server.", again=True)
    remove.add_argument("name", metavar="NAME", type=_name, help="the server: one of `pentad mcp`")


def _add_webhooks(commands: Any) -> None:
    parser = _client(commands, "webhooks", "List where events of your sessions are sent, and what waits there.")
    _json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add = _client(actions, "add", "Have events sent to an address; its secret is made, and shown once.", again=True)
    add.add_argument("address", metavar="ADDRESS", help="takes a POST, as https://example.com/hooks")
    add.add_argument("--event", metavar="TYPE", action="append", help="a type of event, again for more; all if none is")
    add.add_argument(
        "--session", metavar="SESSION", type=_external, help="the session whose events are sent; all if not"
    )
    add.add_argument("--secret", metavar="SECRET", help="a secret of your own: whsec_ and 24 to 64 bytes in base64")
    remove = _client(actions, "remove", "Remove a webhook, with all events that wait for it.", again=True)
    remove.add_argument("name", metavar="WEBHOOK", type=_name, help="the webhook: one of `pentad webhooks`")


def _add_plugins(commands: Any) -> None:
    parser = _client(commands, "plugins", "List the tool-workers, and which plug-ins each has imported.")
    _json(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    text = "Have each tool-worker import its plug-ins anew, one after the other. Needs the admin key."
    reload = _client(actions, "reload", text, again=True)
    reload.add_argument(
        "--wait", metavar="SECONDS", type=_seconds, default=60.0, help="for all; %(default)g if not given"
    )
    _json(reload, again=True)


def _add_tasks(commands: Any) -> None:
    tasks = _client(commands, "tasks", "List tasks.")
    tasks.add_argument("--status", choices=SHOWN_STATUSES, metavar="STATUS", help=", ".join(SHOWN_STATUSES))
    tasks.add_argument("--session", type=_external, help="only tasks of this conversation")
    tasks.add_argument("--since", metavar="TIME", help="only those that began then or later, as 2030-01-31T12:00:00Z")
    tasks.add_argument("--until", metavar="TIME", help="only those that began before it")
    tasks.add_argument("--limit", type=_count, default=_PAGE, help="how many at most; %(default)s when not given")
    tasks.add_argument("--watch", action="store_true", help="show the list again at each change, until Ctrl-C")
    _json(tasks, "print each task as a line of JSON")
    task = _client(commands, "task", "Show a task and its transcript, or what a step asked its model.")
    task.add_argument("id", metavar="ID", help="the task")
    task.add_argument("--step", type=_count, metavar="N", help="with --prompt: which step, from 1 on")
    task.add_argument("--prompt", action="store_true", help="show what the step asked its model, word for word")
    task.add_argument("--fork", type=_step, metavar="N", help="begin a new task that shares its past up to step N")
    task.add_argument("--content", metavar="TEXT", help="with --fork: a new message; without one it goes on by itself")
    task.add_argument("--model", metavar="ID", help="with --fork: another model from there on")
    task.add_argument("--instruction", metavar="NAME", help="with --fork: another instruction from there on")
    task.add_argument("--compare", metavar="ID", help="say where the two tasks part, step by step")
    task.add_argument("--path", action="store_true", help="show its way through its graph alone")
    task.add_argument("--mermaid", action="store_true", help="with --path: as a flowchart in the language of Mermaid")
    _json(task)
    opened = _client(commands, "open", "Print the console's link to a task, and open it where there is a browser.")
    opened.add_argument("id", metavar="TASK", help="the task")
    opened.add_argument("--step", type=_count, metavar="N", help="at this step")
    opened.add_argument("--print", action="store_true", dest="only_print", help="print it and open nothing")
    for name, text in (
        ("cancel", "Cancel a task."),
        ("pause", "Pause a task: it waits, with all that comes for it, until it is resumed."),
        ("resume", "Let a paused task go on where it was."),
        ("complete", "Say that a task that waits is done: it ends without another answer."),
    ):
        _client(commands, name, text).add_argument("id", metavar="ID", help="the task")
    move = _client(commands, "move", "Give a message to another task of its conversation.")
    move.add_argument("message", metavar="MESSAGE_ID", help="the message")
    move.add_argument("--to", metavar="TASK", required=True, help="the task that it is for, or new")
    move.add_argument("--task", metavar="ID", required=True, help="the task that has it")


def _add_approvals(commands: Any) -> None:
    listed = _client(commands, "approvals", "List the tool calls that wait for a person's approval.")
    listed.add_argument("--limit", type=_count, default=_PAGE, help="how many at most; %(default)s when not given")
    _json(listed, "print each call as a line of JSON")
    approve = _client(commands, "approve", "Allow a tool call that waits for it: it is made.")
    approve.add_argument("call", metavar="CALL", type=_name, help="the call: one of `pentad approvals`")
    approve.add_argument("--edit", metavar="JSON", type=_object, help="other arguments, with which it is made instead")
    refuse = _client(commands, "refuse", "Refuse a tool call that waits for an approval: it is not made.")
    refuse.add_argument("call", metavar="CALL", type=_name, help="the call: one of `pentad approvals`")
    refuse.add_argument("--reason", metavar="R", help="what the model is told")
    text = "Answer a call in place of the application that has asked and runs the tool itself."
    result = _client(commands, "result", text)
    result.add_argument("task", metavar="TASK", help="the task of the call")
    result.add_argument("call", metavar="CALL", help="the call: `pentad chat --session ID` shows it")
    result.add_argument("text", metavar="TEXT", help="the result, which the model is told")
    result.add_argument("--failed", action="store_true", help="the text says why the call has failed")
    text = "List the rules which tool calls need an approval. Needs PENTAD_ADMIN_KEY where the gateway has one."
    policies = _client(commands, "policies", text)
    _json(policies, "print each policy as a line of JSON")
    actions = policies.add_subparsers(dest="action", metavar="ACTION")
    add = _client(actions, "add", "Add policies, or replace those with the same names.", again=True)
    add.add_argument(
        "policy", metavar="FILE|JSON", help='a file with [[policies]], or {"tool": "send_*", "then": "ask"}'
    )
    remove = _client(actions, "remove", "Remove a policy that was added.", again=True)
    remove.add_argument("name", metavar="NAME", type=_name, help="the policy: one of `pentad policies`")


def _add_schedules(commands: Any) -> None:
    parser = _client(commands, "schedules", "List the messages that are sent at due times; add, pause, remove them.")
    _json(parser, "print each schedule as a line of JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add = _client(actions, "add", "Have a message sent at due times, each time to a task of its own.", again=True)
    add.add_argument("content", metavar="TEXT", help="the message")
    due = add.add_mutually_exclusive_group(required=True)
    due.add_argument("--cron", metavar="FIELDS", help='minute, hour, day, month, weekday: "30 9 * * MON-FRI"')
    due.add_argument("--every", metavar="N[s|m|h|d]", type=_period, help="the time between two: 90s, 15m, 6h, 7d")
    due.add_argument("--at", metavar="TIME", help="once: 2030-01-31T09:00, in the time zone")
    add.add_argument("--time-zone", metavar="ZONE", help="IANA name, such as Europe/Berlin; UTC when not given")
    add.add_argument("--session", metavar="SESSION", type=_external, help="the conversation; without: one for each run")
    add.add_argument("--user", metavar="USER", type=_external, help="the user for whom it is sent")
    add.add_argument("--instruction", metavar="NAME", type=_name, help="the instruction or graph that runs")
    add.add_argument("--overlap", choices=("skip", "queue", "cancel"), help="while the run before goes on; skip")
    add.add_argument("--catch-up", metavar="N", type=_step, help="due times that are made up for after an outage; 1")
    add.add_argument("--id", metavar="ID", type=_name, help="an id of your own: added twice, it is one schedule")
    _json(add, again=True)
    for action, text in (
        ("pause", "Pause a schedule: nothing is due until it is resumed."),
        ("resume", "Resume a paused schedule, with the next due time."),
        ("remove", "Remove a schedule; runs that go on go on."),
        ("history", "List what has come of its latest due times."),
    ):
        one = _client(actions, action, text, again=True)
        one.add_argument("schedule", metavar="ID", type=_name, help="the schedule: one of `pentad schedules`")
        if action == "history":
            _json(one, again=True)


def _add_files(commands: Any) -> None:
    parser = _client(commands, "files", "List the files of a conversation; get, put and remove one.")
    parser.add_argument("session", metavar="SESSION", type=_external, help="the conversation")
    parser.add_argument("--glob", metavar="GLOB", help="list only these: *.csv in every folder, or reports/**")
    _json(parser, "print each file as a line of JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    get = _client(actions, "get", "Write a file to the standard output.", again=True)
    get.add_argument("path", metavar="PATH", help="the file: one of `pentad files SESSION`")
    get.add_argument("--out", metavar="FILE", help="write it to this file of this machine instead")
    put = _client(actions, "put", "Put a file of this machine into the conversation.", again=True)
    put.add_argument("file", metavar="FILE", help="the file of this machine")
    put.add_argument("path", metavar="PATH", nargs="?", help="its path there; its name when not given")
    _json(put, again=True)
    remove = _client(actions, "rm", "Remove a file.", again=True)
    remove.add_argument("path", metavar="PATH", help="the file: one of `pentad files SESSION`")


def _add_memory(commands: Any) -> None:
    parser = _command(commands, "memory", "Search what was said in finished tasks; open the place where it was said.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    search = _client(actions, "search", "Find what was said, the best first, each with the anchor that opens it.")
    search.add_argument("question", metavar="Q", help="the question, or words")
    search.add_argument("--limit", type=_count, help="how many at most; 10 when not given")
    _user(search, "find this user's memories, beside what all share")
    search.add_argument("--as-of", metavar="TIME", help="what had been said and was true then; RFC 3339")
    how = "walk the graph from what was found, and name the tasks that all of it is from"
    search.add_argument("--strategy", choices=["auto", "bfs", "dfs", "astar", "none"], help=how)
    search.add_argument("--depth", type=int, metavar="N", help="edges of that walk, 0 to 6; 2 when not given")
    search.add_argument("--kind", choices=_MEMORY_KINDS, help="of this kind alone; else episodic and semantic")
    search.add_argument("--session", type=_external, help="find what was said in this conversation without a user, too")
    _json(search, "print each hit as a line of JSON")
    expand = _client(actions, "expand", "Show the words that an anchor points at, and what was said around them.")
    expand.add_argument("anchor", metavar="ANCHOR", help="the anchor of a hit")
    expand.add_argument("--window", type=int, metavar="N", help="how much on each side, 0 to 50; 2 when not given")
    _json(expand)
    forget = _client(actions, "forget", "Let something not be found any more: hits by their ids, or all that is meant.")
    forget.add_argument("ids", metavar="ID", nargs="*", help="the id of a hit (see search --json), node or task")
    forget.add_argument("--since", metavar="TIME", help="said from then on, as 2030-01-31T12:00:00Z")
    forget.add_argument("--until", metavar="TIME", help="said before then")
    forget.add_argument("--user", metavar="ID", help="of this user alone")
    forget.add_argument("--importance-below", metavar="X", type=float, help="what matters less than this, 0 to 1")
    forget.add_argument("--kind", choices=_MEMORY_KINDS[1:], help="what was said, or what is known; else both")
    undo = _client(actions, "unforget", "Let be found again what a model has had forgotten within the last day.")
    undo.add_argument("anchor", metavar="ANCHOR", help="the one that the model gave to memory_forget")
    undo.add_argument("--user", metavar="ID", help="of this user alone")
    add = _client(actions, "add", "Keep something: a fact that is known, or what was said elsewhere.")
    add.add_argument("text", metavar="TEXT", type=_text, help="what is to be kept")
    add.add_argument("--kind", choices=_MEMORY_KINDS[1:], default="semantic", help="%(default)s when not given")
    add.add_argument("--user", metavar="ID", help="whose it is; shared by all when not given")
    stats = _client(actions, "stats", "Say how much of each kind there is.")
    stats.add_argument("--session", type=_external, help="the conversation whose working memory is counted too")
    _json(stats)
    text = "Embed the memory anew for another embedding model. Needs PENTAD_ADMIN_KEY where the gateway has one."
    again = _client(actions, "reindex", text)
    again.add_argument(
        "--force", action="store_true", help="go on without what cannot be embedded any more; its vectors are kept"
    )
    text = (
        "Rebuild the memory of all tenants from their records and the tasks in Redis, where its stores were emptied or "
        "damaged; one that was broken off goes on. Needs PENTAD_ADMIN_KEY where the gateway has one."
    )
    _client(actions, "rebuild", text)
    show = _client(actions, "show", "Show something known, what it rests on and what lies around it.")
    show.add_argument("id", metavar="ID", help="the node")
    show.add_argument("--depth", type=int, metavar="N", help="edges around it, 0 to 6; 2 when not given")
    show.add_argument("--limit", type=int, help="nodes at most; 50 when not given")
    show.add_argument("--strategy", choices=["bfs", "dfs", "astar"], help="how it is walked; bfs when not given")
    _user(show, "see what is this user's, beside what all share")
    show.add_argument("--session", type=_external, help="see what is this conversation's, too")
    _json(show)


def _add_dlq(commands: Any) -> None:
    text = "Look at what was set aside; send it again or remove it. Needs PENTAD_ADMIN_KEY where the gateway has one."
    parser = _command(commands, "dlq", text)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = _client(actions, "list", "List dead letters, the newest first.")
    listed.add_argument("--limit", type=_count, help="how many at most")
    _json(listed)
    shown = _client(actions, "show", "Show a dead letter: why, what led to it, and what a redrive would send.")
    shown.add_argument("id", metavar="ID", help="the dead letter")
    _json(shown)
    redrive = _client(actions, "redrive", "Send dead letters again, each once.")
    redrive.add_argument("ids", metavar="ID", nargs="+", help="the dead letter; with --edit just one")
    redrive.add_argument("--edit", metavar="FILE", help="the JSON to send instead; - for standard input")
    discard = _client(actions, "discard", "Remove dead letters for good.")
    discard.add_argument("ids", metavar="ID", nargs="+", help="the dead letter")


def _client(commands: Any, name: str, text: str, *, again: bool = False) -> argparse.ArgumentParser:
    """Add a command that asks the gateway. ``again``: its options may stand before its name, too."""
    parser = _command(commands, name, text)
    parser.add_argument(
        "--url",
        type=_url,
        default=argparse.SUPPRESS if again else None,
        help="the gateway's address, instead of PENTAD_URL or that of the running `pentad up`",
    )
    return parser


def _url(value: str) -> str:
    from pentad.client.gateway import Address
    from pentad.errors import ClientError

    try:
        Address.parse(value)
    except ClientError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def _name(value: str) -> str:
    if not is_identifier(value):
        raise argparse.ArgumentTypeError(f"{value[:200]!r} is no name: {ID_RULE}")
    return value


def _external(value: str) -> str:
    if not is_external_id(value):
        raise argparse.ArgumentTypeError(f"{value[:200]!r} is no id: {EXTERNAL_ID_RULE}")
    return value


def _text(value: str) -> str:
    if not 1 <= len(value) <= MAX_CONTENT:
        raise argparse.ArgumentTypeError(f"a message has 1 to {MAX_CONTENT} characters, this one has {len(value)}")
    return value


def _object(value: str) -> dict[str, Any]:
    return _json_object(value, "the arguments are", "ARGUMENT")


def _state(value: str) -> dict[str, Any]:
    if len(value.encode(errors="replace")) > MAX_FIRST_STATE:
        raise argparse.ArgumentTypeError(f"the state has at most {MAX_FIRST_STATE:,} bytes: send a reference")
    return _json_object(value, "the state is", "KEY")


def _json_object(value: str, what: str, name: str) -> dict[str, Any]:
    try:
        found = read_json(value)
    except (TypeError, ValueError) as error:  # TypeError: half a character
        raise argparse.ArgumentTypeError(f"{what} no JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'{what} no JSON object: write {{"{name}": VALUE}}')
    return found


def _count(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:12]) <= _MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"{value[:200]!r} is not a number from 1 to {_MAX_LIMIT}")
    return int(value)


def _period(value: str) -> int:
    """Return the seconds of a text such as ``90s`` or ``6h``."""
    number, unit = (value[:-1], value[-1]) if value[-1:] in _UNITS else (value, "s")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number[:12]) <= _MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"{value[:200]!r} is no time between two due times: 90s, 15m, 6h, 7d")
    return int(number) * _UNITS[unit]


def _step(value: str) -> int:
    """Return a number that may be 0."""
    return 0 if value == "0" else _count(value)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_LIMIT:
        raise argparse.ArgumentTypeError(
            f"{value[:200]!r} is not a number of seconds: more than 0, at most {_MAX_LIMIT}"
        )
    return seconds


def _user(parser: argparse.ArgumentParser, text: str) -> None:
    default = "your login name when not given, at a gateway of this machine without keys"
    parser.add_argument("--user", metavar="ID", type=_external, help=f"{text}; {default}")


def _json(parser: argparse.ArgumentParser, text: str = "print JSON", *, again: bool = False) -> None:
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS if again else False, help=text)


if __name__ == "__main__":
    command()
