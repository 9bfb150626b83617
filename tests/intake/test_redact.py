"""Secrets out, everything else untouched."""

import hashlib

import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import InputError
from memplane.intake import Redactor
from memplane.intake.redact import (
    masked_name,
    quoted_value,
    secret_key,
    secrets_in,
    without_secrets,
)
from tests.examples import examples

DEFAULT_PATTERNS = (r"(?i)api_key\s*[:=]\s*\S+", r"(?i)password\s*[:=]\s*\S+")
BUILT_IN = Redactor()
# Made up, and put together here, so that no scanner takes them for real.
GITHUB = "ghp_" + hashlib.sha256(b"made up").hexdigest()[:36]
TOKENS = (
    GITHUB,
    "AKIA" + "QWERTYUIOPASDFGH",
    "hvs." + "Zx9_" * 12,
    "eyJ" + "aB3." * 3 + "eyJ" + "x" * 20,
)
KEY_LINE = "MIIEpAIBAAKCAQEA1c7Kx3QmP0aB9dEfGhIjKlMnOpQrStUvWxYz0123456789+/\n"
DEFAULT = Redactor(DEFAULT_PATTERNS)
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + KEY_LINE * 4
    + "-----END RSA PRIVATE KEY-----"
)


LOGGED = "".join(
    f"2026-01-05 12:00:00 {line}\n"
    for line in PEM.replace("RSA ", "").splitlines()[:1]
    + [KEY_LINE.strip()] * 4
    + ["-----END PRIVATE KEY-----"]
).rstrip("\n")
VALUE = "[redacted:secret-value]"


