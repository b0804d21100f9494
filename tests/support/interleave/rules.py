"""The rules of the commit scheme, each with the change of the scripts' text that drops it."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.support.interleave.patches import Patch
from tests.support.interleave.place_rules import PLACE_RULES
from tests.support.interleave.rule import STRESSES, Edit, Rule, Stress

_ENTRY_ID = Edit("_lib", "if last and (known or '') == generation and not id_less(last, entry) then", "if false then")
_MESSAGE_ID = Edit("_lib", "'NX', 'EX', seen_ttl", "'EX', seen_ttl")
_HOLDER = Edit("take", "if left > 0 then return {'leased', left} end")
_BEAT = Edit(
    "beat",
    "if not holds(header, ARGV[1]) or call('HGET', header, 'wake') ~= ARGV[5] then return false end",
)
_TOKEN = Edit("commit", "elseif token_of(n, nonce) ~= ARGV[1] then return {'lost', t} end", "end")
_VERSION = Edit("commit", "if (version or '0') ~= ARGV[2] then", "if false then")
_UNTAKEN = Edit("commit", "if (current or '') ~= '' then", "if false then")
_MOVED = "if last_step ~= ARGV[3] or not ended or busy then"

_RULES = (
    Rule("commit_is_fenced", (_TOKEN, _VERSION), "runner"),
    Rule("who_has_mail_is_not_passed", (_UNTAKEN,), "inbound", seeds=0),
    Rule("who_was_read_is_as_it_was", (_VERSION,), "inbound", seeds=0),
    Rule(
        "completion_waits_for_the_newest_message",
        (Edit("commit", "if mode == 'complete' and newer_message then outcome = 'continued' end"),),
    ),
    Rule(
        "end_takes_all_messages",
        (
            Edit(
                "commit",
                "if mode == 'stop' then call('HSET', header, 'ended_mail', call('HGET', header, 'mail') or 0) end",
            ),
        ),
        "cancel",
        first=24,
    ),
    Rule(
        "a_cancel_ends_with_its_turn",
        (Edit("commit", "if kind ~= 'result' and kind ~= 'redrive' and kind ~= 'move' then", "if false then"),),
        "cancel",
        seeds=0,
    ),
    Rule(
        "started_tasks_report_their_end",
        (Edit("commit", "if status_of(k(1)) ~= 'none' then", "if false then"),),
        "graphs",
    ),
    Rule(
        "started_tasks_need_no_place",
        (Edit("take", "and (parent or '') == '' and going_on then", "and going_on then"),),
        "graphs",
        seeds=0,
    ),
    Rule("next_wake_up", (Edit("commit", "if rewake or newer_message or newer then", "if false then"),)),
    Rule(
        "rewake",
        (Edit("commit", "if rewake or newer_message or newer then", "if newer_message or newer then"),),
        rare=True,
    ),
    Rule(
        "sender_checks_the_status",
        (Edit("commit", "~= ARGV[i + 2] then return {'overtaken', t} end", "== '?' then return {'overtaken', t} end"),),
        "cancel",
        first=1,
    ),
    Rule(
        "giving_up_waits_for_results",
        (Edit("commit", "if newer_signal('result') or newer_signal('approval') then return {'overtaken', t} end"),),
        first=107,
    ),
    Rule(
        "acknowledged_only_by_the_commit",
        (Edit("take", "local transcript = {}", "call('XACK', stream, ARGV[2], ARGV[1]) local transcript = {}"),),
        first=59,
    ),
    Rule(
        "inbound_read_is_fenced",
        (Edit("inbound_read", "if owner ~= ARGV[1] or token ~= ARGV[2] then return false end"),),
        "inbound",
        first=17,
    ),
    Rule("message_id_guard", (_MESSAGE_ID,)),
    Rule(
        "closed_calls_stay_closed",
        (
            Edit(
                "call_close",
                "if call('HDEL', KEYS[1], ARGV[1]) == 0 then",
                "if call('HDEL', KEYS[1], ARGV[1]) < 0 then",
            ),
        ),
    ),
    Rule(
        "unsafe_has_one_owner",
        (Edit("call_start", "if owner and ARGV[3] == 'unsafe' then", "if false then"),),
        "tools",
        first=13,
    ),
    Rule("archive_compares", (Edit("archive", _MOVED, "if false then"),), "archive", first=6),
    Rule("a_fired_timer_is_removed", (Edit("fire", "remove_timers(KEYS[1], ARGV[1])"),)),
    Rule("a_moved_timer_is_not_fired", (Edit("fire", " or tonumber(due) > now()"),), seeds=0),
    Rule(
        "archive_waits_for_mail",
        (Edit("archive", " or call('ZCARD', KEYS[5]) > 0 or call('ZCARD', KEYS[6]) > 0"),),
        seeds=0,
    ),
    Rule(
        "step_id_is_compared",
        (Edit("commit", "if last_step == ARGV[3] then", "if false then"),),
        seeds=0,
    ),
    Rule("one_holder_at_a_time", (_HOLDER,), seeds=0),
    Rule("beat_compares", (_BEAT,), "runner", first=1),
    Rule("entry_id_guard", (_ENTRY_ID,), seeds=0),
    Rule(
        "timers_end_with_the_task",
        (Edit("commit", "remove_timers(k(1), unpack(ARGV, i + 3, i + words - 1))"),),
        seeds=0,
    ),
    Rule(
        "unsafe_is_not_handed_back",
        (Edit("call_release", "if ARGV[3] == 'unsafe' then return 'started' end"),),
        seeds=0,
    ),
    Rule(
        "closed_calls_do_not_start",
        (Edit("call_start", "if not state then", "if not state then return {'run', 1} end if not state then"),),
        "cancel",
        first=0,
    ),
    Rule("tokens_are_given_once", (Edit("take", "'nonce', ARGV[4],", "'nonce', 'x',"),), "lost", rare=True),
    Rule(
        "a_lease_too_far_ahead_is_over",
        (Edit("_lib", "if left <= 0 or left > tonumber(length) then return 0 end", "if left <= 0 then return 0 end"),),
        "clock",
        first=21,
    ),
    Rule(
        "early_timers_are_set_again",
        stress="timeout",
        rare=True,
        patches=(Patch("pentad.services.task_runner.step_writer:StepWriter.begin", "early_timers_are_spent"),),
    ),
    Rule(
        "a_timer_too_far_ahead_begins_anew",
        stress="clock",
        first=0,
        patches=(Patch("pentad.shared.work.timers:TimerLoop._restart_those_ahead", "left_as_it_is"),),
    ),
    Rule(
        "early_archiving_is_set_again",
        stress="clock",
        first=7,
        patches=(Patch("tests.support.interleave.store:SteppedStore.run", "spent"),),
    ),
    Rule(
        "what_was_given_in_the_future_is_reclaimed",
        stress="clock",
        first=9,
        patches=(Patch("pentad.shared.work.intake:Ahead.reclaim", "left_alone"),),
    ),
    Rule(
        "a_new_connection_is_noticed",
        stress="lost",
        first=1,
        patches=(Patch("tests.support.interleave.store:SteppedWire.renew", "unnoticed"),),
    ),
    Rule(
        "a_lost_end_does_not_run_an_unsafe_call_again",
        stress="lost",
        first=25,
        patches=(Patch("pentad.services.tool_worker.handlers:ToolHandler._remember", "forgotten"),),
    ),
    Rule(
        "only_the_own_entry_is_acknowledged",
        (Edit("_lib", "if entry and not string.find(entry[2][2], name, 1, true) then return 0 end"),),
        "lost",
        rare=True,
    ),
    Rule("what_waits_is_counted", (Edit("commit", "if n > 0 then count_waiting(k(2), ARGV[i + 3], -n) end"),)),
    Rule("archive_version", (Edit("archive", "last_step ~= ARGV[3] or "),), seeds=0),
    Rule(
        "a_letter_is_claimed",
        (Edit("redrive_claim", "if begun and begun ~= '+' .. ARGV[2] then return 'busy' end"),),
        "redrive",
        first=5,
    ),
    Rule(
        "a_claimed_letter_is_not_discarded",
        (Edit("dead_remove", "if begun and begun ~= 'done' then return 'busy' end"),),
        "redrive",
        first=35,
    ),
    Rule(
        "a_message_is_said_again_once",
        (Edit("redrive_messages", "if call('EXISTS', KEYS[1]) == 1 then return {0, 0} end"),),
        "redrive",
        first=1,
    ),
    Rule(
        "a_task_goes_on_once",
        (Edit("redrive_task", "if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1])", "if false"),),
        "redrive",
        first=4,
    ),
    Rule(
        "a_redriven_letter_is_removed",
        (Edit("dead_remove", "if call('XDEL', KEYS[1], ARGV[1]) == 0 then return 'gone' end"),),
        "redrive",
    ),
    Rule(
        "a_redrive_outlives_the_end_of_a_turn",
        (Edit("commit", " and kind ~= 'redrive'"),),
        "redrive",
        first=9,
    ),
    Rule("a_move_outlives_the_end_of_a_turn", (Edit("commit", " and kind ~= 'move'"),), "move", first=7),
    Rule(
        "an_end_by_a_move_waits_for_the_newest_message",
        (Edit("commit", "if newer_message then return {'overtaken', t} end"),),
        "move",
        first=26,
    ),
    Rule(
        "who_gets_a_moved_message_is_as_it_was",
        (Edit("commit", "~= ARGV[i + 2] then return {'overtaken', t} end", "== '?' then return {'overtaken', t} end"),),
        "move",
        first=10,
    ),
    Rule(
        "a_call_that_is_set_aside_is_closed",
        (Edit("call_set_aside", "post(KEYS[4], KEYS[5], KEYS[6], ARGV[5], 'result', ARGV[6])"),),
        "redrive",
        first=1,
    ),
    Rule(
        "a_pause_is_kept_with_the_task",
        stress="life",
        first=157,
        patches=(Patch("pentad.services.task_runner.step:Steps.read", "unpaused"),),
    ),
    Rule(
        "what_is_parked_is_counted_anew",
        (Edit("commit", "if parked then park(load, header, tenant_of, session or '', 0) end"),),
        "life",
    ),
    Rule(
        "a_call_that_completes_waits_for_the_newest_message",
        (Edit("commit", "if mode == 'complete' and newer_message then outcome = 'continued' end"),),
        "life",
    ),
    Rule(
        "a_step_has_a_time_limit",
        (
            Edit(
                "commit",
                "elseif op == 'timer' then",
                "elseif op == 'timer' and ARGV[i + 2]:find('^timeout') then elseif op == 'timer' then",
            ),
        ),
        "timeout",
        first=1,
    ),
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in (*_RULES, *PLACE_RULES)})
"""Every rule by its name."""
NOTHING_DROPPED: Mapping[Stress, Rule] = MappingProxyType({s: Rule(f"as designed, {s}", (), s) for s in STRESSES})
"""The scheme as it is, under each kind of stress."""
