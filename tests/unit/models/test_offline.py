"""The offline model shows tools and conversation, says what it is, and uses nothing but the request."""

import json
from typing import Any

import pytest

from pentad.shared.models.offline.intents import stands_alone
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.ports import ChatRequest, ModelAnswer

PARAMETERS: dict[str, dict[str, Any]] = {
    "calculator": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    "get_time": {"type": "object", "properties": {"timezone": {"type": "string"}}},
    "echo": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "roll_dice": {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]},
}


class Talk:
    """A conversation with the offline model; `run` stands for the tool-worker."""

    def __init__(self, *tools: str) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "You are helpful. 1+1"}]
        functions = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS[name]}} for name in tools]
        self.tools = json.dumps(functions).encode() if tools else None
        self.deltas: list[str] = []

    async def says(self, *texts: str) -> ModelAnswer:
        self.messages += [{"role": "user", "content": text} for text in texts]
        return await self.answer()

    async def results(self, *results: str, also: str | None = None) -> ModelAnswer:
        calls = self.messages[-1]["tool_calls"]
        assert len(calls) == len(results)
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        return await self.says(also) if also else await self.answer()

    async def answer(self) -> ModelAnswer:
        request = ChatRequest([json.dumps(message).encode() for message in self.messages], self.tools, 5.0)
        self.deltas = []
        answer = await OfflineModel().stream(request, lambda _kind, text: self.deltas.append(text))
        assert "".join(self.deltas) == answer.text
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if answer.tool_calls:
            count = len(self.messages)
            message["tool_calls"] = [
                {
                    "id": f"c{count}-{n}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for n, call in enumerate(answer.tool_calls)
            ]
        self.messages.append(message)
        return answer


def calls(answer: ModelAnswer) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.tool_calls]


ALL = tuple(PARAMETERS)
SUMS = {
    "what is (15+27)*3-42/6?": ["(15+27)*3-42/6"],
    "What is 12 * 7, and 3 + 4?": ["12 * 7", "3 + 4"],
    "计算1+2": ["1+2"],
    "计算 1+2等于几": ["1+2"],
    "１５＋２７等于多少": ["15+27"],
    "6×7 and 84÷2": ["6*7", "84/2"],
    "what is 5 times 6": ["5*6"],
    "10 divided by 4 please": ["10/4"],
    "100 minus 1": ["100-1"],
    "3加4": ["3+4"],
    "3 乘以 4": ["3*4"],
    "2^10": ["2**10"],
    "2 ** 0.5": ["2 ** 0.5"],
    "1,000 + 1": ["1000 + 1"],
    "(see 1+1)": ["1+1"],
    "-3 + 5": ["-3 + 5"],
    "1 / 0": ["1 / 0"],
}
NO_SUMS = ["my phone is 555", "version 1.2.3", "on 2024-01-02", "abc-123x", "x1+2y", "hello", "7", "()", "+-*/"]


@pytest.mark.parametrize("text", SUMS)
async def test_each_sum_becomes_a_calculator_call(text: str) -> None:
    answer = await Talk(*ALL).says(text)
    assert calls(answer) == [("calculator", {"expression": expression}) for expression in SUMS[text]]
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("text", NO_SUMS)
async def test_what_is_no_sum_is_not_calculated(text: str) -> None:
    assert calls(await Talk("calculator").says(text)) == []


async def test_the_result_is_told_with_its_sum() -> None:
    talk = Talk(*ALL)
    await talk.says("what is (15+27)*3-42/6?")
    answer = await talk.results("119.0")
    assert answer.text == "(15+27)*3-42/6 = 119"
    assert answer.finish_reason == "stop"
    assert not answer.tool_calls


async def test_parallel_results_are_told_in_order_errors_included() -> None:
    talk = Talk(*ALL)
    await talk.says("1+1 and 1/0 and 2*3")
    answer = await talk.results("2", "error: division by zero", "6")
    assert answer.text == "1+1 = 2\n1/0 could not be calculated: division by zero\n2*3 = 6"


