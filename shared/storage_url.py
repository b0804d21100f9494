"""The place of stored documents and files that a setting names: a folder, or an fsspec URL (S3, GCS, ...)."""

from typing import Any

from pentad.shared.errors import SettingsError

_LOCAL_KINDS = ("", "file", "local")


class StorageUrl:
    """A folder or an fsspec URL, checked now and opened at its first use, which may block.

    ``setting``: the name of the variable that holds it, for errors. Raises ``SettingsError`` for a kind of store that
    is not known here: it will not serve later either.
    """

    def __init__(self, setting: str, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        self._opened: tuple[Any, str] | None = None
        kind, separator, _ = url.partition("://")
        self.is_local = not separator or kind in _LOCAL_KINDS
        """Whether it is a folder of this machine."""
        if self.is_local:
            return
        from fsspec import get_filesystem_class

        try:
            get_filesystem_class(kind)
        except (ValueError, ImportError) as error:
            named = f"{setting} names a store {kind[:32]}:// that cannot be used here"
            raise SettingsError(f"{named}: {error}") from None

    @property
    def folder(self) -> str:
        """The path of a folder of this machine."""
        _, separator, path = self.url.partition("://")
        return path if separator else self.url

    def open(self) -> tuple[Any, str]:
        """Return the fsspec file system, and the path in it. Raises whatever the file system raises."""
        if self._opened is None:
            from fsspec.core import url_to_fs

            self._opened = url_to_fs(self.url)
        return self._opened

    def __repr__(self) -> str:
        return "StorageUrl()"  # an address may hold a key


def is_local(fs: Any) -> bool:
    """Return whether an fsspec file system is the disk of this machine."""
    protocol = fs.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)
