"""Images of the session's files that a prompt names, for models that see them."""

import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence

from pentad.contracts.records import PromptImage
from pentad.shared.attached_files import files_in
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import turn_after
from pentad.shared.immutable import immutable
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.media_types import image_type_of
from pentad.shared.workspace.workspace import Workspaces, digest_of

_say = ThrottledLog(logging.getLogger(__name__))
MAX_IMAGES = 8
"""Images of one prompt; of more, the newest."""
MAX_IMAGE_BYTES = 5_000_000
"""Bytes of one image: what servers take."""
MAX_IMAGES_BYTES = 20_000_000
"""Bytes of all images of one prompt."""


@immutable
class ShownImages:
    """The images of one prompt: how a model is sent them, and what its step's manifest says of them."""

    urls: Mapping[str, str]
    """Data URLs by path."""
    named: tuple[PromptImage, ...]


NO_IMAGES = ShownImages({}, ())


class PromptImages:
    """Reads the images of prompts. Without ``workspaces`` there are none."""

    def __init__(self, workspaces: Workspaces | None) -> None:
        self._workspaces = workspaces

    async def of(self, tenant: str, session: str, prompt: Sequence[bytes]) -> ShownImages:
        """Return the images that a prompt names, the newest if they are many. What cannot be read is left out: its
        path is in the prompt."""
        named = [path for message in reversed(prompt) for path in reversed(files_in(message))]
        if self._workspaces is None or not named:
            return NO_IMAGES
        urls: dict[str, str] = {}
        shown: list[PromptImage] = []
        room = MAX_IMAGES_BYTES
        try:
            workspace = self._workspaces.open(tenant, session)
            for path in dict.fromkeys(named):
                if len(shown) >= MAX_IMAGES:
                    break
                try:
                    data = await workspace.read(path, min(MAX_IMAGE_BYTES, room))
                except FileRefusedError:
                    continue
                kind = image_type_of(data)
                if kind is None:
                    continue
                room -= len(data)
                urls[path] = f"data:{kind};base64,{b64encode(data).decode()}"
                shown.append(PromptImage(path=path, media_type=kind, size=len(data), digest=digest_of(data)))
                await turn_after(len(data))
        except (FileRefusedError, OutageError) as error:
            _say.warning("images", "a model is asked without images of its session: %s", error)
        return ShownImages(urls, tuple(shown))
