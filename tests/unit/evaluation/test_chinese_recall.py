"""Chinese conversations are recalled by the same functions, without a model."""

from pathlib import Path

import pytest

from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.evaluation.conversations import AskedQuestion, RecordedConversation, RecordedTask
from tests.evaluation.recalling import ArchivedConversation

SAID = """
小明：我上周在里斯本收养了一只猫。
小红：它叫什么名字？
小明：叫米米，跟我姨妈同名。
小红：我家的船刚刷成了绿色。
小明：周末要不要一起去划船？
小红：好啊，我带三明治。
小明：我换工作了，现在在一家出版社当编辑。
小红：恭喜！以前的公司呢？
小明：去年十月就离开了。
小红：我在学法语，每天晚上学一个小时。
小明：我妹妹昨天结婚了。
小红：婚礼在哪里办的？
小明：在海边的一家小酒店。
小红：我读完了《红楼梦》，很喜欢。
小明：我最近睡得不好。
小红：少喝点咖啡吧。
""".strip().splitlines()


def conversation() -> RecordedConversation:
    spoken = [line.split("：", 1) for line in SAID]
    messages = [
        {"role": "user", "name": who, "content": text, "at": "2030-01-31T12:00:00.000Z"} for who, text in spoken
    ]
    turns = tuple(str(number) for number in range(len(messages)))
    return RecordedConversation("zh", (RecordedTask("task-0-0", tuple(messages), turns),), ())


@pytest.mark.parametrize(
    ("asked", "turn"),
    [
        ("小红的船是什么颜色？", "3"),
        ("小明什么时候离开以前的公司？", "8"),
        ("小明的猫叫什么？", "2"),
        ("小明的妹妹在哪里办婚礼？", "12"),
        ("谁读过红楼梦？", "13"),
        ("小红在学什么语言？", "9"),
    ],
)
async def test_the_answer_is_among_the_first_three(asked: str, turn: str, tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path / "vectors")
    memory = ArchivedConversation(HashingEmbedding(), vectors, "zh")
    await memory.archive(conversation())
    recalled = await memory.ask("zh", AskedQuestion(asked, "zh", frozenset({turn})))
    await vectors.aclose()
    assert turn in recalled.fused[:3]
