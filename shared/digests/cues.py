"""The shape of what is said, in English and Chinese: does it begin something, answer, refer back, or say goodbye.

Generic word lists, read with regular expressions. They see cleaned text (`wording.clean`), so a bounded piece of it.
"""

import re
from collections.abc import Mapping
from typing import Literal

from pentad.shared.digests.wording import clean, length_of
from pentad.shared.immutable import immutable


class AnyScript:
    """A pattern to be looked for. ``latin``: what a text in ASCII can match; ``others``: alternatives to it.

    Most messages are ASCII. Without the classes of characters that others need, looking costs them a fraction.
    ``at_start``: it is looked for at the text's start alone.
    """

    __slots__ = ("_in_any", "_in_ascii")

    def __init__(self, latin: str, others: str, *, at_start: bool = False) -> None:
        in_ascii, in_any = re.compile(latin, re.ASCII), re.compile(f"{latin}|{others}")
        self._in_ascii, self._in_any = (p.match if at_start else p.search for p in (in_ascii, in_any))

    def is_in(self, text: str) -> bool:
        """Whether it is in the text."""
        return (self._in_ascii if text.isascii() else self._in_any)(text) is not None


Asked = Literal["", "confirm", "time", "number", "place", "open"]
"""The kind of answer that a question waits for; '' when nothing was asked."""

_FAREWELL_WORDS = 12
"""Words that a goodbye may have: a longer message says something else too."""
_SHORT_WORDS = 5
"""Words that a short message may have."""
_TAIL_CHARS = 300
"""A question to the person stands at the end of an answer."""

