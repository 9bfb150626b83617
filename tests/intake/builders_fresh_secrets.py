"""Secrets made anew from a seed, in the forms in which people, tools and clients write them.

`forms(seed)` gives (name, text, secret) for every rule of the redactor; `CONTEXTS` are what may
stand around such a text. Nothing here is anybody's: a scanner that finds a form finds nothing that
opens a door.
"""

import base64
import json
import random
import string
import textwrap
from urllib.parse import quote

from builders_secrets import tokens

LETTERS = string.ascii_letters
DIGITS = string.digits


class Fresh(random.Random):
    """Draws the parts of secrets."""

    def of(self, alphabet, n):
        return "".join(self.choice(alphabet) for _ in range(n))

    def alnum(self, n):
        """Letters and digits, at least one of each."""
        made = self.of(LETTERS + DIGITS, n - 3)
        return (
            made
            + self.choice(string.ascii_lowercase)
            + self.choice(DIGITS)
            + self.choice(string.ascii_uppercase)
        )

    def pw(self):
        """A password of letters and digits."""
        return self.alnum(self.randint(12, 20))

    def low(self):
        """Small letters and digits."""
        return (
            self.of(string.ascii_lowercase + DIGITS, 10)
            + self.choice(string.ascii_lowercase)
            + self.choice(DIGITS)
        )

    def marked(self):
        """A password with signs that end nothing."""
        return self.alnum(6) + self.choice("!^*+-.:_~") + self.alnum(6) + self.choice("!+-_~.")

    def letters(self, n=20):
        return self.of(LETTERS, n)

    def hexa(self, n):
        return self.of("0123456789abcdef", n)

    def b64(self, n):
        return base64.b64encode(self.randbytes(n)).decode()

    def uuid(self):
        h = self.hexa
        return f"{h(8)}-{h(4)}-4{h(3)}-a{h(3)}-{h(12)}"


def pem(fresh, name="RSA ", lines=8):
    rows = textwrap.wrap(fresh.b64(48 * lines), 64)
    return f"-----BEGIN {name}PRIVATE KEY-----", rows, f"-----END {name}PRIVATE KEY-----"


def put(value):
    """How JSON writes a string, without its quotes, with escapes for slashes."""
    return json.dumps(value)[1:-1].replace("/", "\\/")


