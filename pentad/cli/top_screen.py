"""A whole terminal that shows the live system, with its keys."""

from time import monotonic

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from pentad.cli.render import one_line
from pentad.cli.top_view import Rates, TopView
from pentad.contracts.operations import Operations

_KEYS = "q leaves, s sorts the streams, p pauses"


class TopScreen:
    """Shows documents until the person leaves."""

    def __init__(self, view: TopView) -> None:
        self._view, self._rates = view, Rates()
        self._found: Operations | None = None
        self._trouble, self._since = "", 0.0
        self.paused = False
        """Whether the person wants to read what is there, and nothing new."""
        window = Window(FormattedTextControl(self._text, focusable=True), wrap_lines=False)
        self._app: Application[None] = Application(
            layout=Layout(window),
            key_bindings=self._bindings(),
            full_screen=True,
            enable_page_navigation_bindings=False,
        )

    def show(self, found: Operations) -> None:
        """Draw a document."""
        self._found, self._trouble = found, ""
        self._rates.add(found)
        self._app.invalidate()

    def trouble(self, why: str) -> None:
        """Say why there is nothing new; what was there stays."""
        if not self._trouble:
            self._since = monotonic()
        self._trouble = why
        self._app.invalidate()

    async def run(self) -> None:
        """Show the screen until the person leaves."""
        await self._app.run_async()

    def _text(self) -> ANSI:
        size = self._app.output.get_size()
        lines = [one_line(self._state(), size.columns)]
        if self._found is not None:
            lines += self._view.drawn(self._found, self._rates, size.rows - 1, size.columns)
        return ANSI("\n".join(lines[: size.rows]))

    def _state(self) -> str:
        if self._found is None:
            return "pentad top"
        at = f"pentad top  {self._found.at[11:19]} UTC"
        if self._trouble:
            return f"{at}  NOT LIVE for {monotonic() - self._since:.0f} s, asking again: {self._trouble}"
        return f"{at}  {'PAUSED  ' if self.paused else ''}streams by {self._view.sort}  {_KEYS}"

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("q")
        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add(Keys.SIGINT)
        def _(press: KeyPressEvent) -> None:
            press.app.exit()

        @keys.add("s")
        def _(_: KeyPressEvent) -> None:
            self._view.next_sort()

        @keys.add("p")
        @keys.add(" ")
        def _(_: KeyPressEvent) -> None:
            self.paused = not self.paused

        return keys