_FILLERS = (
    r"(?:(?:ok(?:ay)?|k|alright|all right|right|sure|yes|yeah|yep|yup|no|nope|nah|great|good|fine|cool|perfect|nice|"
    r"awesome|lovely|thanks?(?: you)?(?: (?:so|very) much)?|oh|well|ah|hmm+|so|and|but|also|now|then|next|please|"
    r"hey|hi|hello|actually|alternatively|good (?:morning|afternoon|evening)|by the way|btw|one more thing|"
    r"another thing)[\s,.!;:-]+)*"
)
_OPENER = AnyScript(
    rf"(?:^\W*{_FILLERS}|[.!?,;]\s*(?:and |so |but |please )?|\b(?:and|so|but|then) )(?:"
    r"(?:i|we)(?:'m| am|'d| would|'ve| have|'ll| will|'re| are)?(?: just| really| also| still)? "
    r"(?:need|want|wanna|like|love|wish|looking|trying|searching|planning|thinking|hoping|going|gonna|hungry|bored|"
    r"require|have|got|feel)(?:ing)?|"
    r"(?:can|could|would|will) (?:you|u|i|we|anyone|someone|somebody)\b|"
    r"(?:does|is|has) any(?:one|body)|is there (?:a|an|any|some)|"
    r"help|find|search|look|show|get|give me a|book|reserve|order|buy|check|play|set|make|create|write|draft|explain|"
    r"translate|summari[sz]e|calculate|compute|convert|remind|compare|plan|recommend|suggest|schedule|send|open|start|"
    r"begin|fix|build|tell me|what(?:'s| is| are) the|how (?:do|can|to|would|should))\b",
    r"帮(?:我|忙|个忙)|麻烦|请(?:你|您|问|推荐|给|为|查|写|把)"
    r"|(?:我|咱)们?(?:还|也|就|正|现在|明天|今天|周末)?(?:想|要|需要|打算|准备|得|希望)"
    r"|推荐|找(?:个|一|家|到|找)|预[定订]|订(?:个|一|张)|查(?:一|查|询|下)|写(?:个|一|篇|封)|翻译|总结|安排"
    r"|呼叫|叫(?:个|辆|一)|怎么(?:样才|才|做|办)",
)
_GREETING = AnyScript(
    r"\W*(?:hello|hi|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day))\b",
    r"\W*(?:你好|您好|嗨|哈喽|早上好|下午好|晚上好|在吗)",
    at_start=True,
)
_FAREWELL = AnyScript(
    r"\b(?:thanks|thank (?:you|u)|thx|ty|bye|goodbye|good night|see (?:you|ya)|cheers|"
    r"that(?:'s| is| will be| was|'ll be) (?:all|everything|it)\b|nothing (?:else|more)|"
    r"have a (?:\w{1,20} )?(?:day|night|evening|one|weekend|time|trip|stay)|you(?:'re| are) welcome|my pleasure|"
    r"take care|no(?:,| that's) that)",
    r"谢谢|多谢|感谢|再见|拜拜|不客气|没(?:有)?(?:别的|其他|问题)了?|就这样|就这些|祝您|祝你|麻烦(?:你|您)了|添麻烦"
    r"|不用谢|欢迎|举手之劳|随时联系",
)
_REPLY = AnyScript(
    r"\W*(?:yes|yeah|yep|yup|no|nope|nah|not (?:really|yet|now)|ok(?:ay)?|k|sure|fine|right|correct|exactly|"
    r"alright|all right|great|good|cool|perfect|nice|awesome|lovely|excellent|wonderful|of course|absolutely|"
    r"definitely|indeed|that|those|these|it|sounds|works|the (?:first|second|third|last|other|former|latter|one)|"
    r"either|neither|both|any|none|maybe|hmm+|oh|thanks|thank|please (?:do|go)|go ahead|never ?mind|i see|got it|"
    r"and)\b",
    r"\W*(?:好|行|嗯|可以|是|对|不|没|哦|噢|太好|当然|那|谢|收到|知道|明白|还不错|真|这|就)",
    at_start=True,
)
_REFERENCE = AnyScript(
    r"\b(?:(?<!time is )(?<!day is )(?<!date is )it|"  # "what time is it" speaks of nothing known
    r"its|this|that|these|those|there|they|them|their|he|him|she|her|one|ones|others?|another|else|same|"
    r"the (?:first|second|third|last|former|latter)|instead|too|more|again|what about|how about)\b",
    r"它|他们?家|她|那(?:里|儿|边|个|家|就|么)|这(?:里|儿|边|个|家|些|次)|该|其他|其它|别的|另一|上面|刚才|刚刚"
    r"|换(?:个|一|成)|也是|还是|附近|周边|旁边|还有",
)
_INDEFINITE = AnyScript(
    r"\b(?:a|an|some|somewhere|something|anyone|someone)\b",
    r"一(?:个|家|下|张|份|间|辆|首|部|篇|处)|找个|个(?!人|小时)",
)
_QUESTION = AnyScript(
    r"\?|^\W*(?:what|how|who|where|when|which|why|is|are|do|does|did|can|could|will|would)\b",
    r"？|[吗呢么]\W*$",
)

