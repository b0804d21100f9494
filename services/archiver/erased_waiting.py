"""Messages of an erased user that wait in sessions, for no router has taken them yet, are removed."""

from pentad.shared.actors.erased_marks import ErasedMark, entry_order
from pentad.shared.actors.headers import read_session
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.keys import SessionKeys, load, tag
from pentad.shared.store.store import Store

_KEYS = 1000
"""Keys of the server that are gone past at once."""
_NO_ENTRY = "0-0"
_MESSAGES = 100
"""Messages of one session that are read at once."""


async def remove_waiting(store: Store, shard: int, tenant: str, user: str, mark: ErasedMark) -> None:
    """Remove what this user had said by then in whatever session of a shard. Raises ``OutageError``.

    A router that decides on such a message just now is refused, and finds the next one.
    """
    cursor, begins = b"0", f"{tag(shard)}:session:{tenant}:"
    while True:
        command = ("SCAN", cursor, "MATCH", f"{begins}*:mail", "COUNT", _KEYS, "TYPE", "zset")
        cursor, found = await store.call(*command)
        for key in found:
            session = read_session(key.removeprefix(begins.encode()).removesuffix(b":mail"))
            await _remove_from(store, SessionKeys(shard, tenant, session), user, mark)
        if cursor == b"0":
            return


async def _remove_from(store: Store, keys: SessionKeys, user: str, mark: ErasedMark) -> None:
    read = 0
    while members := await store.call("ZRANGE", keys.messages, read, read + _MESSAGES - 1):
        gone = [member for member in members if _is_gone(member, user, mark)]
        if gone:
            await store.run("erase_mail", [keys.header, keys.messages, load(keys.shard)], [keys.tenant, *gone])
        read += len(members) - len(gone)


def _is_gone(member: bytes, user: str, mark: ErasedMark) -> bool:
    try:
        entry, message = read_session_mail(member.split(b" ", 2)[2])
        order = entry_order(entry)
    except (ValueError, IndexError):
        return False
    if message.user_id != user:
        return False
    # Ids of entries do not go back with the clock, so theirs is the order that counts. A message that was redriven has
    # the time of that and the number 0, and where nothing had been accepted there is no id to compare with.
    by_time = order[1] == 0 or mark.entry == _NO_ENTRY
    return order <= entry_order(mark.entry) or (by_time and order[0] <= mark.at)
