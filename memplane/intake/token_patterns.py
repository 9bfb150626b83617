"""Patterns for the tokens of known providers, and the prefilter that decides which to try.

Each shape has literals, one of which occurs in every token of that shape. A text is searched for
shapes only where a long unbroken run contains one of them, so prose costs a table look-up per byte
and nothing more. There is no entropy rule: hashes, uuids and tool-use ids are everyday text here,
and look as random as a key.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from memplane.intake.markers import Span

# The providers whose tokens are known by their form: name, literals, pattern.
#
# `Shape` uses the rows. Order matters where one row could take the head of
# another's token: special before general.

# A token begins where a word begins: without this `task-…` would hold an `sk-…`. The letter of
# an escape (\\n in quoted JSON, %3D in a URL, [93m for a terminal) is no part of a word.
_ESCAPE: Final = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m)"
_START: Final = rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})"
# For shapes that are mostly hash: `restore-key-<md5>` is a cache key, `key-<md5>` is a token.
ALONE: Final = rf"(?:(?<![A-Za-z0-9_-])|(?<=\n-)|(?<=\A-)|{_ESCAPE})"
# For shapes that the base64 of an image could hold behind a slash.
BARE: Final = rf"(?:(?<![A-Za-z0-9+/=_-])|(?<=\n[+-])|(?<=\A[+-])|{_ESCAPE})"
# For shapes that nothing else looks like: glued to a word too, `tokenghp_…`.
_GLUED: Final = ""
_END: Final = r"(?![A-Za-z0-9])"
# Behind a dot: what ends a sentence or the name of a file, and is no attribute.
_FILE_ENDS: Final = (
    r"(?:md|txt|json|jsonl|ya?ml|log|csv|pdf|html?|png|zip|tar|gz)(?![A-Za-z0-9_])"
    r"|(?![A-Za-z0-9_])"
)
# A part of a JSON web token, in quoted JSON too: an escape that means a character ends it.
_JWT: Final = r"(?:[A-Za-z0-9_/-]|\\(?![nrtu\"'\\]))"


class TokenPattern(NamedTuple):
    """The tokens of one provider: literals (each token has one), pattern, what may stand before."""

    name: str
    literals: tuple[str, ...]
    pattern: str
    start: str


def _row(name: str, literals: str, pattern: str, *, start: str = _START) -> TokenPattern:
    return TokenPattern(name, tuple(literals.split()), f"(?:{pattern})", start)


PROVIDERS: Final = (
    _row("anthropic-key", "*sk-ant-", r"sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{24,}", start=_GLUED),
    _row("openrouter-key", "sk-or-", r"sk-or-v1-[a-f0-9]{48,}"),
    _row(
        "openai-key",
        "sk-",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}|sk-[A-Za-z0-9]{32,}",
    ),
    _row("langfuse-key", "sk-lf-", r"sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    _row("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _row("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    _row("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{48,}"),
    _row("xai-key", "xai-", r"xai-[A-Za-z0-9]{70,}"),
    _row("replicate-token", "r8_", r"r8_[A-Za-z0-9]{37,}"),
    _row("huggingface-token", "hf_ api_org_", r"hf_[A-Za-z0-9]{34,}|api_org_[A-Za-z]{34}"),
    _row(
        "aws-access-key",
        "*AKIA ASIA{16} ABIA{16} ACCA{16} A3T{17}",
        # The one of the manuals ends in EXAMPLE.
        rf"(?:AKIA|{_START}(?:A3T[A-Z0-9]|ASIA|ABIA|ACCA))(?![A-Z0-9]{{9}}EXAMPLE)[A-Z0-9]{{16}}"
        + _END,
        start=_GLUED,
    ),
    _row(
        "aws-bedrock-key",
        "ABSK bedrock-api-key-",
        r"ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/]{24,}={0,2}",
    ),
    _row(
        "github-token",
        "*ghp_ *gho_ *ghu_ *ghs_ *ghr_",
        r"gh[pousr]_(?:[A-Za-z0-9]{36,}|[0-9]{4,12}_ey[A-Za-z0-9_.-]{40,})",
        start=_GLUED,
    ),
    _row(
        "github-fine-grained-token", "*github_pat_", r"github_pat_[A-Za-z0-9_]{50,}", start=_GLUED
    ),
    _row(
        "gitlab-token",
        "*glpat- glrtr- glwt- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- "
        "glffct-",
        rf"(?:glpat|{_START}gl(?:rtr|wt|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct))-"
        r"[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9]{2,9}){0,2}",
        start=_GLUED,
    ),
    _row("gitlab-runner-token", "GR1348941", r"GR1348941[A-Za-z0-9_-]{20,}"),
    _row("gitlab-session", "_gitlab_session=", r"_gitlab_session=[0-9a-z]{32}"),
    _row(
        "slack-webhook",
        "*hooks",  # with any character for a dot: people write it `hooks[.]slack[.]com` too
        r"hooks.{1,3}slack.{1,3}com/(?:services|workflows|triggers)/[A-Za-z0-9+/_-]{40,}",
    ),
    _row(
        "slack-token",
        "*xoxb- *xoxp- xoxa- xoxr- xoxe- xoxe. xoxo- xoxs- xapp- XAPP- xoxc- xoxd-",
        rf"(?:{_START}xoxe\.xox[bp]-[0-9]-[A-Za-z0-9]{{100,}}"
        rf"|(?:xox[bp]|{_START}xox[acdeors])-(?=[A-Za-z-]{{0,80}}+[0-9])[A-Za-z0-9-]{{13,}}"
        rf"|{_START}(?i:xapp)-[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]+)",
        start=_GLUED,
    ),
    _row(
        "stripe-key",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_ whsec_",
        r"[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,}",
    ),
    _row("google-api-key", "*AIza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])", start=_GLUED),
    _row(
        "google-oauth",
        "ya29. GOCSPX- 1//0",
        r"ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
    ),
    _row(
        "azure-client-secret",
        "*Q~",
        r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
    ),
    _row("azure-storage-key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}"),
    _row("azure-sas-signature", "sig=", r"sig=[A-Za-z0-9%+/]{40,}={0,2}"),
    _row(
        "digitalocean-token", "*doo_v1_ *dop_v1_ *dor_v1_", r"do[opr]_v1_[a-f0-9]{64}", start=_GLUED
    ),
    _row("npm-token", "*npm_", r"npm_[A-Za-z0-9]{36}" + _END, start=_GLUED),
    _row("pypi-token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _row("rubygems-key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _row("clojars-token", "CLOJARS_ clojars_", r"(?i:clojars)_[A-Za-z0-9]{60}"),
    _row("docker-token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{24,}"),
    _row(
        "sendgrid-key",
        "SG.",
        r"SG\.[A-Za-z0-9_=-]{16,40}\.[A-Za-z0-9_=.-]{16,64}|SG\.[A-Za-z0-9_=.-]{66}",
    ),
    _row("sendinblue-key", "xkeysib-", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _row("twilio-key", "SK{32}", r"SK[0-9a-fA-F]{32}" + _END),
    _row("mailgun-key", "key-{32} pubkey-{32}", r"(?:pub)?key-[0-9a-f]{32}" + _END, start=ALONE),
    _row("mailchimp-key", "*-us", r"[0-9a-f]{32}-us[0-9]{1,2}" + _END),
    _row("resend-key", "re_{24}", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}" + _END),
    _row("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _row(
        "square-token",
        "*sq0 EAAA",
        r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{22,60}(?![A-Za-z0-9_-])",
        start=BARE,
    ),
    _row("facebook-token", "EAA{101}", r"EAA[A-Z][A-Za-z0-9]{100,}", start=BARE),
    _row("shippo-token", "shippo_", r"shippo_(?:live|test)_[a-fA-F0-9]{40}"),
    _row("easypost-key", "EZAK{54} EZTK{54}", r"EZ[AT]K[A-Za-z0-9]{54}" + _END),
    _row("duffel-token", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    _row(
        "flutterwave-key",
        "FLWSECK_ FLWPUBK_",
        r"FLW(?:SEC|PUB)K_(?:TEST|LIVE)-[A-Za-z0-9]{12,32}(?:-X)?",
    ),
    _row(
        "telegram-token",
        "*:A *%3AA",
        r"[0-9]{5,16}(?::|%3A)A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])",
        start=rf"(?:{_START}|(?<=bot))",
    ),
    _row(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        r"(?:M[Tjz]|N[DTjz]|O[DT])[A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    _row(
        "discord-webhook",
        "*/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{15,22}/[A-Za-z0-9_-]{50,}",
    ),
    _row(
        "teams-webhook",
        "webhook.office.com/",
        r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}",
    ),
    _row("databricks-token", "dapi{32}", r"dapi[a-f0-9]{32}(?:-[0-9])?" + _END),
    _row("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    _row("notion-token", "ntn_ secret_", r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}" + _END),
    _row("figma-token", "figd_ figo_ figu_", r"fig[dou]_[A-Za-z0-9_-]{36,}"),
    _row("airtable-token", "pat{14}", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _END),
    _row(
        "hubspot-token",
        "pat-na pat-eu",
        r"pat-(?:na|eu)[0-9]-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    ),
    _row(
        "harness-key", "pat. sat.", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
    ),
    _row("vault-token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _row(
        "vault-legacy-token",  # two digits: `s.` before a name of 24 letters is code
        "s.{24}",
        r"s\.(?=[A-Za-z]*[0-9][A-Za-z]*[0-9])[A-Za-z0-9]{24}(?![A-Za-z0-9_(]|\.(?!"
        + _FILE_ENDS
        + "))",
        start=ALONE,
    ),
    _row("terraform-token", "*.atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    _row("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    _row("pulumi-token", "pul-{40}", r"pul-[a-f0-9]{40}" + _END, start=ALONE),
    _row("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36,}"),
    _row(
        "fly-token",
        "fo1_ fm1a_ fm1r_ fm2_",
        r"fo1_[A-Za-z0-9_-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3}",
    ),
    _row("render-key", "rnd_", r"rnd_[A-Za-z0-9]{28,}"),
    _row("heroku-key", "HRKU-", r"HRKU-[A-Za-z0-9_-]{36,}"),
    _row(
        "supabase-key",
        "sbp_ sb_secret_",
        r"sbp_(?:v[0-9]_)?[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}",
    ),
    _row("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    _row("cloudflare-origin-key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    _row("cloudflare-token", "cfat_ cfut_ cfk_", r"cf(?:at|ut|k)_[A-Za-z0-9]{40,}"),
    _row("docker-swarm-token", "SWMTKN-1- SWMKEY-1-", r"SWM(?:TKN|KEY)-1-[A-Za-z0-9-]{20,}"),
    _row("defined-networking-key", "dnkey-", r"dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    _row("amazon-mws-key", "amzn.mws.", r"amzn\.mws\.[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"),
    _row("bitbucket-token", "BBDC-", r"BBDC-[A-Za-z0-9+/=]{40,}"),
    _row(
        "authress-key",
        "*.acc_ *.acc-",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}"
        r"\.[a-z0-9+/_=-]{30,}",
    ),
    _row("clickhouse-key", "4b1d{38}", r"4b1d[A-Za-z0-9]{38}" + _END),
    _row(
        "new-relic-key",
        "NRAK- NRJS- NRBR- NRII- *NRAL",
        r"NRAK-[A-Za-z0-9]{27}|NR(?:JS|BR)-[a-f0-9]{19}|NRII-[A-Za-z0-9_-]{25,32}"
        r"|[a-z0-9]{36}NRAL" + _END,
    ),
    _row(
        "grafana-token",
        "glc_ glsa_ eyJrIjoi{70}",
        r"glc_[A-Za-z0-9+/]{32,}={0,3}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|eyJrIjoi[A-Za-z0-9]{70,}={0,3}",
    ),
    _row("sentry-token", "sntrys_ sntryu_", r"sntrys_[A-Za-z0-9+/=_-]{40,}|sntryu_[a-f0-9]{64}"),
    _row("dynatrace-token", "dt0c01. dt0s01.", r"dt0[cs]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    _row(
        "postman-key",
        "PMAK- PMAT-",
        r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}|PMAT-[A-Z0-9]{26}" + _END,
    ),
    _row("readme-key", "rdme_", r"rdme_[a-z0-9]{70}"),
    _row("prefect-key", "pnu_", r"pnu_[A-Za-z0-9]{36}" + _END),
    _row("infracost-key", "ico-{32}", r"ico-[A-Za-z0-9]{32}" + _END, start=ALONE),
    _row("buildkite-token", "bkua_", r"bkua_[a-f0-9]{40}"),
    _row("circleci-token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{16,}_[a-f0-9]{40}"),
    _row("sonar-token", "squ_ sqp_ sqa_", r"sq[upa]_[a-f0-9]{40}"),
    _row("sourcegraph-token", "sgp_", r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}" + _END),
    _row("contentful-token", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    _row("typeform-token", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,59}"),
    _row("dropbox-token", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_=-]{100,}"),
    _row(
        "atlassian-token",
        "ATATT3 ATCTT3 ATBB{24}",
        r"AT[AC]TT3[A-Za-z0-9_=-]{40,}(?:(?:\\?=|%3[Dd])[A-F0-9]{8})?|ATBB[A-Za-z0-9]{24,}",
    ),
    _row("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{20,}"),
    _row(
        "artifactory-key",
        "AKCp{69} cmVmd{59}",
        r"AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59}",
        start=BARE,
    ),
    _row("alibaba-key", "LTAI{20}", r"LTAI[A-Za-z0-9]{20}" + _END, start=BARE),
    _row("adobe-secret", "p8e-", r"p8e-[A-Za-z0-9]{32}"),
    _row("yandex-key", "AQVN", r"AQVN[A-Za-z0-9_-]{35,38}(?![A-Za-z0-9_-])"),
    _row("maxmind-key", "*_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + _END),
    _row("octopus-key", "API-{26}", r"API-[A-Z0-9]{26}" + _END),
    _row("openshift-token", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    _row("settlemint-token", "sm_{16}", r"sm_[aps]at_[A-Za-z0-9]{16}" + _END),
    _row("scalingo-token", "tk-us-", r"tk-us-[A-Za-z0-9_-]{48}"),
    _row("frameio-token", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    _row("intra42-secret", "s-s4t2", r"s-s4t2(?:ud|af)-[a-f0-9]{64}"),
    _row("onepassword-token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}"),
    _row(
        "onepassword-secret-key",
        "A3-",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + _END,
    ),
    _row("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _row(
        "jwt",
        "~.ey",
        r"ey[A-Za-z0-9_-]{10,}\.ey" + _JWT + r"{10,}\.(?:" + _JWT + r"{10,}={0,2})?",
        # Behind a dash too, in the name of a file; bounded, since each dash is one to try.
        start=rf"(?:{ALONE}|(?<=[-_])(?=ey[A-Za-z0-9_-]{{10,400}}\.ey))",
    ),
    _row(
        "private-key-base64",
        "LS0tLS1CRUdJTi",
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJ|BQUklWQVRF|BFQyBQUkl|BPUEVOU1NIIFBS|BEU0EgUFJJ|BFTkNSWVBURUQgUF)"
        r"[A-Za-z0-9+/]{24,}={0,2}",
    ),
    _row("posthog-key", "phc_ phx_ phs_ phr_ pha_", r"ph[cxsra]_[A-Za-z0-9]{40,}"),
    _row("llamaindex-key", "llx-", r"llx-[A-Za-z0-9_-]{40,}"),
    _row("tavily-key", "tvly-", r"tvly-[A-Za-z0-9-]{32,}"),
    _row("together-key", "tgp_v1_", r"tgp_v1_[A-Za-z0-9_-]{40,}"),
    _row("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", r"vc[piark]_[A-Za-z0-9]{24,}"),
    _row("wundergraph-key", "cosmo_", r"cosmo_[a-f0-9]{32}" + _END),
    _row("akamai-token", "akab- akaa-", r"aka[ab]-[a-z0-9]{16}-[a-z0-9]{16}" + _END),
    _row(
        "nats-seed",
        "SU{56} SA{56} SO{56} SN{56} SC{56}",
        r"S[UAONC][A-Z2-7]{56}" + _END,
        start=BARE,
    ),
    _row("nuget-key", "oy2{43}", r"oy2[a-z0-9]{43}" + _END, start=BARE),
    _row("instagram-token", "IGQ", r"IGQ[A-Za-z0-9_-]{80,}", start=BARE),
    _row("ntlm-message", "TlRMTVNTUAA", r"TlRMTVNTUAA[A-Za-z0-9+/]{24,}={0,2}", start=BARE),
    _row("salesforce-client-id", "3MVG", r"3MVG[A-Za-z0-9._]{60,}"),
    _row(
        "lob-key",
        "live_{31} test_{31}",
        r"(?:live|test)_(?:pub_)?[a-f0-9]{31,35}" + _END,
        start=ALONE,
    ),
    _row("mapbox-token", "sk. tk. pk.", r"[stp]k\.[A-Za-z0-9_-]{60,}\.[A-Za-z0-9_-]{22}" + _END),
    _row(
        "plaid-token",
        "access-sandbox- access-development- access-production-",
        r"access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    _row("yandex-token", "t1.", r"t1\.[A-Za-z0-9_-]+={0,2}\.[A-Za-z0-9_-]{86}={0,2}"),
    _row("yandex-secret", "YC", r"YC[A-Za-z0-9_-]{38}(?![A-Za-z0-9_-])", start=BARE),
    _row("twitter-bearer", "AAAAAAAAAAAAAAAAAAAAA", r"A{21,22}[A-Za-z0-9%]{80,}", start=BARE),
    _row("voyage-key", "pa-", r"pa-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])", start=ALONE),
    _row("pinecone-key", "pcsk_", r"pcsk_[A-Za-z0-9_]{50,}"),
    _row("fireworks-key", "fw_{24}", r"fw_[A-Za-z0-9]{24}" + _END, start=ALONE),
    _row("cerebras-key", "csk-", r"csk-[a-z0-9]{40,}"),
    _row("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{60,}"),
    _row("e2b-key", "e2b_", r"e2b_[a-f0-9]{40}" + _END),
    _row("neon-key", "napi_", r"napi_[a-z0-9]{60,}"),
    _row(
        "session-cookie",
        "*ionid= *IONID= *ionId= *ESSID= *t.sid=",
        r"(?i:(?:j|php|asp\.net_)?sess(?:ion)?_?id|connect\.sid)="
        r"(?![0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-)(?=[A-Za-z%._:+/=-]{0,80}[0-9])[A-Za-z0-9%._:+/=-]{20,}",
    ),
    _row(
        "laravel-key",
        "*base64: *base64%3A",
        r"base64(?::|%3A)(?:[A-Za-z0-9+/]|%2[BF]){43}(?:=|%3D)(?![A-Za-z0-9+/])",
    ),
    _row(
        "extended-private-key",
        "xprv{107} yprv{107} zprv{107} tprv{107} uprv{107} vprv{107}",
        r"[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{107,108}" + _END,
    ),
    _row(
        "azure-devops-token",
        "*AZDO *_PAT=",
        rf"{_START}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}|_PAT=[a-z2-7]{{52}}{_END}",
        start=_GLUED,
    ),
    _row(
        "azure-key",
        "*JQQJ99",
        r"(?!([A-Za-z0-9])\1{19})[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,40}={0,2}",
    ),
    _row("fcm-key", "*APA91b", r"AAAA[A-Za-z0-9_-]{7}(?::|%3A)APA91b[A-Za-z0-9_-]{100,}"),
    _row(
        "docker-config",
        "*eyJhdXRocyI6 *ewogICJhdXRocyI6 *ewoJImF1dGhzIjog",
        r"(?:eyJhdXRocyI6|ewogICJhdXRocyI6|ewoJImF1dGhzIjog)"
        r"[A-Za-z0-9+/]{24,}={0,2}",
    ),
    _row(
        "private-key-der",
        "MII MHcCAQEE MIGHAgEAMBMGByqGSM49 MIGkAgEB MC4CAQAwBQYDK2Vw *b3BlbnNzaC1rZXktdjE",
        r"(?:MII[A-Za-z0-9+/]{2}[A-Za-z0-9+/](?:IBAA|gIBAA)[A-Za-z0-9+/]{40,}"
        r"|MII[A-Za-z0-9+/]{2}(?:[QwgkA-Za-z]IBADANBgkqhkiG9w0BAQEFAASC)[A-Za-z0-9+/]{20,}"
        r"|MHcCAQEE[A-Za-z0-9+/]{40,}|MIGHAgEAMBMGByqGSM49[A-Za-z0-9+/]{60,}|MIGkAgEB[A-Za-z0-9+/]{80,}"
        r"|MC4CAQAwBQYDK2Vw[A-Za-z0-9+/]{44,}|b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{60,})={0,2}",
        start=BARE,
    ),
    _row("razorpay-key", "rzp_live_ rzp_test_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    _row("gcs-hmac-key", "GOOG1", r"GOOG1[A-Z0-9]{56,58}" + _END),
    _row("tencent-key", "AKID{32}", r"AKID[A-Za-z0-9]{32}" + _END, start=BARE),
    _row(
        "launchdarkly-key",
        "sdk- mob-",
        r"(?:sdk|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        start=ALONE,
    ),
    _row(
        "chat-webhook",
        "*hooks/catch/ *open-apis/bot/v2/hook/ *with/key/",
        r"hooks\.zapier\.com/hooks/catch/[0-9]{4,12}/[A-Za-z0-9]{5,12}"
        r"|open-apis/bot/v2/hook/[0-9a-f-]{36}"
        r"|maker\.ifttt\.com/trigger/[A-Za-z0-9_-]{1,60}/(?:json/)?with/key/[A-Za-z0-9_-]{16,}",
    ),
    _row(
        "k3s-token",
        "K10{64}",
        r"K10[0-9a-f]{64}(?::|%3A){2}(?:(?:server|node)(?::|%3A))?[A-Za-z0-9]{16,}",
    ),
)


# The shortest token of the table; a shorter unbroken run cannot hold any.
RUN_MIN: Final = 18
# Characters of a long text that are searched at once, and those on both sides that are shared with
# the next: more than the head of a token, its literal and what must stand behind that.
WINDOW: Final = 1 << 20
_SHARED: Final = 8192


class Shape(NamedTuple):
    """The tokens of one provider, compiled. `pattern` matches a token and nothing beside it.

    Each token begins with one of the literals. A literal written `*literal` or `~literal` stands
    inside the token; with `~` the part before it may have any length. After `literal{n}` come at
    least n letters or digits. `start` is the pattern of what may stand before a token.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str
    start: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of such tokens, from left to right."""
        whole = _compiled(self.start + self.pattern)
        kinds = {literal[0] for literal in self.literals}
        if not kinds.isdisjoint("*~"):
            # Without its start a pattern is searched for by its first characters, which is much
            # faster, but then begins anywhere: bad where it goes on for any length from there.
            if "~" in kinds or _compiled(self.pattern).search(text) is not None:
                for match in whole.finditer(text):
                    yield match.span()
            return
        # Looking only where a literal stands is ten times as fast as a search for the pattern.
        last = 0
        for start in self._starts(text):
            found = whole.match(text, start) if start >= last else None
            if found is not None:
                last = found.end()
                yield found.span()

    def _starts(self, text: str) -> Iterator[int]:
        """Where a literal stands, from left to right; in a long text window by window."""
        words = [_plain(literal) for literal in self.literals]
        for at in range(0, len(text), WINDOW):
            yield from sorted(found for word in words for found in _places(text, word, at))

    def over(self, text: str, first: int, gap: int, end: int) -> tuple[int, int] | None:
        """The token that begins before `gap` and ends behind it, as if the text ended at `end`."""
        for match in _compiled(self.pattern).finditer(text, first, end):
            if match.start() >= gap:
                break
            if match.end() > gap:
                return match.span()
        return None

    def whole(self, text: str, start: int, end: int) -> bool:
        """Whether text[start:end] is a token, read as if the text ended at `end`."""
        found = _compiled(self.pattern).match(text, start, end)
        return found is not None and found.end() == end

    def begins(self, text: str, at: int) -> bool:
        """Whether a token may begin at an offset, by the character before it."""
        return _compiled(self.start).match(text, at) is not None

    def ends(self, text: str, start: int) -> int:
        """The end of the token that begins at `start`, or -1."""
        found = _compiled(self.start + self.pattern).match(text, start)
        return -1 if found is None else found.end()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling the whole table costs more than all else that a hook does.
    return re.compile(pattern)


def _places(text: str, literal: str, first: int) -> Iterator[int]:
    """Where the literal begins in the window from `first` on."""
    last = first + WINDOW + len(literal) - 1
    at = text.find(literal, first, last)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1, last)


SHAPES: Final = tuple(Shape(*row) for row in PROVIDERS)

_ALNUM: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_RUN: Final = frozenset(_ALNUM + b"_-.+/=~:%@\\")
_WORDS: Final = bytes(byte if byte in _ALNUM else 32 for byte in range(256))
_ESCAPES: Final = regex(rb"\\[nrt]|%[0-9A-Fa-f]{2}")
_COLOURS: Final = regex(rb" [0-9]{1,2}m")  # no run holds the bracket before it


class _Literal(NamedTuple):
    """A literal at the head of a token, its first word, and the shapes that it may begin.

    `least`: how long the word is that holds the literal, or of a literal that ends between words,
    how long a word behind it is.
    """

    encoded: bytes
    word: bytes
    least: int
    shapes: tuple[int, ...]

    def begins(self, words: list[bytes]) -> bool:
        """Whether one of the words may be the head of such a token."""
        word, least = self.word, self.least
        return any(len(each) >= least and each.startswith(word) for each in words)


def _plain(literal: str) -> str:
    return literal.partition("{")[0]


def _by_literal() -> tuple[
    dict[str, list[_Literal]], dict[str, list[_Literal]], dict[str, list[int]]
]:
    """Literals whose first word ends in them, by it; those it goes on behind; others, inside.

    Of the second kind those in small letters must say how long the word is at least.
    """
    numbers: dict[str, list[int]] = {}
    inner: dict[str, list[int]] = {}
    for number, shape in enumerate(SHAPES):
        for literal in shape.literals:
            if literal[0] in "*~":
                inner.setdefault(literal[1:], []).append(number)
            else:
                numbers.setdefault(literal, []).append(number)
    whole: dict[str, list[_Literal]] = {}
    opened: dict[str, list[_Literal]] = {}
    for literal, found in numbers.items():
        text, _, more = literal.partition("{")
        word = text.encode().translate(_WORDS).split()[0]
        least = int(more.removesuffix("}") or 0)
        if text.endswith(word.decode()):
            least += len(word)
            assert word < _SMALL or least >= _LONG_WORD, literal
            opened.setdefault(text, []).append(_Literal(text.encode(), word, least, tuple(found)))
        else:
            whole.setdefault(word.decode(), []).append(
                _Literal(text.encode(), word, least, tuple(found))
            )
    return whole, opened, inner


_SMALL: Final = b"a"  # capitals and digits come before it
_LONG_WORD: Final = 17
_WHOLE, _OPENED, _INNER = _by_literal()
_INNER_TEXTS: Final = kernel_twin(Literals)(tuple(_INNER))
_WHOLE_WORDS: Final = kernel_twin(Literals)(tuple(_WHOLE), _ALNUM)
_OPENED_TEXTS: Final = kernel_twin(Literals)(tuple(_OPENED))


def suspects(encoded: bytes) -> tuple[Shape, ...]:
    """The shapes of which a text (ASCII or UTF-8 bytes) may hold a token, in table order."""
    runs, _, longest = _LONG_RUNS.of(encoded)
    return _suspects(encoded, runs, longest)


def looked_at(text: str, window: int = WINDOW) -> tuple[tuple[Shape, ...], frozenset[Shape]]:
    """The shapes that a text may hold, and those that it may hold torn apart (see `torn`).

    A long text is searched in windows of `window` characters, which overlap by the head of a token.
    """
    if len(text) > window + 2 * _SHARED:
        some: set[Shape] = set()
        halves: set[Shape] = set()
        for at in range(0, len(text), window):
            found, torn = looked_at(text[max(0, at - _SHARED) : at + window + _SHARED], window)
            some.update(found)
            halves |= torn
        return tuple([shape for shape in SHAPES if shape in some]), frozenset(halves)
    encoded = text.encode("ascii", "replace")
    runs, edges, longest = _LONG_RUNS.of(encoded)
    plain = _suspects(encoded, runs, longest) if runs else ()
    if b"?" in encoded and any(map(text.__contains__, _WIDTHLESS)):
        narrow = _NARROW.sub("", text).encode("ascii", "replace")
        runs, edges, longest = _LONG_RUNS.of(narrow)
        apart = (*_suspects(narrow, runs, longest), *suspects(_joined(narrow, edges)))
        return plain, frozenset(apart)
    joined = _joined(encoded, edges) if edges else b""
    if not joined:
        return plain, _NONE
    # With the bracket of a terminal's colours, which no run holds.
    return plain, frozenset(suspects(b"[ " + joined if b"[" in encoded else joined))


_NONE: Final[frozenset[Shape]] = frozenset()


def _suspects(encoded: bytes, runs: bytes, longest: int) -> tuple[Shape, ...]:
    """`longest`: the letters and digits of the longest word in the runs."""
    if not runs:
        return ()
    found = [number for literal in _INNER_TEXTS.among(runs) for number in _INNER[literal]]
    plain = _COLOURS.sub(b" ", runs) if b"[" in encoded or b";" in encoded else runs
    # Both readings: `%AB` may be an escape, or a percent sign before a token.
    both = plain
    if b"\\" in runs or b"%" in runs:
        both = plain + b" " + _ESCAPES.sub(b" ", plain)
    whole = [
        literal
        for word in _WHOLE_WORDS.among(both)
        for literal in _WHOLE[word]
        if literal.least <= longest and literal.encoded in runs
    ]
    opened = [one for head in _OPENED_TEXTS.among(runs) for one in _OPENED[head]]
    if whole or opened:
        words = both.translate(_WORDS).split()
        longest = max(map(len, words))  # a colour was one of the words
        for literal in whole:
            if literal.least <= longest:
                found += literal.shapes
        for literal in opened:
            if literal.begins(words):
                found += literal.shapes
    return tuple([SHAPES[number] for number in sorted(set(found))]) if found else ()


class LongRuns:
    """Finds runs of at least so many of these bytes. Its twin is in `_kernel.c`."""

    __slots__ = ("_least", "_long", "_mask", "_words")

    def __init__(self, runs: bytes, words: bytes, least: int, /) -> None:
        # Every byte of a run becomes `x`, so one substring search finds one that is long enough.
        self._mask = bytes(120 if byte in runs else 32 for byte in range(256))
        self._words = bytes(byte if byte in words else 32 for byte in range(256))
        self._long, self._least = b"x" * least, least

    def of(self, encoded: bytes, /) -> tuple[bytes, list[tuple[int, int]], int]:
        """The unbroken runs of a text, and two things about them.

        Each run once and with a space before it; where those begin and end that may be halves of a
        token, with a digit or a backslash in them; how many bytes the longest word has.
        """
        edges: list[tuple[int, int]] = []
        find = encoded.translate(self._mask).find
        at = find(self._long)
        if at < 0:
            return b"", edges, 0
        runs = {b"": None}
        while at >= 0:
            end = find(b" ", at + self._least)
            if end < 0:
                end = len(encoded)
            run = encoded[at:end]
            runs[run] = None
            if _HALF(run) is not None:
                edges.append((at, end))
            at = find(self._long, end)
        joined = b" ".join(runs)
        return joined, edges, max(map(len, joined.translate(self._words).split()), default=0)


_HALF: Final = regex(rb"[0-9\\]").search
_LONG_RUNS: Final = kernel_twin(LongRuns)(bytes(sorted(_RUN)), _ALNUM, RUN_MIN)


# What may stand inside a token that was not meant to: characters without a width, and a break of
# the line with what quotes or numbers the next one; as they are, and as JSON escapes them.
_WIDTHLESS: Final = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_IN_RUN: Final = r"[A-Za-z0-9_.+/=~:%-]"
_QUOTING: Final = r"(?:[ \t]{0,12}(?:[>|#+*-]|//|[0-9]{1,5}(?:\t|\\{1,7}t))?[ \t]{0,8})"
_GAP: Final = regex(
    rf"(?<={_IN_RUN})(?:[{_WIDTHLESS}]+|(?:\\{{1,7}}u(?:00[aA][dD]|200[b-dB-D]|2060|[fF][eE][fF][fF]))+"
    rf"|(?P<line>(?:\\?\r?\n|\\{{1,7}}n|\\{{1,7}}r\\{{1,7}}n){_QUOTING}))(?={_IN_RUN})"
    r"(?!ey[A-Za-z0-9_-]{10})"
)
_NARROW: Final = regex(f"[{_WIDTHLESS}]+")
_NEXT: Final = regex(
    rb"\\?\r?\n(?:[ \t]{0,12}(?:[>|#+*-]|//|[0-9]{1,5}\t)?[ \t]{0,8})(?=[A-Za-z0-9_.+/=~:%-])"
)
_BEFORE: Final = 24  # bytes of quoting before a line's first run
_QUOTED: Final = b" \t>|#+*-/0123456789\r"
_WORD: Final = regex(r"[A-Za-z]?[a-z]*|[A-Z]*")
_WHOLE_RUN: Final = regex(rf"{_IN_RUN}*\Z")
_HEAD_MAX: Final = 4096  # characters of a token before its first gap
_GAPS_MAX: Final = 100  # that one token may go over
_AHEAD_MAX: Final = 3  # of them before it is long enough to be one
_LINE_MIN: Final = 56  # characters of a line that was broken because it was full


def torn(text: str, shapes: frozenset[Shape]) -> Iterator[tuple[str, Span]]:
    """Tokens broken by a line break or by zero-width characters: name and span of each.

    The text is read without those characters, but only where that makes a token.
    """
    view, places, removed = _without_gaps(text)
    found: list[tuple[int, int, str]] = []
    for shape in shapes:  # in any order: what they find is sorted
        last = 0
        for number in range(len(places) - 1):
            if places[number] < last:
                continue
            at = places[number] + removed[number]
            span = _over(view, shape, places, number, partial(_is_short, text, at))
            if span is None:
                continue
            start, end = span[0] + removed[number], span[1] + removed[bisect_left(places, span[1])]
            gap = _GAP.match(text, at)
            assert gap is not None
            if shape.begins(text, start) and _goes_on(text, shape, start, end, gap):
                last = span[1]
                found.append((start, end, shape.name))
    last = 0
    for start, end, name in sorted(found):
        if start >= last:
            yield name, (start, end)
            last = end


def _without_gaps(text: str) -> tuple[str, array[int], array[int]]:
    """The text without its gaps, where each of them was in that, and what is gone before each.

    Both rows end with the place behind the last gap. A long text may have millions of gaps.
    """
    from array import array  # noqa: PLC0415 - few texts may hold a torn token

    places, removed = array("I"), array("I", [0])
    joined: list[str] = []
    pieces: list[str] = []
    last = gone = 0
    for gap in _GAP.finditer(text):
        start, end = gap.span()
        pieces.append(text[last:start])
        places.append(start - gone)
        gone += end - start
        removed.append(gone)
        last = end
        if len(pieces) == _PIECES_MAX:
            joined.append("".join(pieces))
            pieces.clear()
    view = "".join([*joined, *pieces, text[last:]])
    places.append(len(view))
    return view, places, removed


_PIECES_MAX: Final = 4096


def _over(
    view: str, shape: Shape, places: array[int], number: int, is_short: Callable[[], bool]
) -> tuple[int, int] | None:
    """The token that this gap tears first, in the view: over as many more gaps as it goes on.

    None for one that is whole before the break of a short line.
    """
    gap, span = places[number], None
    first, before = max(places[number - 1] if number else 0, gap - _HEAD_MAX), gap
    for ahead, end in enumerate(places[number + 1 : number + 1 + _GAPS_MAX]):
        longer = shape.over(view, first, gap, end)
        if longer is not None:
            if span is None and shape.whole(view, longer[0], gap) and is_short():
                return None
            first = longer[0]
            if span is not None and not _is_tail(view[span[1] : longer[1]]):
                break
            span = longer
        # What does not reach the next gap ends here.
        reaches = _WHOLE_RUN.match(view, before, end) if longer is None else longer[1] == end
        if not reaches or (span is None and ahead == _AHEAD_MAX):
            break
        before = end
    return span


def _is_tail(text: str) -> bool:
    """Whether the characters on the next line could go on with a token: no word of prose."""
    return len(text) >= 4 and _WORD.fullmatch(text) is None


def _goes_on(text: str, shape: Shape, start: int, end: int, gap: re.Match[str]) -> bool:
    """Whether a token that is whole before the break of a line goes on behind it."""
    if gap["line"] is None or shape.ends(text, start) != gap.start():
        return True
    return not _is_short(text, gap.start()) and _is_tail(text[gap.end() : end])


def _is_short(text: str, at: int) -> bool:
    """Whether the gap that begins there breaks a line that was not full."""
    gap = _GAP.match(text, at)
    if gap is None or gap["line"] is None:
        return False
    least = at - _LINE_MIN + 1
    return least < 0 or text.rfind("\n", least, at) >= 0


def _joined(encoded: bytes, edges: list[tuple[int, int]]) -> bytes:
    """The runs at the ends of lines, each with that at the beginning of the next; mostly none.

    Only where one of the two is long: a token is, and so is the longer half of it. Escapes that
    stand for what may tear a token are taken out of a run.
    """
    joined: list[bytes] = []
    done, size = 0, len(encoded)
    for at, end in edges:
        if at < done:
            continue
        first = _run_before(encoded, at)
        if first < at or (end < size and encoded[end] in _LINE_ENDS):
            done = _chain(encoded, first, joined)
        elif b"\\" in encoded[at:end]:
            run = encoded[at:end]
            narrow = _ESCAPED.sub(b"", run)
            if narrow != run:
                joined.append(narrow)
            _put_together(_BROKEN.split(narrow), joined)
    return b" ".join(joined)


_LINE_ENDS: Final = b"\n\r\\"
_ESCAPED: Final = regex(rb"\\{1,7}u(?:00[aA][dD]|200[b-dB-D]|2060|[fF][eE][fF][fF])")
_BROKEN: Final = regex(rb"(?:\\{1,7}r)?\\{1,7}n(?:[>|#+*-]|//)?")
_END_BYTES: Final = 320  # of a run, which is more than any literal with what must stand behind it


def _put_together(pieces: list[bytes], joined: list[bytes]) -> None:
    """Each piece with the two behind it: a literal stands in one of them, the token goes on."""
    for number in range(len(pieces) - 1):
        following = b"".join(piece[:_END_BYTES] for piece in pieces[number + 1 : number + 3])
        joined.append(pieces[number][-_END_BYTES:] + following)


def _run_before(encoded: bytes, at: int) -> int:
    """Where the run begins at the end of the line before; `at` if there is none."""
    line = encoded.rfind(b"\n", max(0, at - _BEFORE), at)
    if line <= 0 or encoded[line + 1 : at].strip(_QUOTED):
        return at
    before = _LAST_RUN.search(encoded, max(0, line - RUN_MIN), line)
    return at if before is None else before.start()


_LAST_RUN: Final = regex(rb"[A-Za-z0-9_.+/=~:%@\\-]+(?=\r?\Z)")
_RUN_ON: Final = regex(rb"[A-Za-z0-9_.+/=~:%@\\-]*")


def _chain(encoded: bytes, first: int, joined: list[bytes]) -> int:
    """Join the runs that continue from line to line; return where they end."""
    pieces: list[bytes] = []
    at = first
    while True:
        run = _RUN_ON.match(encoded, at)
        assert run is not None
        pieces.append(run.group())
        if (gap := _NEXT.match(encoded, run.end())) is None:
            break
        at = gap.end()
    _put_together(pieces, joined)
    return run.end()
