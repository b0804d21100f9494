"""Recognizes control in words, such as "cancel that", "how far are you" or 算了: a whole short message only."""

import re

from pentad.contracts.events import ControlAction
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.digests.wording import clean

MAX_CONTROL_CHARS = 60
"""Characters that a message may have to be read as control."""

_EDGE = r"[\s,.!?;:~、，。！？；：…]*"
_BEFORE = (
    rf"(?:(?:please|ok|okay|actually|hey|so|well|no|oh|just|can you|could you|请|麻烦|那|嗯|好的?|先|你|您){_EDGE})*"
)
_AFTER = (
    rf"(?:{_EDGE}(?:please|now|for now|for me|thanks|thank you|then|yet|so far|right now|吧|了|谢谢|呀|啊|呢|一下))*"
)
_IT = r"(?:it|that|this|(?:the|this|that|my|your) (?:current |last )?(?:task|job|run|work))"
_TASK = r"(?:(?:这个|那个|当前|现在的|上个|刚才的)?(?:任务|工作)?)"

_WORDS: dict[ControlAction, str] = {
    "cancel": (
        rf"(?:cancel|stop|abort|terminate|kill)(?: {_IT})?|(?:forget|drop|scrap) {_IT}|forget about {_IT}"
        rf"|(?:stop|quit) (?:working on|doing) {_IT}"
        rf"|算了|取消(?:掉)?{_TASK}|把?{_TASK}取消(?:掉)?|停止{_TASK}|终止{_TASK}|中止{_TASK}|(?:别|不要|不用)(?:再)?(?:做|弄|干|继续)"
    ),
    "progress": (
        rf"how far (?:are you|along are you|have you (?:got|gotten|come))(?: with {_IT})?"
        rf"|(?:what(?:'s| is) (?:the|your) |any |show me the )?(?:status|progress)(?: (?:of|on|with) {_IT})?"
        rf"|(?:status|progress) (?:update|report)|how(?:'s| is) {_IT} (?:going|coming along|progressing)"
        rf"|are you (?:done|finished|still working)(?: (?:with|on) {_IT})?|is {_IT} (?:done|finished|ready)"
        rf"|where are you (?:at )?with {_IT}"
        rf"|{_TASK}(?:的)?进[度展](?:如何|怎么样|怎样|到哪|是什么|呢)?|(?:做|弄|进行|处理|完成)到(?:哪|什么程度|哪里|哪儿|哪一步)"
        rf"|{_TASK}(?:做|弄|处理)(?:完|好)(?:了)?(?:吗|没有|没)|{_TASK}完成(?:了)?(?:吗|没有|没)|{_TASK}怎么样"
    ),
    "pause": (
        rf"pause(?: {_IT})?|put {_IT} on hold|hold {_IT}|suspend(?: {_IT})?"
        rf"|暂停{_TASK}|把?{_TASK}(?:暂停|停一停|停一下|放一放|搁一搁)|停一下|停一停"
    ),
    "resume": (
        rf"resume(?: {_IT})?|unpause(?: {_IT})?|(?:continue|carry on|go on|keep going)(?: with {_IT})?"
        rf"|恢复{_TASK}|把?{_TASK}恢复|继续{_TASK}|接着做|继续做"
    ),
}
_PATTERNS: tuple[tuple[ControlAction, re.Pattern[str]], ...] = tuple(
    (action, re.compile(rf"{_EDGE}{_BEFORE}(?:{words}){_AFTER}{_EDGE}")) for action, words in _WORDS.items()
)


def control_of(text: str) -> ControlAction | None:
    """The action that a message asks for; None for an ordinary message.

    Only the words are read here. The caller looks whether there is a paused task that "continue" could resume, or a
    live one that "stop" could stop; where there is none, the message is an ordinary one.
    """
    if len(text) > MAX_CONTROL_CHARS:
        return None
    cleaned = clean(text)
    return next((action for action, pattern in _PATTERNS if pattern.fullmatch(cleaned)), None)


_HAN = re.compile(r"[\u4e00-\u9fff]")
_DOING: dict[ControlAction, tuple[str, str]] = {
    "cancel": ("Cancelling: ", "正在取消："),
    "pause": ("Pausing: ", "正在暂停："),
    "resume": ("Going on with: ", "继续："),
}


def control_answer(action: ControlAction, task: TaskHeader, message: str) -> str:
    """The text that answers a control message, in the message's language."""
    chinese = _HAN.search(message) is not None
    if action != "progress":
        return f"{_DOING[action][chinese]}{task.goal}"
    if task.waits and task.reason:
        return f"{task.goal}：等待您（{task.reason}）" if chinese else f"{task.goal}: waiting for you ({task.reason})"
    if task.status == "pending":
        return f"{task.goal}：排队中（{task.reason}）" if chinese else f"{task.goal}: pending ({task.reason})"
    waits = ", ".join(call.tool for call in task.open)
    if chinese:
        return f"{task.goal}：第 {task.turn_steps + 1} 步" + (f"，等待工具 {waits}" if waits else "，等待模型")
    return f"{task.goal}: step {task.turn_steps + 1}, " + (f"waiting for {waits}" if waits else "waiting for the model")