# What takes one value: `{}` is where the secret stands, the letter says how it is drawn.
LINES = {
    "pw": r"""
DB_PASSWORD={}
DB_PASS={}
SMTP_PASS={}
export API_KEY={}
export API_TOKEN="{}"
MYSQL_ROOT_PASSWORD: {}
client_secret = '{}'
aws_secret_access_key = {}
os.environ["API_KEY"] = "{}"
os.environ['DB_PASSWORD'] = '{}'
config["secret"] = "{}"
$config['password'] = '{}';
ENV["API_TOKEN"] = "{}"
process.env.API_TOKEN = "{}"
params[:password] = "{}"
app.config['SECRET_KEY'] = '{}'
settings.setPassword("{}")
ds.setPassword("{}");
builder.apiKey("{}")
client.withToken('{}')
login(password="{}")
{{"password": "{}"}}
{{"password":"{}"}}
{{'api_key': '{}'}}
{{\"password\": \"{}\"}}
"token":\n  "{}"
password: >-\n  {}
password: |\n    {}
api_token:\n  {}
secret: "{}"
<password>{}</password>
<property name="db.password">{}</property>
<entry key="password">{}</entry>
<string name="api_key">{}</string>
<property name="password" value="{}"/>
<key>password</key>\n<string>{}</string>
- name: DB_PASSWORD\n  value: {}
{{"name": "API_TOKEN", "value": "{}"}}
ENV API_TOKEN {}
ARG API_TOKEN {}
setx API_TOKEN {}
set -x API_TOKEN {}
set -gx API_TOKEN {}
SetEnv API_TOKEN {}
aws configure set aws_secret_access_key {}
aws configure set aws_session_token {} --profile dev
npm config set //registry.example.org/:_authToken {}
//registry.example.org/:_authToken={}
git config --global github.token {}
machine api.example.com login me password {}
machine api.example.com\n  login me\n  password {}
requirepass {}
docker login -u me -p {} registry.example.com
docker login --username me --password {} registry.example.com
podman login -u me -p {} quay.io
helm registry login -u me -p {} r.example.com
oc login -u me -p {}
az login -u me@example.com -p {}
ldapsearch -x -D cn=admin -w {} -b dc=x
ldapmodify -D cn=admin -w {}
zip -r -P {} out.zip folder
unzip -P {} out.zip
7z x -p{} out.7z
smbclient //host/share -U bob%{}
mysql -u root -p{} shop
mysqldump --password={} shop
mongodump -u me -p {} --db x
sshpass -p {} ssh me@host
redis-cli -h h -a {} ping
PGPASSWORD={} psql -h db
curl -u me:{} https://api.example.com/
curl --user "me:{}" https://api.example.com/
http -a me:{} GET https://api.example.com
wget --user=me --password={} https://e.example.com
openssl rsa -in k.pem -passin pass:{}
keytool -list -storepass {} -keystore k.jks
plink -pw {} me@host
sqlcmd -S db -U sa -P {}
twine upload -u me -p {} dist/*
gh secret set DEPLOY_TOKEN --body {}
gh secret set DEPLOY_TOKEN -b"{}"
vault kv put secret/app password={}
kubectl create secret generic s --from-literal=password={}
dotnet user-secrets set "Api:Token" "{}"
gpg --batch --passphrase {} -c file
echo {} | sudo -S ls
echo {} | docker login -u me --password-stdin
postgres://app:{}@db:5432/x
mongodb+srv://me:{}@cluster0.example.net/x
redis://:{}@cache/0
amqps://me:{}@mq/vhost
https://me:{}@github.com/a/b.git
ftp://me@mail.example:{}@host/
Authorization: Bearer {}{}
-H "Authorization: Basic {}{}"
Authorization: SSWS {}{}
Authorization: token {}{}
"Authorization": "ApiKey {}{}"
X-Api-Key: {}
x-auth-token: {}
Cookie: sessionid={}{}; theme=dark
Set-Cookie: JSESSIONID={}{}; Path=/
Cookie: a=b; connect.sid=s%3A{}{}
https://api.example.com/v1?api_key={}{}&page=2
https://h.example.com/cb?access_token={}{}
Server=db;Database=x;User Id=sa;Password={};Encrypt=true
jdbc:mysql://db/x?user=me&password={}
CREATE USER a IDENTIFIED BY '{}';
ALTER ROLE a WITH LOGIN PASSWORD '{}';
SET PASSWORD FOR a = PASSWORD('{}');
--token {}
--api-key={}
--oauth2-bearer "{}"
password={}
passwd: {}
my password is: {}
the api key: {}
API_SECRET={}&{}
#define PASSWORD "{}"
const password: string = "{}";
val apiKey = "{}"
if token != "{}": pass
define( 'DB_PASSWORD' , '{}' );
var secret := "{}"
password => '{}'
:password => "{}"
_password="{}"
spring.datasource.password={}
hibernate.connection.password={}
ansible_become_pass: {}
SENTRY_AUTH_TOKEN={}
psk="{}"
enable secret 5 {}
identity_pool_secret = {}
aws.secretKey={}
auth_token: "{}"
""",
    "low": r"""
DB_PASS={}
SMTP_PASS={}
REDIS_PASSWORD={}
mail.pass={}
""",
    "marked": r"""
DB_PASSWORD={}
password: "{}"
"client_secret": "{}"
postgres://app:{}@db:5432/x
ADMIN_PASS='{}'
""",
    "letters": r"""
API_TOKEN={}
export GITHUB_TOKEN={}
client_secret: "{}"
SECRET_KEY="{}"
"auth": "{}"
""",
}


def lines(fresh):
    for kind, rows in LINES.items():
        for row in rows.strip().split("\n"):
            secret = getattr(fresh, kind)()
            text = row.replace("\\n", "\n")
            pieces = text.replace("{{", "\0").replace("}}", "\1").split("{}")
            made = (
                secret.join(pieces)
                if len(pieces) < 3 or "&" in text
                else (pieces[0] + secret + secret[::-1].join(pieces[1:]))
            )
            yield f"{kind} {row}", made.replace("\0", "{").replace("\1", "}"), secret