def masked(text):
    return BUILT_IN.redact(text)[0]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("DB_PASSWORD=hunter2!x9", "DB_PASSWORD=[redacted:secret-value]"),
        ('{"client_secret": "s3cr3tvalue"}', '{"client_secret": "[redacted:secret-value]"}'),
        (r"{\"password\": \"abc123!\"}", r"{\"password\": \"[redacted:secret-value]\"}"),
        ("apiKey := 'k3yk3yk3y'", "apiKey := '[redacted:secret-value]'"),
        ("aws_secret_access_key = wJalr/K7MDENG+bPx", "aws_secret_access_key = [redacted:secret-value]"),
        ("deploy --token a1b2c3d4e5 --now", "deploy --token [redacted:secret-value] --now"),
        ("authToken: 9f8e7d6c5b; next", "authToken: [redacted:secret-value]; next"),
        ("user:master pw:dipPr1!Gg", "user:master pw:[redacted:secret-value]"),
        ("postgres://app:s3cret@db:5432/x", "postgres://app:[redacted:url-password]@db:5432/x"),
        ("redis://:p%40ss@cache/0", "redis://:[redacted:url-password]@cache/0"),
        ("Authorization: Bearer abcDEF123456-_~789", "Authorization: Bearer [redacted:bearer]"),
        ('-H "Authorization: Basic dXNlcjpwYXNz"', '-H "Authorization: Basic [redacted:bearer]"'),
        ("secret=" + "x1" * 3000, "secret=[redacted:secret-value]"),
        (f"a\n{PEM}\nb", "a\n[redacted:private-key]\nb"),
        ('"' + PEM.replace("\n", "\\n") + '"', '"[redacted:private-key]"'),
        (PEM[:200], "[redacted:private-key]"),
        ("\n" + LOGGED, "\n2026-01-05 12:00:00 [redacted:private-key]"),
        (LOGGED[:300], "2026-01-05 12:00:00 [redacted:private-key]"),
        ('val password: String = "exord13Paw64", // x', f'val password: String = "{VALUE}", // x'),
        ('if token != "q4c1a2oPd": pass', f'if token != "{VALUE}": pass'),
        ("define( 'DB_PASSWORD' , 'a1b2c3d4' );", f"define( 'DB_PASSWORD' , '{VALUE}' );"),
        ('set(CURLOPT_USERPWD, "root:dkb82VddSD")', f'set(CURLOPT_USERPWD, "{VALUE}")'),
        ('#define PASSWORD "n84ASM54y4"', f'#define PASSWORD "{VALUE}"'),
        ("MYSQLPASS: Ce7shE0ENPiBl", f"MYSQLPASS: {VALUE}"),
        ("DB_PSWD=d37Yt1Jnv0-z", f"DB_PSWD={VALUE}"),
        ('{"password": "dkajco1"}', f'{{"password": "{VALUE}"}}'),
        ("your API key: a1b2c3d4e5f6", f"your API key: {VALUE}"),
        ('--oauth2-bearer "eZs2fjkjD8hU" x', f'--oauth2-bearer "{VALUE}" x'),
        ("CREATE USER a IDENTIFIED BY 'SqLpasSword';", f"CREATE USER a IDENTIFIED BY '{VALUE}';"),
        ("ALTER ROLE a LOGIN PASSWORD x9y8z7w6;", f"ALTER ROLE a LOGIN PASSWORD {VALUE};"),
        ('curl -X PUT -u "admin:s3cret" http://h', f'curl -X PUT -u "admin:{VALUE}" http://h'),
        ("mysqldump -u root -ps3cret1 shop", f"mysqldump -u root -p{VALUE} shop"),
        ("sshpass -p 's3cret1' ssh a@b", f"sshpass -p '{VALUE}' ssh a@b"),
        ("<password>s3cret-word</password>", f"<password>{VALUE}</password>"),
        ('<add key="Password" value="pa~55word" />', f'<add key="Password" value="{VALUE}" />'),
        ("- name: DB_PASSWORD\n  value: s3cretword", f"- name: DB_PASSWORD\n  value: {VALUE}"),
        (
            "https://h/api.js?key=" + "aB3d" * 10 + "&v=2",
            "https://h/api.js?key=[redacted:url-password]&v=2",
        ),
        ("smtps://me@mail.example:F83JZs9q@smtp.example", "smtps://me@mail.example:[redacted:url-password]@smtp.example"),
        ("Authorization: NTLM TlRMTUAAABABoITV", "Authorization: NTLM [redacted:bearer]"),
        ('{"kty": "EC", "d": "' + "aB3-_" * 8 + '"}', '{"kty": "EC", "d": "[redacted:private-key]"}'),
    ],
)  # fmt: skip
def test_a_secret_that_only_its_surroundings_give_away_is_masked_and_they_stay(text, after):
    assert masked(text) == after


@pytest.mark.parametrize(
    "text",
    [
        "The password must be at least eight characters, and the secret: nobody knows it.",
        "/home/someone/project/src/components/authentication/token_manager/index.test.tsx",
        "C:\\Users\\someone\\AppData\\Local\\Programs\\Python\\Python311\\python.exe",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit d670460b4b4aece5915caf5c68d12f560a9fe3e4",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "toolu_01A09q90qw90lq917835lq9 call_abc123DEF456ghi789JKL012 msg_01VescHdQxYDNo8wa1nSojFK",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "key: restore-key-d41d8cd98f00b204e9800998ecf8427e",
        "token = getToken(request)",
        "token: str | None = None",
        "password: string; passwordConfirmation: string",
        "secret: ${{ secrets.DEPLOY_TOKEN_2 }} or $SECRET_42 or <your-secret-1>",
        'api_key=os.environ["OPENAI_API_KEY"]',
        "max_tokens=4096, token_count: 123456, tokens: 1200345",
        "author: jane2024x, monkey=banana123456",
        "--- PASS: TestParse_v2Nested (0.01s)",
        "http://localhost:8080/@scope/pkg and mailto:me@example.com, git@github.com:org/repo.git",
        "https://user:${PASSWORD}@example.com",
        "Bearer authentication-is-explained-below",
        "// auto-commit checkpoints (identified by strategy in metadata)",
        'AddCheckpoint("Add authentication", "src/file1.ts")',
        'APIKey: "test-key", token: "fake_token_1"',
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "docker run -u 1000:1000 -p 8080:80 mysql",
        "curl -sS https://example.com/a?page=2&per_page=100",
        "- name: LOG_LEVEL\n  value: debug-verbose",
        "s.handleCheckpointCreation(ctx) and s.maybeCondenseAndMarkEnded",
        "the users identified as needing help signed in with the role password reset",
        "<tokenizer>sentencepiece</tokenizer>",
        "if '-----BEGIN PRIVATE KEY-----' in text:",
        "-----BEGIN CERTIFICATE-----\nMIIB" + "A" * 60 + "\n-----END CERTIFICATE-----",
        "Grüße aus Zürich, 東京, и Москва; naïve café",
        "",
    ],
)
def test_paths_hashes_ids_code_and_prose_stay_as_they_are(text):
    assert BUILT_IN.redact(text) == (text, {})