@pytest.mark.parametrize("result", ['{"error": "no such city"}', "Error: no such city", "error no such city"])
async def test_a_failed_tool_is_reported(result: str) -> None:
    talk = Talk("weather")
    await talk.says("weather in Atlantis")
    assert (await talk.results(result)).text == "The tool weather failed: no such city"


async def test_a_tool_that_says_its_own_name_in_an_error_is_named_once() -> None:
    talk = Talk("calculator", "weather")
    await talk.says("weather in Atlantis")
    assert (await talk.results("error: weather: no such city")).text == "The tool weather failed: no such city"
    await talk.says("1/0")
    assert (await talk.results("error: calculator: a reason")).text == "1/0 could not be calculated: a reason"


@pytest.mark.parametrize(
    ("text", "zones"),
    [
        ("what time is it?", [None]),
        ("现在几点了", [None]),
        ("What is the current time in Beijing and in London?", ["Asia/Shanghai", "Europe/London"]),
        ("东京现在几点", ["Asia/Tokyo"]),
        ("today's date?", [None]),
    ],
)
async def test_the_time_is_asked_for(text: str, zones: list[str | None]) -> None:
    wanted = [("get_time", {"timezone": zone} if zone else {}) for zone in zones]
    assert calls(await Talk(*ALL).says(text)) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo hello  world", "hello  world"),
        ("Echo: 1+1", "1+1"),
        ("please echo two\nlines", "two\nlines"),
        ("ｅｃｈｏ x", "x"),
    ],
)
async def test_an_echo_is_word_for_word(text: str, said: str) -> None:
    talk = Talk(*ALL)
    assert calls(await talk.says(text)) == [("echo", {"text": said})]
    assert (await talk.results(said)).text == said


async def test_follow_ups_refer_to_the_turn_before() -> None:
    talk = Talk(*ALL)
    await talk.says("what time is it in London?")
    await talk.results("08:00")
    assert calls(await talk.says("and Beijing?")) == [("get_time", {"timezone": "Asia/Shanghai"})]
    assert (await talk.results("16:00")).text == "It is 16:00 (Asia/Shanghai)"
    assert calls(await talk.says("那东京呢?")) == [("get_time", {"timezone": "Asia/Tokyo"})]


async def test_a_sum_goes_on_from_the_last_result() -> None:
    talk = Talk(*ALL)
    await talk.says("2 - 7")
    await talk.results("-5")
    assert calls(await talk.says("and times 2?")) == [("calculator", {"expression": "(-5)*2"})]
    await talk.results("-10")
    assert calls(await talk.says("再加 3")) == [("calculator", {"expression": "(-10)+3"})]


async def test_a_tool_of_the_user_is_called_by_its_name_and_followed_up() -> None:
    talk = Talk(*ALL)
    assert calls(await talk.says("What is the weather in Paris?")) == [("weather", {"city": "Paris"})]
    await talk.results("sunny")
    assert calls(await talk.says("how about Oslo?")) == [("weather", {"city": "Oslo"})]
    assert calls(await Talk(*ALL).says("roll dice for 20")) == [("roll_dice", {"sides": 20})]


async def test_a_message_that_came_while_tools_ran_is_answered_with_their_results() -> None:
    talk = Talk(*ALL)
    await talk.says("1+1")
    answer = await talk.results("2", also="and 2+2")
    assert answer.text == "1+1 = 2"
    assert calls(answer) == [("calculator", {"expression": "2+2"})]
    assert (await talk.results("4")).text == "2+2 = 4"


async def test_several_waiting_messages_are_all_answered() -> None:
    assert len(calls(await Talk(*ALL).says("1+1", "echo x", "what time is it"))) == 3