def odd(fresh):  # noqa: PLR0915 - a table
    """What needs more than one value in a line."""
    pw = fresh.pw()
    yield "url percent first", f"postgres://u:%24{pw}@db/x", pw
    yield "url percent", f"postgres://u:{quote('$' + pw + '/?', safe='')}@db/x", pw
    yield "url dollar", f"mysql://root:${pw.lower()}x@db", pw.lower()
    yield "url star", f"mysql://root:*{pw}@db", pw
    yield "url at", f"mysql://root:a@{pw}@db", pw
    yield "url user", f"https://{fresh.hexa(20)}{pw}{pw}@git.example.com/a.git", pw
    for name, value in (
        ("slash", f"ab/{pw}/9x"),
        ("quote", f'Ab1"{pw}'),
        ("backslash", f"Ab1\\{pw}"),
    ):
        yield f"json {name}", f'{{"api_token": "{put(value)}"}}', pw
        yield f"json json {name}", json.dumps(json.dumps({"api_token": value})), pw
    yield (
        "json u",
        '{"password": "' + "".join(f"\\u{ord(c):04x}" for c in pw[:3]) + pw[3:] + '"}',
        pw[3:],
    )
    yield "json words", f'{{"password": "{pw[:5]} {pw[5:]} 9"}}', pw[5:]
    yield "json number", '{"password": ' + fresh.of("123456789", 9) + "}", None
    b64 = fresh.b64(32)
    yield "wireguard psk", f"PresharedKey = {b64}", b64
    yield "wireguard key", f"PrivateKey = {b64}", b64
    yield "laravel", f"APP_KEY=base64:{b64}", b64
    h = fresh.hexa(32)
    yield "sentry dsn", f"https://{h}@o123456.ingest.sentry.io/42", h
    yield "sentry own", f"SENTRY_DSN=https://{h}@sentry.example.com/2", h
    auth = base64.b64encode(f"me:{pw}".encode()).decode()
    yield "docker config", json.dumps({"auths": {"r.example.com": {"auth": auth}}}), auth
    config = base64.b64encode(
        json.dumps({"auths": {"r.example.com": {"auth": auth}}}).encode()
    ).decode()
    yield ".dockerconfigjson", f"  .dockerconfigjson: {config}", config
    base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    xprv = "xprv" + "9s21ZrQH143K" + fresh.of(base58, 95)
    yield "xprv", f"wallet: {xprv}", xprv
    azure = fresh.alnum(76) + "AZDO" + fresh.alnum(4)
    yield "azure devops pat", f"use {azure} for the feed", azure
    old = fresh.of("abcdefghijklmnopqrstuvwxyz234567", 51) + "5"
    yield "azure devops old pat", f"AZURE_DEVOPS_EXT_PAT={old}", old
    fcm = "AAAA" + fresh.alnum(7) + ":APA91b" + fresh.alnum(134)
    yield "fcm", f"key={fcm}", fcm
    body = "\n".join(textwrap.wrap(fresh.b64(48 * 5), 64))
    yield "putty", (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 1\n"
        f"{fresh.b64(48)}\nPrivate-Lines: 5\n{body}\nPrivate-MAC: {fresh.hexa(64)}"
    ), body  # fmt: skip
    begin, rows, end = pem(fresh)
    inner = rows[3]
    yield "pem", "\n".join([begin, *rows, end]), inner
    yield "pem crlf", "\r\n".join([begin, *rows, end]), inner
    yield "pem escaped", "\\n".join([begin, *rows, end]), inner
    yield "pem without end", "\n".join([begin, *rows[:6]]), inner
    yield "pem without begin", "\n".join([*rows[2:], end]), inner
    yield "pem list", json.dumps([begin, *rows, end]), inner
    yield "pem list in lines", json.dumps([begin, *rows, end], indent=1), inner
    yield "pem in code", " +\n".join(f'    "{row}\\n"' for row in [begin, *rows, end]), inner
    yield "pem quoted", "\n".join(f"> {row}" for row in [begin, *rows, end]), inner
    der = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + fresh.b64(400).rstrip("=")
    yield "der", f"key {der}", der
    yield "jwk", json.dumps({"kty": "EC", "crv": "P-256", "d": fresh.alnum(43)}), None
    secret = fresh.alnum(30)
    yield (
        "telegram url",
        f"https://api.telegram.org/bot71234{fresh.of('123456789', 5)}:AA{fresh.alnum(33)}/sendMessage",
        None,
    )
    yield (
        "slack config",
        f"SLACK={secret}\nxoxb-{fresh.of(DIGITS, 12)}-{fresh.of(DIGITS, 12)}-{secret[:24]}",
        None,
    )
    yield (
        "kubernetes secret",
        f"kind: Secret\ndata:\n  password: {base64.b64encode(pw.encode()).decode()}",
        base64.b64encode(pw.encode()).decode(),
    )
    yield "cli list", json.dumps(["mysql", "-u", "root", f"-p{pw}"]), pw
    yield "option list", json.dumps(["deploy", "--token", pw]), pw
    yield "header list", json.dumps(["X-Api-Key", pw]), pw