def test_policy_patterns_come_first_and_mask_all_that_they_match():
    assert DEFAULT.redact("API_KEY = abc and Password: x") == (
        "[redacted:policy-1] and [redacted:policy-2]",
        {"policy-1": 1, "policy-2": 1},
    )
    token = GITHUB
    assert DEFAULT.redact(f"password={token}")[1] == {"policy-2": 1}


def test_a_policy_pattern_finds_what_ignoring_case_makes_equal_beyond_ascii():
    assert DEFAULT.redact("pa\u017f\u017fword=x")[0] == "[redacted:policy-2]"
    assert DEFAULT.redact("AP\u0130_\u212aEY=x")[0] == "[redacted:policy-1]"


def test_a_policy_pattern_that_meets_a_mark_takes_it_in_whole():
    assert (
        Redactor((r"secret \S+",)).redact("secret a[redacted:jwt]b c")[0] == "[redacted:policy-1] c"
    )
    assert Redactor(("dact",)).redact("[redacted:jwt]")[0] == "[redacted:policy-1]"


def test_a_policy_pattern_that_matches_nothing_changes_nothing():
    assert Redactor(("x*",)).redact("abc") == ("abc", {})
    assert Redactor(("x*",)).redact("axxb") == ("a[redacted:policy-1]b", {"policy-1": 1})


def test_a_pattern_that_is_no_regular_expression_is_named_by_its_place():
    with pytest.raises(InputError) as error:
        Redactor(("fine", "(broken"))
    assert error.value.where == "redact_patterns[1]"


SCRAPS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(TOKENS),
    st.sampled_from(
        ["password", "api_key", "secret", "token", "=", ": ", '"', "'", "\\n", " ", "\n", "://", "user:", "@h",
         "Bearer ", "Authorization: Basic ", "[redacted:jwt]", "[redacted:", "]", "-----BEGIN PRIVATE KEY-----",
         "-----END PRIVATE KEY-----", "hunter2!x9", "--token ", "%3D", "-", "_", ".", "/", PEM]
    ),
)  # fmt: skip
TEXTS = st.lists(SCRAPS, max_size=8).map("".join)
ODD = Redactor((r"\w+$", r"[a-f]{3}", "redacted", r"^.", r"\S+\]"))


