"""``GET /pentad.js`` and ``/pentad.d.ts``: pages and compilers load the client from any gateway, without a key."""

import hashlib

import httpx2
import pytest

from tests.integration.gateway.conftest import NO_TLS, running
from tests.support.processes.up import ROOT

CLIENT = ROOT / "clients" / "js"


@pytest.mark.parametrize(("name", "kind"), [("pentad.js", "text/javascript"), ("pentad.d.ts", "text/plain")])
async def test_the_client_is_served_as_it_is_once_per_version(redis_url: str, name: str, kind: str) -> None:
    async with (
        running(redis_url, pentad_api_keys="ka:acme", pentad_cors_origins="https://app.example") as gateway,
        httpx2.AsyncClient(base_url=gateway.address, verify=NO_TLS, trust_env=False) as http,
    ):
        got = await http.get(f"/{name}", headers={"Origin": "https://app.example"})
        assert (got.status_code, got.content) == (200, (CLIENT / name).read_bytes())
        assert got.headers["content-type"] == f"{kind}; charset=utf-8"
        assert (got.headers["cache-control"], got.headers["x-content-type-options"]) == ("no-cache", "nosniff")
        assert got.headers["access-control-allow-origin"] == "https://app.example"
        etag = got.headers["etag"]
        assert etag == f'"{hashlib.sha256(got.content).hexdigest()[:32]}"'
        for known in (etag, f"W/{etag}", f'"other", {etag}'):
            again = await http.get(f"/{name}", headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert (await http.get(f"/{name}", headers={"If-None-Match": '"other"'})).status_code == 200
        assert (await http.head(f"/{name}")).headers["etag"] == etag
        assert (await http.post(f"/{name}")).status_code == 405
