"""What docs/operate.md says of the settings and the secrets is what the code and the manifests say."""

from tests.support.documents.manifests import containers, read_base
from tests.support.documents.settings_table import OPERATE, table, written


def test_the_table_of_settings_is_todays() -> None:
    assert written() == table(), "run: python -m tests.support.documents.settings_table"


def test_the_secret_that_the_operator_makes_has_every_key_that_pods_need() -> None:
    text = OPERATE.read_text()
    sources = [
        variable["valueFrom"]["secretKeyRef"]
        for _, _, container in containers(read_base()[1])
        for variable in container["env"]
    ]
    needed = {source["key"] for source in sources}
    assert [key for key in sorted(needed) if f"--from-literal={key}=" not in text] == []
