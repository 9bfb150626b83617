"""What the tokens of known providers look like.

Each shape has literals of which one stands in every token of that shape. A text
is searched for shapes only where a long unbroken run holds one of them, so prose
pays a table look-up per byte and nothing more. There is no entropy rule: hashes,
uuids and tool-use ids are our daily text, and they look as random as a key.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RUN_MIN", "SHAPES", "Shape", "suspects"]

# The shortest token of the table; a shorter unbroken run cannot hold any.
RUN_MIN: Final = 18


class Shape(NamedTuple):
    """One provider's tokens. `pattern` matches the token and nothing beside it.

    One of the literals begins every such token; one written `*literal` stands inside it.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where such tokens stand, from left to right."""
        if any(literal.startswith("*") for literal in self.literals):
            for match in _compiled(self.pattern).finditer(text):
                yield match.span()
            return
        # Looking only where a literal stands is ten times as fast as a search for the pattern.
        last, match_at = 0, _compiled(self.pattern).match
        for start in sorted(at for literal in self.literals for at in _places(text, literal)):
            found = match_at(text, start) if start >= last else None
            if found is not None:
                last = found.end()
                yield found.span()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling the whole table costs more than all else that a hook does.
    return re.compile(pattern)


def _places(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)


# A token begins where a word begins: without this `task-…` would hold an `sk-…`. The letter of
# an escape (\\n in quoted JSON, %3D in a URL) is no part of a word.
_ESCAPE: Final = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"
_START: Final = rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})"
# For shapes that are mostly hash: `restore-key-<md5>` is a cache key, `key-<md5>` is a token.
_ALONE: Final = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPE})"
# For shapes that the base64 of an image could hold behind a slash.
_BARE: Final = rf"(?:(?<![A-Za-z0-9+/=_-])|{_ESCAPE})"
_END: Final = r"(?![A-Za-z0-9])"


def _shape(name: str, literals: str, pattern: str, *, start: str = _START) -> Shape:
    return Shape(name, tuple(literals.split()), f"{start}(?:{pattern})")


# Order matters where one shape could take the head of another's token: special before general.
SHAPES: Final = (
    _shape("anthropic-key", "sk-ant-", r"sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{24,}"),
    _shape("openrouter-key", "sk-or-", r"sk-or-v1-[a-f0-9]{48,}"),
    _shape(
        "openai-key",
        "sk-",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}|sk-[A-Za-z0-9]{32,}",
    ),
    _shape("langfuse-key", "sk-lf-", r"sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    _shape("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    _shape("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{48,}"),
    _shape("xai-key", "xai-", r"xai-[A-Za-z0-9]{70,}"),
    _shape("replicate-token", "r8_", r"r8_[A-Za-z0-9]{37,}"),
    _shape("huggingface-token", "hf_ api_org_", r"hf_[A-Za-z0-9]{34,}|api_org_[A-Za-z]{34}"),
    _shape(
        "aws-access-key",
        "AKIA ASIA ABIA ACCA A3T",
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END,
    ),
    _shape(
        "aws-bedrock-key",
        "ABSK bedrock-api-key-",
        r"ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/]{24,}={0,2}",
    ),
    _shape(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        r"gh[pousr]_(?:[A-Za-z0-9]{36,}|[0-9]{4,12}_ey[A-Za-z0-9_.-]{40,})",
    ),
    _shape("github-fine-grained-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{50,}"),
    _shape(
        "gitlab-token",
        "glpat- glrtr- glwt- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- "
        "glffct-",
        r"gl(?:pat|rtr|wt|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_-]{20,}(?:\.[a-z0-9]{9})?",
    ),
    _shape("gitlab-runner-token", "GR1348941", r"GR1348941[A-Za-z0-9_-]{20,}"),
    _shape("gitlab-session", "_gitlab_session=", r"_gitlab_session=[0-9a-z]{32}"),
    _shape(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{40,}",
    ),
    _shape(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxe- xoxe. xoxo- xoxs- xapp- XAPP- xoxc- xoxd-",
        r"xox[abcdeoprs]-[A-Za-z0-9-]{13,}|xoxe\.xox[bp]-[0-9]-[A-Za-z0-9]{100,}"
        r"|(?i:xapp)-[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]+",
    ),
    _shape(
        "stripe-key",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_",
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,}",
    ),
    _shape("google-api-key", "AIza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _shape(
        "google-oauth",
        "ya29. GOCSPX- 1//0",
        r"ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
    ),
    _shape(
        "azure-client-secret",
        "*Q~",
        r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
    ),
    _shape("azure-storage-key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}"),
    _shape("azure-sas-signature", "sig=", r"sig=[A-Za-z0-9%+/]{40,}={0,2}"),
    _shape("digitalocean-token", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _shape("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}" + _END),
    _shape("pypi-token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _shape("rubygems-key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _shape("clojars-token", "CLOJARS_ clojars_", r"(?i:clojars)_[A-Za-z0-9]{60}"),
    _shape("docker-token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{24,}"),
    _shape(
        "sendgrid-key",
        "SG.",
        r"SG\.[A-Za-z0-9_=-]{16,40}\.[A-Za-z0-9_=.-]{16,64}|SG\.[A-Za-z0-9_=.-]{66}",
    ),
    _shape("sendinblue-key", "xkeysib-", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _shape("twilio-key", "SK", r"SK[0-9a-fA-F]{32}" + _END),
    _shape("mailgun-key", "key-", r"key-[0-9a-f]{32}" + _END, start=_ALONE),
    _shape("mailchimp-key", "*-us", r"[0-9a-f]{32}-us[0-9]{1,2}" + _END),
    _shape("resend-key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}" + _END),
    _shape("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _shape(
        "square-token",
        "sq0 EAAA",
        r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{22,60}(?![A-Za-z0-9_-])",
        start=_BARE,
    ),
    _shape("facebook-token", "EAA", r"EAA[A-Z][A-Za-z0-9]{100,}", start=_BARE),
    _shape("shippo-token", "shippo_", r"shippo_(?:live|test)_[a-fA-F0-9]{40}"),
    _shape("easypost-key", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}" + _END),
    _shape("duffel-token", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    _shape(
        "flutterwave-key",
        "FLWSECK_ FLWPUBK_",
        r"FLW(?:SEC|PUB)K_(?:TEST|LIVE)-[A-Za-z0-9]{12,32}(?:-X)?",
    ),
    _shape("telegram-token", "*:AA", r"[0-9]{5,16}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    _shape(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        r"(?:M[Tjz]|N[DTjz]|O[DT])[A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    _shape(
        "discord-webhook",
        "*/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{15,22}/[A-Za-z0-9_-]{50,}",
    ),
    _shape(
        "teams-webhook",
        "webhook.office.com/",
        r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}",
    ),
    _shape("databricks-token", "dapi", r"dapi[a-f0-9]{32}(?:-[0-9])?" + _END),
    _shape("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    _shape("notion-token", "ntn_ secret_", r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}" + _END),
    _shape("figma-token", "figd_ figo_ figu_", r"fig[dou]_[A-Za-z0-9_-]{36,}"),
    _shape("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _END),
    _shape(
        "hubspot-token",
        "pat-na pat-eu",
        r"pat-(?:na|eu)[0-9]-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    ),
    _shape(
        "harness-key", "pat. sat.", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
    ),
    _shape("vault-token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _shape("terraform-token", "*.atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    _shape("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    _shape("pulumi-token", "pul-", r"pul-[a-f0-9]{40}" + _END, start=_ALONE),
    _shape("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36,}"),
    _shape(
        "fly-token",
        "fo1_ fm1a_ fm1r_ fm2_",
        r"fo1_[A-Za-z0-9_-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3}",
    ),
    _shape("render-key", "rnd_", r"rnd_[A-Za-z0-9]{28,}"),
    _shape("heroku-key", "HRKU-", r"HRKU-[A-Za-z0-9_-]{36,}"),
    _shape("supabase-key", "sbp_ sb_secret_", r"sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}"),
    _shape("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    _shape("cloudflare-origin-key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    _shape("cloudflare-token", "cfat_ cfut_ cfk_", r"cf(?:at|ut|k)_[A-Za-z0-9]{40,}"),
    _shape("docker-swarm-token", "SWMTKN-1- SWMKEY-1-", r"SWM(?:TKN|KEY)-1-[A-Za-z0-9-]{20,}"),
    _shape("defined-networking-key", "dnkey-", r"dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    _shape(
        "amazon-mws-key", "amzn.mws.", r"amzn\.mws\.[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"
    ),
    _shape("bitbucket-token", "BBDC-", r"BBDC-[A-Za-z0-9+/=]{40,}"),
    _shape(
        "authress-key",
        "*.acc_ *.acc-",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}"
        r"\.[a-z0-9+/_=-]{30,}",
    ),
    _shape("clickhouse-key", "4b1d", r"4b1d[A-Za-z0-9]{38}" + _END),
    _shape(
        "new-relic-key",
        "NRAK- NRJS- NRII-",
        r"NRAK-[A-Za-z0-9]{27}|NRJS-[a-f0-9]{19}|NRII-[A-Za-z0-9-]{32}",
    ),
    _shape(
        "grafana-token",
        "glc_ glsa_ eyJrIjoi",
        r"glc_[A-Za-z0-9+/]{32,}={0,3}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|eyJrIjoi[A-Za-z0-9]{70,}={0,3}",
    ),
    _shape("sentry-token", "sntrys_ sntryu_", r"sntrys_[A-Za-z0-9+/=_-]{40,}|sntryu_[a-f0-9]{64}"),
    _shape("dynatrace-token", "dt0c01. dt0s01.", r"dt0[cs]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    _shape("postman-key", "PMAK-", r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}"),
    _shape("readme-key", "rdme_", r"rdme_[a-z0-9]{70}"),
    _shape("prefect-key", "pnu_", r"pnu_[A-Za-z0-9]{36}" + _END),
    _shape("infracost-key", "ico-", r"ico-[A-Za-z0-9]{32}" + _END, start=_ALONE),
    _shape("buildkite-token", "bkua_", r"bkua_[a-f0-9]{40}"),
    _shape("circleci-token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{16,}_[a-f0-9]{40}"),
    _shape("sonar-token", "squ_ sqp_ sqa_", r"sq[upa]_[a-f0-9]{40}"),
    _shape(
        "sourcegraph-token", "sgp_", r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}" + _END
    ),
    _shape("contentful-token", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    _shape("typeform-token", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,59}"),
    _shape("dropbox-token", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_=-]{100,}"),
    _shape(
        "atlassian-token",
        "ATATT3 ATCTT3 ATBB",
        r"AT[AC]TT3[A-Za-z0-9_=-]{40,}|ATBB[A-Za-z0-9]{24,}",
    ),
    _shape("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{20,}"),
    _shape(
        "artifactory-key", "AKCp cmVmd", r"AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59}", start=_BARE
    ),
    _shape("alibaba-key", "LTAI", r"LTAI[A-Za-z0-9]{20}" + _END, start=_BARE),
    _shape("adobe-secret", "p8e-", r"p8e-[A-Za-z0-9]{32}"),
    _shape("yandex-key", "AQVN", r"AQVN[A-Za-z0-9_-]{35,38}(?![A-Za-z0-9_-])"),
    _shape("maxmind-key", "*_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + _END),
    _shape("octopus-key", "API-", r"API-[A-Z0-9]{26}" + _END),
    _shape("openshift-token", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    _shape("settlemint-token", "sm_", r"sm_[aps]at_[A-Za-z0-9]{16}" + _END),
    _shape("scalingo-token", "tk-us-", r"tk-us-[A-Za-z0-9_-]{48}"),
    _shape("frameio-token", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    _shape("intra42-secret", "s-s4t2", r"s-s4t2(?:ud|af)-[a-f0-9]{64}"),
    _shape("onepassword-token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}"),
    _shape(
        "onepassword-secret-key",
        "A3-",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + _END,
    ),
    _shape("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _shape(
        "jwt",
        "eyJ",
        r"ey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_/-]{10,}\.[A-Za-z0-9_/-]{10,}={0,2}",
        start=_ALONE,
    ),
    _shape(
        "private-key-base64",
        "LS0tLS1CRUdJTi",
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJ|BQUklWQVRF|BFQyBQUkl|BPUEVOU1NIIFBS|BEU0EgUFJJ|BFTkNSWVBURUQgUF)"
        r"[A-Za-z0-9+/]{24,}={0,2}",
    ),
)

_ALNUM: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_RUN: Final = frozenset(_ALNUM + b"_-.+/=~:%@\\")
# Every byte of a run becomes `x`, so one substring search finds a run of RUN_MIN.
_MASK: Final = bytes(120 if byte in _RUN else 32 for byte in range(256))
_KEEP: Final = bytes(byte if byte in _RUN else 32 for byte in range(256))
_WORDS: Final = bytes(byte if byte in _ALNUM else 32 for byte in range(256))
_LONG: Final = b"x" * RUN_MIN
_ESCAPES: Final = re.compile(rb"\\[nrt]|%[0-9A-Fa-f]{2}")

# A literal, and the shapes that it may begin or stand in.
_Literal = tuple[bytes, tuple[int, ...]]


def _by_literal() -> tuple[dict[bytes, tuple[_Literal, ...]], tuple[_Literal, ...]]:
    """Literals at the start of a token by the head of their first word, and the others."""
    numbers: dict[str, list[int]] = {}
    for number, shape in enumerate(SHAPES):
        for literal in shape.literals:
            numbers.setdefault(literal, []).append(number)
    first: dict[bytes, list[_Literal]] = {}
    inner: list[_Literal] = []
    for literal, found in numbers.items():
        entry = literal.removeprefix("*").encode(), tuple(found)
        if literal.startswith("*"):
            inner.append(entry)
        else:
            head = entry[0].translate(_WORDS).split()[0][:2]
            first.setdefault(head, []).append(entry)
    return {head: tuple(entries) for head, entries in first.items()}, tuple(inner)


_FIRST, _INNER = _by_literal()


def suspects(encoded: bytes) -> tuple[Shape, ...]:
    """Shapes that the text (as UTF-8) may hold, in table order; usually none."""
    if _LONG not in encoded.translate(_MASK):
        return ()
    words = encoded.translate(_KEEP).split()
    runs = b" ".join([word for word in words if len(word) >= RUN_MIN])
    plain = _ESCAPES.sub(b" ", runs) if b"\\" in runs or b"%" in runs else runs
    heads = {word[:2] for word in plain.translate(_WORDS).split()}
    found = {number for literal, numbers in _INNER if literal in runs for number in numbers}
    for head in heads & _FIRST.keys():
        for literal, numbers in _FIRST[head]:
            if literal in runs:
                found.update(numbers)
    return tuple(SHAPES[number] for number in sorted(found))
