"""Made-up secrets of every shape, put together at run time, so that no scanner takes them for real."""

import hashlib
from functools import partial

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def letters(alphabet, n, seed=0, salt=""):
    """n characters that look random and are always the same."""
    out = []
    while len(out) < n:
        block = hashlib.sha256(f"{alphabet}{len(out)}{seed}{salt}".encode()).digest()
        out += [alphabet[byte % len(alphabet)] for byte in block]
    return "".join(out[:n])


def dot(*parts):
    return ".".join(parts)


def tokens(salt=""):
    """Tokens of every provider of the table; another salt gives others."""
    a = partial(letters, ALNUM, salt=salt)
    h = partial(letters, "0123456789abcdef", salt=salt)
    u = partial(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", salt=salt)
    low = partial(letters, "abcdefghijklmnopqrstuvwxyz0123456789", salt=salt)
    d = partial(letters, "123456789", salt=salt)

    def uuid(seed=0):
        return f"{h(8, seed)}-{h(4, seed)}-{h(4, seed)}-{h(4, seed)}-{h(12, seed)}"

    return {
        "anthropic-key": ["sk-" + "ant-api03-" + a(93) + "AA"],
        "openrouter-key": ["sk-" + "or-v1-" + h(64)],
        "openai-key": [
            "sk-" + "proj-" + a(74),
            "sk-" + "svcacct-" + a(50),
            "sk-" + a(48),
            "sk-" + h(32),
        ],
        "langfuse-key": ["sk-" + "lf-" + uuid()],
        "langsmith-key": ["lsv2_" + "pt_" + h(32) + "_" + h(10)],
        "perplexity-key": ["pplx-" + a(48)],
        "groq-key": ["gsk_" + a(52)],
        "xai-key": ["xai-" + a(80)],
        "replicate-token": ["r8_" + a(37)],
        "huggingface-token": [
            "hf_" + a(34),
            "api_" + "org_" + "abcdefghijklmnopqrstuvwxyzabcdefgh",
        ],
        "aws-access-key": ["AKIA" + u(16), "ASIA" + u(16)],
        "aws-bedrock-key": ["ABSK" + a(120) + "=", "bedrock-" + "api-key-" + a(40)],
        "github-token": [
            "ghp_" + a(36),
            "gho_" + a(36),
            "ghs_" + a(36),
            "ghs_" + "20260101_ey" + dot(a(20), a(40), a(20)),
        ],
        "github-fine-grained-token": ["github_" + "pat_" + a(22) + "_" + a(59)],
        "gitlab-token": ["glpat-" + a(20), "glrt-" + a(20), "glcbt-" + "64_" + a(20)],
        "gitlab-runner-token": ["GR1348" + "941" + a(20)],
        "gitlab-session": ["_gitlab_" + "session=" + low(32)],
        "slack-webhook": ["hooks.slack" + ".com/services/T" + u(8) + "/B" + u(10) + "/" + a(24)],
        "slack-token": [
            "xoxb-" + d(12) + "-" + d(12) + "-" + a(24),
            "xoxp-" + d(12) + "-" + a(30),
            "xapp-" + "1-A" + u(10) + "-" + d(12) + "-" + h(64),
            "xoxe." + "xoxp-1-" + a(163),
        ],
        "stripe-key": ["sk_" + "live_" + a(24), "rk_" + "test_" + a(24), "whsec_" + a(32)],
        "google-api-key": ["AIza" + a(35)],
        "google-oauth": ["ya29." + a(60), "GOCSPX-" + a(28), "1//0" + a(60)],
        "azure-client-secret": [a(3) + "8Q~" + a(34)],
        "azure-storage-key": ["Account" + "Key=" + a(86) + "=="],
        "azure-sas-signature": ["sig=" + a(43) + "%3D"],
        "digitalocean-token": ["dop_v1_" + h(64), "doo_v1_" + h(64)],
        "npm-token": ["npm_" + a(36)],
        "pypi-token": ["pypi-" + "AgEIcHlwaS5vcmc" + a(70)],
        "rubygems-key": ["rubygems_" + h(48)],
        "clojars-token": ["CLOJARS_" + low(60)],
        "docker-token": ["dckr_" + "pat_" + a(27)],
        "sendgrid-key": ["SG." + dot(a(22), a(43))],
        "sendinblue-key": ["xkeysib-" + h(64) + "-" + a(16)],
        "twilio-key": ["SK" + h(32)],
        "mailgun-key": ["key-" + h(32)],
        "mailchimp-key": [h(32) + "-us12"],
        "resend-key": ["re_" + a(8) + "_" + a(24)],
        "shopify-token": ["shpat_" + h(32), "shpss_" + h(32)],
        "square-token": ["sq0atp-" + a(22), "sq0csp-" + a(43), "EAAA" + a(60)],
        "facebook-token": ["EAAM" + a(120)],
        "shippo-token": ["shippo_" + "live_" + h(40)],
        "easypost-key": ["EZAK" + a(54)],
        "duffel-token": ["duffel_" + "test_" + a(43)],
        "flutterwave-key": ["FLWSECK_" + "TEST-" + h(32) + "-X"],
        "telegram-token": [d(10) + ":AA" + a(33)],
        "discord-token": ["MT" + dot(a(24), a(6), a(38))],
        "discord-webhook": ["discord" + ".com/api/webhooks/" + d(18) + "/" + a(68)],
        "teams-webhook": [
            "webhook.office.com/webhookb2/" + uuid() + "@" + uuid() + "/IncomingWebhook/" + h(32)
        ],
        "databricks-token": ["dapi" + h(32)],
        "linear-key": ["lin_" + "api_" + a(40)],
        "notion-token": ["ntn_" + a(46), "secret_" + a(43)],
        "figma-token": ["figd_" + a(40)],
        "airtable-token": ["pat" + dot(a(14), h(64))],
        "hubspot-token": ["pat-" + "na1-" + uuid()],
        "harness-key": ["pat." + dot(a(22), a(24), a(20))],
        "vault-token": ["hvs." + a(90), "hvb." + a(140)],
        "terraform-token": [dot(a(14), "atlasv1", a(67))],
        "doppler-token": ["dp." + "pt." + a(43)],
        "pulumi-token": ["pul-" + h(40)],
        "netlify-token": ["nfp_" + a(36)],
        "fly-token": ["fo1_" + a(43), "fm2_" + a(120)],
        "render-key": ["rnd_" + a(28)],
        "heroku-key": ["HRKU-" + "AA" + a(58)],
        "supabase-key": ["sbp_" + h(40), "sb_" + "secret_" + a(31)],
        "planetscale-token": ["pscale_" + "pw_" + a(43)],
        "cloudflare-origin-key": ["v1.0-" + h(24) + "-" + h(146)],
        "cloudflare-token": ["cfat_" + a(48)],
        "docker-swarm-token": ["SWMTKN-" + "1-" + low(50) + "-" + low(25)],
        "defined-networking-key": ["dnkey-" + a(26) + "-" + a(52)],
        "amazon-mws-key": ["amzn." + "mws." + uuid()],
        "bitbucket-token": ["BBDC-" + a(44)],
        "authress-key": ["sc_" + dot(low(12), low(5), "acc-" + low(16), low(40))],
        "clickhouse-key": ["4b1d" + a(38)],
        "new-relic-key": ["NRAK-" + u(27), "NRJS-" + h(19)],
        "grafana-token": ["glc_" + a(60), "glsa_" + a(32) + "_" + h(8), "eyJrIjoi" + a(80)],
        "sentry-token": ["sntrys_" + a(80), "sntryu_" + h(64)],
        "dynatrace-token": ["dt0c01." + dot(u(24), u(64))],
        "postman-key": ["PMAK-" + h(24) + "-" + h(34)],
        "readme-key": ["rdme_" + low(70)],
        "prefect-key": ["pnu_" + a(36)],
        "infracost-key": ["ico-" + a(32)],
        "buildkite-token": ["bkua_" + h(40)],
        "circleci-token": ["CCIPAT_" + a(22) + "_" + h(40)],
        "sonar-token": ["squ_" + h(40)],
        "sourcegraph-token": ["sgp_" + h(16) + "_" + h(40), "sgp_" + h(40)],
        "contentful-token": ["CFPAT-" + a(43)],
        "typeform-token": ["tfp_" + a(59)],
        "dropbox-token": ["sl." + a(135)],
        "atlassian-token": ["ATATT3" + a(180), "ATBB" + a(32)],
        "tailscale-key": ["tskey-" + "auth-" + a(14) + "-" + a(32)],
        "artifactory-key": ["AKCp" + a(69), "cmVmd" + a(59)],
        "alibaba-key": ["LTAI" + a(20)],
        "adobe-secret": ["p8e-" + low(32)],
        "yandex-key": ["AQVN" + a(36)],
        "maxmind-key": [a(6) + "_" + a(29) + "_mmk"],
        "octopus-key": ["API-" + u(26)],
        "openshift-token": ["sha256~" + a(43)],
        "settlemint-token": ["sm_" + "pat_" + a(16)],
        "scalingo-token": ["tk-us-" + a(48)],
        "frameio-token": ["fio-u-" + a(64)],
        "intra42-secret": ["s-s4t2" + "ud-" + h(64)],
        "onepassword-token": ["ops_" + "eyJ" + a(260)],
        "onepassword-secret-key": ["-".join(["A3", u(6), u(11), u(5), u(5, 1), u(5, 2)])],
        "age-key": ["AGE-" + "SECRET-KEY-1" + u(58)],
        "jwt": ["eyJ" + dot(a(30), "eyJ" + a(60), a(43))],
        "vault-legacy-token": ["s." + "Ab1" + a(20) + "9"],
        "posthog-key": ["phc_" + a(43), "phx_" + a(48)],
        "llamaindex-key": ["llx-" + a(48)],
        "tavily-key": ["tvly-" + a(32), "tvly-" + "dev-" + a(32)],
        "together-key": ["tgp_" + "v1_" + a(43)],
        "vercel-token": ["vcp_" + a(56), "vck_" + a(48)],
        "wundergraph-key": ["cosmo_" + h(32)],
        "akamai-token": ["akab-" + low(16) + "-" + low(16)],
        "nats-seed": ["SU" + u(56), "SA" + u(56)],
        "nuget-key": ["oy2" + low(43)],
        "instagram-token": ["IGQ" + a(120)],
        "ntlm-message": ["TlRMTVNTUAA" + a(60) + "=="],
        "salesforce-client-id": ["3MVG9" + a(80)],
        "lob-key": ["live_" + h(35), "test_" + "pub_" + h(31)],
        "mapbox-token": ["sk." + dot(a(80), a(22))],
        "plaid-token": ["access-" + "production-" + uuid()],
        "yandex-token": ["t1." + dot(a(20), a(86))],
        "yandex-secret": ["YC" + a(38)],
        "twitter-bearer": ["A" * 22 + "b" + a(85)],
        "voyage-key": ["pa-" + a(43)],
        "pinecone-key": ["pcsk_" + a(68)],
        "fireworks-key": ["fw_" + a(24)],
        "cerebras-key": ["csk-" + low(48)],
        "nvidia-key": ["nvapi-" + a(64)],
        "e2b-key": ["e2b_" + h(40)],
        "neon-key": ["napi_" + low(64)],
        "session-cookie": ["sessionid=" + a(32), "JSESSIONID=" + u(32), "PHPSESSID=" + low(26)],
        "laravel-key": ["base64:" + a(43) + "="],
        "extended-private-key": ["xprv" + "9s21ZrQH143K" + letters(BASE58, 95, salt=salt)],
        "azure-devops-token": [a(76) + "AZDO" + a(4, 1)],
        "azure-key": [a(52) + "JQQJ99" + a(26)],
        "fcm-key": ["AAAA" + a(7) + ":APA91b" + a(134)],
        "docker-config": ["eyJhdXRocyI6" + a(80) + "="],
        "private-key-der": [
            "MIIEpAIBAA" + "KCAQEA" + a(200),
            "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + a(200),
            "MHcCAQEE" + a(120),
            "b3BlbnNzaC1rZXktdjE" + a(200),
        ],
        "razorpay-key": ["rzp_" + "live_" + a(14)],
        "gcs-hmac-key": ["GOOG1" + u(56)],
        "tencent-key": ["AKID" + a(32)],
        "launchdarkly-key": ["sdk-" + uuid(), "mob-" + uuid()],
        "chat-webhook": [
            "hooks.zapier" + ".com/hooks/catch/" + d(8) + "/" + low(7),
            "open-apis/bot/v2/hook/" + uuid(),
            "maker.ifttt" + ".com/trigger/deploy/with/key/" + a(22),
        ],
        "k3s-token": ["K10" + h(64) + "::server:" + h(32)],
        "private-key-base64": ["LS0tLS1CRUdJTi" + "BSU0EgUFJJVkFURSBLRVktLS0tLQp" + a(200)],
    }


TOKENS = tokens()