@settings(max_examples=examples(133), deadline=None)
@given(TEXTS)
def test_redacting_twice_always_gives_what_redacting_once_gave(text):
    for redactor in (BUILT_IN, DEFAULT, ODD):
        once, counts = redactor.redact(text)
        assert redactor.redact(once) == (once, {})
        assert (once == text) == (not counts)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.dictionaries(
        TEXTS,
        st.recursive(
            TEXTS | st.integers(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_redacting_data_twice_always_gives_what_once_gave_and_loses_no_value(data):
    once, _ = DEFAULT.redact_data(data)
    assert DEFAULT.redact_data(once) == (once, {})
    assert len(once) == len(data)


def test_in_data_the_values_of_secret_looking_keys_are_masked_by_whole_parts_of_the_key():
    data = {
        "password": "correcthorse",
        "dbPassword": "correcthorse",
        "x-auth-data": "abcdefgh",
        "headers": {"Authorization": "abcdefgh", "Accept": "application/json"},
        "credentials": ["abcdefgh", 12345678],
        "author": "abcdefgh",
        "token_type": "abcdefgh",
        "max_tokens": "abcdefgh",
        "token": "two words",
        "secret": "short",
        "auth": "/etc/app/auth.json",
        "api_key": "$API_KEY",
        "note": "see " + GITHUB,
    }
    mark = "[redacted:secret-value]"
    once, counts = BUILT_IN.redact_data(data)
    assert once == {
        **data,
        "password": mark,
        "dbPassword": mark,
        "x-auth-data": mark,
        "headers": {"Authorization": mark, "Accept": "application/json"},
        "credentials": [mark, 12345678],
        "note": "see [redacted:github-token]",
    }
    assert counts == {"secret-value": 5, "github-token": 1}


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("password", True), ("apiKey", True), ("API-KEY", True), ("clientSecret", True), ("auth", True),
        ("GITHUB_TOKEN", True), ("signing_key", True), ("author", False), ("key", False), ("tokens", False),
        ("secret_name", False), ("tokenizer", False), ("primary_key", False), ("", False), ("авто", False),
    ],
)  # fmt: skip
def test_a_key_is_judged_by_its_whole_parts(key, is_one):
    assert secret_key(key) is is_one


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(50_000, marks=pytest.mark.timeout(20)),
        pytest.param(200_000, marks=pytest.mark.long),
        pytest.param(1_000_000, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    "piece",
    [
        "a", "ey", "-ey", "key=", "password", "password=", "token:", "://", "://a:", "://a:b", "sk-", "xox",
        "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaa.", "Bearer ", "ghp_", "glpat-", '"', "key='", "\\n",
        "A" * 15 + ".atlasv1.", "SG.", "0", "[redacted:", "pw:", "--token ", "%3D", "-us", ":AA",
        "curl -u a:", "curl ", "mysql -p", "<password>", "name: password\n", "value=", "identified by ", "role ",
        "login password ", "?key=", "api key ", "key ", "password\\t", "token, ", '"d":', "convertto-securestring ",
        "-----BEGIN PRIVATE KEY-----\n2026 ", '"kty" "d": "', "\x1b[3m", "s.", "hooks", "password: String = ",
    ],
)  # fmt: skip
def test_a_long_hostile_text_is_worked_off_and_stays_stable(piece, size):
    # The pytest timeout is the bound: a pattern that backtracks would not come back. A quarter of
    # the text has a sixteenth of the time.
    text = piece * (size // len(piece))
    DEFAULT.redact(text)
    once, _ = DEFAULT.redact(text[: min(size // 10, 20_000)])
    assert DEFAULT.redact(once)[0] == once


def test_shown_values_are_short_and_hold_no_token():
    token = GITHUB
    assert quoted_value(token) == "'[redacted:github-token]'"
    assert len(quoted_value("x" * 10_000)) == 60
    assert quoted_value("\ud800") == "'\\ud800'"


def test_a_value_is_masked_before_it_is_cut_so_that_no_beginning_of_a_token_is_shown():
    for before in range(0, 160, 3):
        for most in (60, 80, 160):
            text = quoted_value("." * before + GITHUB, most)
            assert GITHUB[:8] not in text
            assert len(text) <= most


def test_a_masked_token_before_a_key_does_not_move_what_the_key_masks():
    text = f"{GITHUB} then DB_SECRET=abc123def456 stays=here"
    for redactor in (BUILT_IN, Redactor(("then",))):
        assert redactor.redact(text)[0].endswith(" DB_SECRET=[redacted:secret-value] stays=here")
    assert BUILT_IN.redact(text)[1] == {"github-token": 1, "secret-value": 1}


@settings(max_examples=examples(33), deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["tool", "password", "path", "api_key", "note", "sk-" + "a1B2" * 8]),
            st.sampled_from(["ok", "src/a.py", "hunter2-Xy7!", "Read", "ghp_" + "a1B2" * 9]),
        ),
        max_size=6,
    )
)
def test_what_a_redactor_saw_before_never_changes_its_answer(values):
    seasoned = Redactor(())
    for value in values:
        assert seasoned.redact_data(value) == Redactor(()).redact_data(value)
        for name in (*value, *value.values()):
            for _ in range(2):
                assert seasoned.in_name(name) == Redactor(()).in_name(name)


@pytest.mark.parametrize("odd", ["…", "漢字", "\u0130", "\u017f", "\u212a", "é\U0001f600"])
def test_letters_beyond_ascii_change_nothing_of_what_is_masked_beside_them(odd):
    for text in (
        "DB_PASSWORD=hunter2!x9", '{"client_secret": "s3cr3tvalue"}', "postgres://app:s3cret@db:5432/x",
        '-H "Authorization: Basic dXNlcjpwYXNz"', "<password>s3cret-word</password>", PEM, f"use {GITHUB} now",
        "- name: DB_PASSWORD\n  value: s3cretword", "mysqldump -u root -ps3cret1 shop", "sshpass -p 's3cret1' ssh a@b",
        "CREATE USER a IDENTIFIED BY 'SqLpasSword';", '{"kty": "EC", "d": "' + "aB3-_" * 8 + '"}',
    ):  # fmt: skip
        once, counts = BUILT_IN.redact(text)
        assert counts
        assert BUILT_IN.redact(f"{odd} {text} {odd}") == (f"{odd} {once} {odd}", counts)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('client.token("a1b2c3d4e5")', f'client.token("{VALUE}")'),
        ('setPassword("a1b2-c3d4")', f'setPassword("{VALUE}")'),
        ('PASSWORD("a1b2c3d4")', f'PASSWORD("{VALUE}")'),
        ("Pass=Ab1_cd2ef", f"Pass={VALUE}"),
        ("x.pass=a1b2-c3d4", f"x.pass={VALUE}"),
        ("password=12345678", f"password={VALUE}"),
        ('params[:token] = "a1b2c3d4"', f'params[:token] = "{VALUE}"'),
        (
            "echo s3cr3tx9 | sudo -S id; curl -u app:hunter2x9 x; echo a1b2c3d4 | sudo -S id",
            f"echo {VALUE} | sudo -S id; curl -u app:{VALUE} x; echo {VALUE} | sudo -S id",
        ),
        ("openssl pkcs12 -passin pass:hunter2x", f"openssl pkcs12 -passin pass:{VALUE}"),
    ],
)
def test_a_value_that_was_chosen_is_masked_behind_each_way_to_set_it(text, after):
    assert masked(text) == after