_ASKING = AnyScript(r"\?|confirm|please (?:tell|let|give|specify|provide)", "[？吗呢]|确认|请问|请告诉")
_KINDS: tuple[tuple[Asked, AnyScript], ...] = (
    (
        "time",
        AnyScript(
            r"\bwhen\b|what (?:time|day|date)|which (?:day|date|time)|how (?:long|soon)",
            r"什么时[间候]|几点|哪天|几号|多久|多长时间",
        ),
    ),
    (
        "number",
        AnyScript(r"how (?:many|much)|what (?:number|amount|size|price)", "几(?:个|位|人|张|间|天)|多少|多大"),
    ),
    (
        "place",
        AnyScript(
            r"\bwhere\b|(?:what|which) (?:city|area|place|location|town|country|address)",
            r"哪(?:里|儿|个城市|个地方)|什么地方|在哪",
        ),
    ),
    (
        "confirm",
        AnyScript(
            r"(?:^|[.!,;]\s*)(?:is|are|do|does|did|can|could|will|would|shall|should|may|have|has|was)\b[^.!]*\?|"
            r"confirm|(?:correct|right)\?",
            r"吗\s*[?？]|[可行好对]吗|可以吗|是否|要不要|确认",
        ),
    ),
)
_TIME = AnyScript(
    r"\b(?:\d{1,2}(?::\d{2})? ?(?:am|pm|a\.m|p\.m|o'clock)|\d{1,2}:\d{2}|\d{1,2}(?:st|nd|rd|th)|today|tomorrow|tonight|"
    r"yesterday|morning|afternoon|evening|noon|night|(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"(?:next|this|last) (?:week|month|year)|january|february|march|april|june|july|august|september|october|november|"
    r"december|weeks?|days?|hours?|minutes?)\b",
    r"[0-9一二三四五六七八九十两]{1,6}[点号日月年天]|今天|明天|后天|昨天|周[一二三四五六日末]|星期|上午|下午|晚上|中午"
    r"|早上|小时|分钟",
)
_NUMBER = AnyScript(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|both|just me|none)\b",
    r"[一二三四五六七八九十两百千][个位人张间家晚]",
)
_PLACE = AnyScript(r"\b(?:in|at|to|from|near|around|by)\s+(?!the morning|the evening)[^\W\d]", "在|到|去|从")
_GIVEN: Mapping[Asked, AnyScript] = {"time": _TIME, "number": _NUMBER, "place": _PLACE}
"""Patterns that an answer to a question of this kind contains."""


@immutable
class Cues:
    """The shape of one message."""

    length: int
    """Number of words; of Chinese text, of characters."""
    opener: bool
    """Whether the message asks for something to be done: "I need", "can you find", 帮我."""
    greeting: bool
    farewell: bool
    """Whether the message thanks or says goodbye, and little more."""
    reply: bool
    """Whether the message begins as an answer does: "yes", "sure", "that", 好的."""
    refers: bool
    """Whether the message speaks of something known: "it", "another one", 那家."""
    indefinite: bool
    """Whether the message brings something up for the first time: "a table", 一家."""
    question: bool
    text: str
    """The message itself, for cues that are seldom looked at."""

    def gives(self, asked: Asked) -> bool:
        """Whether the message could be an answer to a question of this kind."""
        pattern = _GIVEN.get(asked)
        return self.reply if asked == "confirm" else pattern is not None and pattern.is_in(self.text)

    @property
    def gives_something(self) -> bool:
        """Whether the message could be an answer to a question of any kind."""
        return self.reply or any(map(self.gives, _GIVEN))

    @property
    def short(self) -> bool:
        """Whether the message has no more than a few words."""
        return self.length <= _SHORT_WORDS

    @property
    def requests(self) -> bool:
        """Whether the message asks for something to be done, or asks a question."""
        return self.opener or self.question


def cues_of(cleaned: str) -> Cues:
    """Return the shape of a message. ``cleaned``: see `wording.clean`."""
    length = length_of(cleaned)
    return Cues(
        length=length,
        opener=_OPENER.is_in(cleaned),
        greeting=_GREETING.is_in(cleaned),
        farewell=length <= _FAREWELL_WORDS and _FAREWELL.is_in(cleaned),
        reply=_REPLY.is_in(cleaned),
        refers=_REFERENCE.is_in(cleaned),
        indefinite=_INDEFINITE.is_in(cleaned),
        question=_QUESTION.is_in(cleaned),
        text=cleaned,
    )


def asked_by(text: str) -> Asked:
    """Return the kind of question that an answer asks the person at its end."""
    tail = clean(text[-_TAIL_CHARS:])
    if not _ASKING.is_in(tail):
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.is_in(tail)), "open")


def says_goodbye(cleaned: str) -> bool:
    """Whether an answer ends a conversation: "you're welcome", 不客气."""
    return length_of(cleaned) <= _FAREWELL_WORDS and _FAREWELL.is_in(cleaned) and not _OPENER.is_in(cleaned)
