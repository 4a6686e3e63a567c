"""What is wrong with livedex.toml is said in one line, of the source or subscriber by its name,
with what is allowed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import load_settings

WEBHOOK = (
    '[[source]]\nname = "other"\npath = "."\n[[source]]\nname = "crm"\nkind = "webhook"\n'
    'secret_env = "S"\npreset = "github-push"\n'
)
FOLDER = '[[source]]\nname = "notes"\npath = "."\n'
SUBSCRIBER = '[[subscriber]]\nname = "shop"\n'


def refusal(tmp_path: Path, content: str) -> str:
    (tmp_path / "livedex.toml").write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path, {})
    said = str(refused.value)
    assert (
        "\n" not in said
        and "Input should" not in said
        and "uple" not in said
        and "Extra inputs" not in said
    )
    return said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (WEBHOOK + 'acl = "group:x"', 'source crm: acl must be a list: write ["group:x"]'),
        (FOLDER + 'acl = "group:x"', 'source notes: acl must be a list: write ["group:x"]'),
        (FOLDER + 'include = "*.md"', 'source notes: include must be a list: write ["*.md"]'),
        (
            WEBHOOK + 'exclud = ["a"]',
            "source crm: exclud is not a setting: did you mean exclude? Known settings: acl, ",
        ),
        (
            FOLDER + 'include = ["./guides/**"]',
            "source notes: include contains a glob that matches no path: globs are relative to "
            'the top folder, as in include = ["guides/**"]',
        ),
        (FOLDER + 'include = ["!drafts/**"]', "source notes: include contains only exceptions"),
        (FOLDER + 'exclude = [""]', "source notes: exclude contains a glob that matches no path"),
        (
            FOLDER + 'exclud = ["a"]',
            "source notes: exclud is not a setting: did you mean exclude? Known settings: acl, ",
        ),
        (WEBHOOK + 'colour = "red"', "source crm: colour is not a setting: Known settings: acl, "),
        (
            WEBHOOK + 'path = "."',
            'source crm: path is not a setting of kind = "webhook", but of kind = "folder"',
        ),
        (
            FOLDER + 'preset = "s3"',
            'source notes: preset is not a setting of kind = "folder", but of kind = "webhook"',
        ),
        (
            WEBHOOK + 'signature = "rsa"',
            "source crm: signature must be one of 'standard-webhooks', 'github', 'gitlab', 'hmac' "
            "or 'token' (got 'rsa')",
        ),
        (
            WEBHOOK.replace("github-push", "jira"),
            "source crm: preset must be one of 'github-push', ",
        ),
        (
            WEBHOOK + "max_bytes = 0",
            "source crm: max_bytes must be greater than or equal to 1 (got 0)",
        ),
        (WEBHOOK.replace('secret_env = "S"\n', ""), "source crm: secret_env is missing"),
        (WEBHOOK.replace('"S"', "[]"), "source crm: secret_env is empty: set at least 1"),
        (WEBHOOK.replace('"crm"', '"a/b"'), "source a/b: name must be a text without slashes"),
        (WEBHOOK.replace('name = "crm"\n', ""), "source number 2: name is missing"),
        (WEBHOOK + 'exclude = ["a", 5]', "source crm: exclude.2 must be a valid string"),
        (WEBHOOK + 'metadata = "x"', "source crm: metadata must be a table"),
        (
            WEBHOOK.replace(
                'preset = "github-push"',
                'signature = "github"\nmap = { document_id = "id", txt = "x" }',
            ),
            "source crm: map.txt is not a setting: did you mean text?",
        ),
        (
            WEBHOOK.replace('preset = "github-push"', 'signature = "github"\nmap = { text = "x" }'),
            "source crm: map.document_id is missing",
        ),
        (WEBHOOK + 'branch = "refs/heads/x"', "source crm: branch must be the name of one branch"),
        (SUBSCRIBER + "events = []", "subscriber shop: events is empty: set at least 1"),
        (
            SUBSCRIBER + 'events = ["sync"]',
            "subscriber shop: events.1 must be one of 'synced', 'deleted' or 'dead' (got 'sync')",
        ),
        (
            SUBSCRIBER + 'event = ["synced"]',
            "subscriber shop: event is not a setting: did you mean events? Known settings: ",
        ),
        (
            SUBSCRIBER + "attempts = 11",
            "subscriber shop: attempts must be less than or equal to 10 (got 11)",
        ),
        (SUBSCRIBER + "keep_days = 0", "subscriber shop: keep_days must be greater than 0"),
        (SUBSCRIBER + 'url = "http://x"', "subscriber shop: notifications need a signature"),
        ("[[subscriber]]\nattempts = 5", "subscriber number 1: name is missing"),
        ('source = "notes"', "source must be a list of tables: write [[source]]"),
        ("sources = []", "sources is not a setting: did you mean [[source]]?"),
        ("[[sources]]\nname = 1", "sources is not a setting: did you mean [[source]]?"),
        ("[[subscribers]]", "subscribers is not a setting: did you mean [[subscriber]]?"),
        ("chunksize = 5", "chunksize is not a setting: did you mean chunk_size?"),
        ("[kafa]\nprefix = 1", "kafa is not a setting: did you mean [kafka]?"),
        ("source = 3", "source must be a list of tables: write [[source]]"),
        ('source = ["notes"]', "source number 1 must be a table: write [[source]]"),
        ("subscriber = [1]", "subscriber number 1 must be a table: write [[subscriber]]"),
        ("jwt = true", "jwt must be a table: write [jwt]"),
        ("kafka = 3\nkafka_sasl_username = 'x'", "kafka must be a table: write [kafka]"),
        (
            WEBHOOK.replace("secret_env", "secret_evn"),
            "source crm: secret_evn is not a setting: did you mean secret_env?",
        ),
        (
            "kafka_sasl_user = 5",
            "kafka_sasl_user is not a setting: did you mean kafka_sasl_username?",
        ),
        ("chunk_siez = 5", "chunk_siez is not a setting: did you mean chunk_size?"),
        ('chunk_size = "many"', "LIVEDEX_CHUNK_SIZE: "),
    ],
)
def test_a_problem_is_told_by_name_with_what_is_allowed(
    tmp_path: Path, content: str, said: str
) -> None:
    assert refusal(tmp_path, content).startswith(said)


@pytest.mark.parametrize(
    "line",
    [
        'secret = "s3cr3t"',
        'secret_env = { a = "s3cr3t" }',
        'token = "s3cr3t"',
        'token_env = ["s3cr3t"]',
    ],
)
def test_what_may_be_a_secret_is_not_repeated(tmp_path: Path, line: str) -> None:
    content = (
        WEBHOOK.replace('secret_env = "S"\n', "") if line.startswith("secret_env") else WEBHOOK
    )
    assert "s3cr3t" not in refusal(tmp_path, content + line)
    assert "s3cr3t" not in refusal(tmp_path, SUBSCRIBER + line.replace("token_env", "url"))