GLUED = (
    "github-token", "github-fine-grained-token", "aws-access-key", "anthropic-key", "slack-token", "google-api-key",
    "gitlab-token", "npm-token", "digitalocean-token",
)  # fmt: skip


def providers(seed):
    """Tokens of every provider, plain, and where it is likely glued, wrapped or broken by signs."""
    table, fresh = tokens(str(seed)), Fresh(seed)
    for name, several in table.items():
        for number, token in enumerate(several):
            yield f"{name} {number}", token, token
            if len(token) >= 70 and token.isascii():
                width = fresh.randint(60, 80)
                rows = [token[at : at + width] for at in range(0, len(token), width)]
                if len(rows) > 1 and len(rows[-1]) >= 4:
                    yield f"{name} {number} wrapped {width}", "\n".join(rows), token
            if len(token) <= 60:
                at = len(token) * 2 // 3
                before = "see the file that holds what the service wants from us today "
                yield (
                    f"{name} {number} wrapped behind words",
                    f"{before[: 76 - at].rpartition(' ')[0]} {token[:at]}\n{token[at:]} ok",
                    token,
                )
            at = len(token) * fresh.randint(3, 7) // 10
            sign = fresh.choice("\u200b\u200d\u00ad\u2060\ufeff")
            yield f"{name} {number} broken", token[:at] + sign + token[at:], token
    for name in GLUED:
        token = table[name][0]
        for before in ("token", "x", "9"):
            yield f"{name} glued {before}", before + token, token


def forms(seed, *, every=True):
    """Every form with secrets made from the seed: (name, text, secret); secret None: see `left`."""
    fresh = Fresh(seed)
    yield from lines(fresh)
    yield from odd(fresh)
    if every:
        yield from providers(seed)


def left(before, after, secret):
    """Whether the secret, or any twelve characters of it in a row, are still there."""
    if secret is None:
        return after == before
    plain = "".join(ch for ch in after if ch not in "\u200b\u200d\u00ad\u2060\ufeff\n\r")
    n = min(12, len(secret))
    return any(
        secret[at : at + n] in plain or secret[at : at + n] in after
        for at in range(len(secret) - n + 1)
    )


def _indent(text, by):
    return "".join(by + line for line in text.splitlines(keepends=True))


CONTEXTS = {
    "alone": lambda t: t,
    "behind words": lambda t: f"please use {t}",
    "before words": lambda t: f"{t} and restart",
    "own line": lambda t: f"first\n{t}\nlast",
    "crlf": lambda t: f"first\r\n{t}\r\nlast",
    "indented": lambda t: _indent(t, "    "),
    "tab": lambda t: _indent(t, "\t"),
    "fence": lambda t: f"```sh\n{t}\n```",
    "backticks": lambda t: f"run `{t}` now",
    "diff plus": lambda t: _indent(t, "+"),
    "diff minus": lambda t: _indent(t, "-"),
    "quoted mail": lambda t: _indent(t, "> "),
    "hash comment": lambda t: _indent(t, "# "),
    "slash comment": lambda t: _indent(t, "// "),
    "list item": lambda t: f"- {t}",
    "numbered": lambda t: _indent(t, "  12\t"),
    "prompt": lambda t: f"$ {t}",
    "log line": lambda t: f"2026-01-05T12:00:00Z INFO app: {t}",
    "grep": lambda t: f"src/config/prod.env:12:{t}",
    "colours": lambda t: f"\x1b[32m{t}\x1b[0m",
    "json string": lambda t: json.dumps({"text": t}),
    "json twice": lambda t: json.dumps({"a": json.dumps({"text": t})}),
    "repr": lambda t: f"got {t!r}",
    "parentheses": lambda t: f"(see {t})",
    "comma": lambda t: f"{t}, then the rest",
    "full stop": lambda t: f"{t}. Then the rest.",
    "cjk": lambda t: f"設定は {t} です",
    "table": lambda t: f"| a | {t} | b |" if "\n" not in t else f"|\n{t}\n|",
    "html": lambda t: f"<pre>{t}</pre>",
    "long text": lambda t: (
        "The service reads its settings at the start. " * 30 + f"\n{t}\n" + "It then runs. " * 30
    ),
}