@pytest.mark.parametrize(
    "text",
    [
        'getToken("a1b2c3d4e5")',
        'setPassword("abc_def")',
        'setPassword("a1/b2c3d4")',
        '"auth0": "auth0-python9"',
        'names["token"] == "abc_def"',
        'names[token] = "a1b2c3d4"',
        "token=foo.bar1",
        "PASSWORD=some_name",
        "pass=ab-12cd",
        "openssl pkcs12 -passin file:/etc/keys/a1b2",
    ],
)
def test_what_asks_for_a_secret_or_names_where_it_is_stays(text):
    assert masked(text) == text


def test_a_text_under_a_secrets_key_is_masked_as_a_whole_where_somebody_chose_it():
    assert BUILT_IN.redact_value("db.password", " hunter2!x9 ") == (VALUE, {"secret-value": 1})
    assert BUILT_IN.redact_value("db.password", "12345678")[0] == VALUE
    assert BUILT_IN.redact_value("api.token", "qwzxkjvbpqwzxkjvb")[0] == VALUE
    assert BUILT_IN.redact_value("db.engine", "hunter2!x9")[0] == "hunter2!x9"
    for key, text in (
        ("api.token", "12345678"),
        ("api.token", "PostgreSQL"),
        ("api.token", "none"),
    ):
        assert BUILT_IN.redact_value(key, text) == (text, {})


