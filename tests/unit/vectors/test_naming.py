"""A collection's name says its model and dimension, whatever the model is called."""

import pytest

from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import collection_name


def test_a_name_can_be_read_and_is_the_same_every_time() -> None:
    assert collection_name("all-MiniLM-L6-v2", 384) == collection_name("all-MiniLM-L6-v2", 384)
    assert collection_name("all-MiniLM-L6-v2", 384).startswith("memory-all-minilm-l6-v2-")
    assert collection_name("all-MiniLM-L6-v2", 384).endswith("-384")


def test_models_and_dimensions_that_differ_have_collections_that_differ() -> None:
    models = ["a/b", "a-b", "A-B", "a_b", "模型", "other", ""]
    assert len({collection_name(model, size) for model in models for size in (3, 4)}) == 14


@pytest.mark.parametrize("model", ["../../etc", "x" * 500, "模型", "", "\ud800", "a b\nc"])
def test_every_model_gives_a_name_that_can_be_used(model: str) -> None:
    check_name(collection_name(model, 4096))
