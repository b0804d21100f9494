"""The rules of the commit scheme, each with the change of a script's text that drops it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Dropping it replaces ``kept`` by ``dropped`` in the script's text."""

    name: str
    script: str
    kept: str
    dropped: str
    seeds: int = 12
    """Within so many seeds the checks must notice; 0: dropping it costs only work."""


_RULES = (
    Rule(
        "commit_is_fenced",
        "commit",
        "if call('HGET', header, 'token') ~= ARGV[1] or (call('HGET', header, 'v') or '0') ~= ARGV[2] then return 'stale' end",
        "",
    ),
    Rule(
        "end_waits_for_the_newest_message",
        "commit",
        "if mode == 'complete' and newer('user') then outcome = 'open' end",
        "",
    ),
    Rule("end_takes_all_messages", "commit", "if mode == 'end' and newer('user') then return 'again' end", ""),
    Rule("next_wake_up", "commit", "if rewake or #call(", "if false and #call("),
    Rule("rewake", "commit", "if rewake or #call(", "if #call("),
    Rule("sender_checks_the_status", "commit", "~= ARGV[i + 2] then return 'again' end", "== '?' then return 'again' end"),
    Rule("giving_up_waits_for_results", "commit", "if newer('result') then return 'again' end", ""),
    Rule("timers_end_with_the_task", "commit", "elseif op == 'untimer' then call('ZREM', k(1), ARGV[i + 2])",
         "elseif op == 'untimer' then", 0),
    Rule("step_id_is_compared", "commit", "if call('HGET', header, 'last_step') == ARGV[3] then", "if false then", 0),
    Rule("acknowledged_only_by_the_commit", "take", "local transcript = {}",
         "call('XACK', stream, ARGV[2], ARGV[1]); local transcript = {}"),
    Rule("one_holder_at_a_time", "take", "if expires > t then return {'leased', expires - t} end", "", 0),
    Rule("beat_compares", "beat", "if call('HGET', header, 'token') ~= ARGV[1] or call('HGET', header, 'wake') ~= ARGV[5] then return false end", "", 0),
    Rule("inbound_read_is_fenced", "inbound_read", "if call('HGET', KEYS[1], 'token') ~= ARGV[1] then return false end", ""),
    Rule("entry_id_guard", "ingest", "if last and not greater(ARGV[i], ARGV[i + 1], last) then", "if false then"),
    Rule("message_id_guard", "ingest", "if call('SET', KEYS[k + 2], entry, 'NX', 'EX', ARGV[2]) then",
         "if call('SET', KEYS[k + 2], entry, 'EX', ARGV[2]) then"),
    Rule("closed_calls_stay_closed", "call_close", "if call('HDEL', KEYS[1], ARGV[1]) == 0 then",
         "if call('HDEL', KEYS[1], ARGV[1]) == -1 then"),
    Rule("unsafe_has_one_owner", "call_start", "if owner and ARGV[3] == 'unsafe' then", "if false then"),
    Rule("closed_calls_do_not_start", "call_start", "if not state then", "if not state then return {'run', 1} end if not state then"),
    Rule("unsafe_is_not_handed_back", "call_release", "if ARGV[3] == 'unsafe' then return 'started' end", ""),
    Rule("archive_compares_the_version", "archive", "v ~= ARGV[3] or ", ""),
    Rule("archive_needs_an_end", "archive", "if v ~= ARGV[3] or not ended or", "if"),
    Rule("a_fired_timer_is_removed", "fire", "if call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end", ""),
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Every rule by its name."""