def test_items_of_a_list_that_are_named_by_the_one_before_are_masked():
    for name in ("X-Api-Key", "--token"):
        assert BUILT_IN.redact_data([name, "q4c1a2oPd9"])[0] == [name, VALUE]
    assert BUILT_IN.redact_data(["--token", "of-a-name"])[0] == ["--token", "of-a-name"]
    assert BUILT_IN.redact_data({"password": "blue horse 42 battery"})[0] == {"password": VALUE}
    assert BUILT_IN.redact_data({"password": 12345678})[0] == {"password": VALUE}
    assert BUILT_IN.redact_data({"password": 1234, "tokens": 12345678})[1] == {}
    assert BUILT_IN.redact_data({"password": "must have 8 characters"})[1] == {}


def test_of_a_name_for_people_a_password_or_token_is_masked_wherever_it_stands():
    assert masked_name("host/app") == "host/app"
    assert masked_name("host/password=hunter2x9") == f"host/password={VALUE}"
    assert "hunter" not in masked_name("a%3a//app:hunter2x9@host")
    assert BUILT_IN.in_name("seed=hunter2x9") == {}
    # A character without a width tears the token, which is found all the same.
    torn = f"{GITHUB[:20]}\u200b{GITHUB[20:]}"
    assert GITHUB[20:] not in masked_name(f"a/{torn}")


def test_secrets_are_taken_out_of_an_error_with_the_beginnings_of_those_that_were_cut_off():
    text = f"password=hunter2!x9 and {GITHUB} under " + '{"token": "a1b2c3d4e5"}'
    secrets = secrets_in(text)
    assert secrets == [GITHUB, "a1b2c3d4e5", "hunter2!x9"]
    assert secrets_in("nothing of the sort") == []
    error = f"could not read hunter2!x9, nor {GITHUB[:20]}"
    assert without_secrets(error, secrets) == f"could not read {VALUE}, nor {VALUE}"
    assert without_secrets("could not read it", secrets) == "could not read it"
    data, taken = {"password": "blue horse 42", "n": [PEM]}, []
    BUILT_IN.redact_data(data, taken)
    assert sorted(taken) == sorted(["blue horse 42", PEM])


def test_a_redactor_answers_the_same_after_ten_thousand_names_and_texts():
    redactor = Redactor()
    names = [f"session-{number}" for number in range(10_001)]
    assert not any(map(redactor.in_name, names))
    assert redactor.redact_data(names) == (names, {})
    assert redactor.in_name(GITHUB)
    assert redactor.redact_data({names[0]: GITHUB, "password": "hunter2!x9"})[0] == {
        names[0]: "[redacted:github-token]",
        "password": VALUE,
    }


def test_a_pattern_that_meets_one_mark_twice_takes_it_in_once():
    text, counts = Redactor((r"eda|cte",)).redact("a [redacted:jwt] b")
    assert text == "a [redacted:policy-1] b"
    assert set(counts) == {"policy-1"}


def test_what_leaves_the_plane_is_masked_however_often_it_does(monkeypatch):
    monkeypatch.setattr("memplane.intake.redact._EMITTED_MAX", 200)
    redactor = Redactor()
    texts = [f"{'a text ' * 5}{number}" for number in range(9)] + [f"token {GITHUB}", "x" * 70_000]
    for text in texts * 3:
        assert redactor.emitted(text) == redactor.redact(text)[0]
    assert GITHUB not in redactor.emitted(f"token {GITHUB}")