@pytest.mark.parametrize("text", ["hello", "1+1", "what time is it", "echo x", "and times 2?", "and Beijing?", "", " "])
async def test_without_tools_it_says_what_it_is_and_how_to_get_a_real_model(text: str) -> None:
    answer = await Talk().says(text)
    assert "offline model" in answer.text
    assert "LLM_BASE_URL" in answer.text
    assert "LLM_API_KEY" in answer.text
    assert not answer.tool_calls


async def test_it_answers_in_chinese_when_spoken_to_in_chinese() -> None:
    answer = await Talk().says("你好")
    assert "离线模型" in answer.text
    assert "LLM_API_KEY" in answer.text


async def test_it_streams_in_a_few_chunks_and_repeats_itself_exactly() -> None:
    first, second = Talk(*ALL), Talk(*ALL)
    assert await first.says("hello") == await second.says("hello")
    assert 2 <= len(first.deltas) <= 6


@pytest.mark.parametrize(
    "text", ["(" * 65_536, " " * 65_000 + "x", "1+" * 30_000, "\ud83d", "echo " + "y" * 65_000, ")" * 9000 + "1-1"]
)
async def test_hostile_text_is_answered_quickly(text: str) -> None:
    answer = await Talk(*ALL).says(text)
    assert answer.text or answer.tool_calls


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        ([], None),
        ([b"not json", b"[]", b"{}"], b"{}"),
        ([b'{"role":"tool","content":null}'], b"[1,{}]"),
        (
            [
                b'{"role":"assistant","tool_calls":[1,{"function":3}]}',
                b'{"role":"tool","tool_call_id":"x","content":"y"}',
            ],
            b"[",
        ),
        ([b'{"role":"user","content":[{"type":"text","text":"1+1"}]}'], None),
    ],
)
async def test_requests_without_sense_do_not_break_it(messages: list[bytes], tools: bytes | None) -> None:
    assert (await OfflineModel().stream(ChatRequest(messages, tools, 1.0), lambda _kind, _text: None)).text


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("time in Tokyo", "Asia/Tokyo"),
        ("tell me the time in Reykjavik, please", "Reykjavik"),
        ("what time is it in New Orleans right now?", "New Orleans"),
        ("现在东京几点？", "Asia/Tokyo"),
        ("东京时间？", "Asia/Tokyo"),
        ("what time is it in america/lima", "america/lima"),
        ("现在 UTC＋8 几点？", "UTC+8"),
    ],
)
async def test_the_zone_that_is_named_is_the_one_that_is_asked_for(text: str, zone: str) -> None:
    assert calls(await Talk(*ALL).says(text)) == [("get_time", {"timezone": zone})]


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        ("6*7等于多少？", ["6*7"]),
        ("６×７＝？", ["6*7"]),
        ("3×（4＋5）是多少？", ["3*(4+5)"]),
        ("先算6*7，再算100*2。谢谢！", ["6*7", "100*2"]),
        ("6*7。8*9呢？", ["6*7", "8*9"]),
        ("1，000*3、2*2", ["1000*3", "2*2"]),
    ],
)
async def test_full_width_punctuation_ends_a_sum_and_is_no_part_of_it(text: str, sums: list[str]) -> None:
    assert calls(await Talk("calculator").says(text)) == [("calculator", {"expression": each}) for each in sums]


@pytest.mark.parametrize("said", ["你好，世界。", "“１＋１”、对吗？", "a～b"])
async def test_an_echo_keeps_full_width_characters(said: str) -> None:
    for text in (f"echo {said}", f"请回显：{said}"):
        assert calls(await Talk("echo").says(text)) == [("echo", {"text": said})]


@pytest.mark.parametrize("text", ["time in Tokyo", "what is 6*7?", "echo hi", "回显：好", "现在几点？"])
def test_what_says_all_that_it_needs_stands_alone(text: str) -> None:
    assert stands_alone(text)


@pytest.mark.parametrize("text", ["and times 2?", "and Beijing?", "那东京呢?", "再加 3", "hello", "it is time", ""])
def test_what_rests_on_before_does_not_stand_alone(text: str) -> None:
    assert not stands_alone(text)
