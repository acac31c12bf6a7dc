/**
 * Removes secrets from text by their shapes, so that a secret that an agent wrote by mistake is not passed
 * on. Only shapes of known kinds of secrets are removed: hashes, commit ids, UUIDs and paths stay, because a
 * text without them is useless.
 *
 * Every pattern takes linear time: no repetition inside a repetition. A secret that is cut off at the end of
 * the text is removed too.
 */

interface Shape {
  readonly name: string;
  /** Global. The group `keep` stays in front of the removed text. */
  readonly pattern: RegExp;
}

/** Values after a name such as `password` that are references or placeholders, not secrets. */
const HARMLESS =
  /^(?:\$[{(A-Z_]|%[A-Z_]|<[a-z]|\{\{|\[redacted|\*\*\*|process\.|env\b|os\.|import\b|string\b|str\b|number\b|null\b|undefined\b|none\b|true\b|false\b|required\b|optional\b|missing\b|redacted\b|x{3,})/i;

const SHAPES: readonly Shape[] = [
  {
    name: "private key",
    pattern:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  },
  { name: "AWS key id", pattern: /\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b/g },
  { name: "GitHub token", pattern: /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})/g },
  { name: "GitLab token", pattern: /\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_-]{16,}/g },
  { name: "Slack token", pattern: /\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}/g },
  {
    name: "webhook",
    pattern:
      /\bhttps:\/\/(?:hooks\.slack\.com\/(?:services|workflows)|discord(?:app)?\.com\/api\/webhooks)\/[\w/-]+/g,
  },
  { name: "API key", pattern: /\bsk-(?:ant-|proj-|svcacct-|admin-|or-)?[A-Za-z0-9_-]{20,}/g },
  { name: "Google key", pattern: /\bAIza[0-9A-Za-z_-]{35}|\bya29\.[0-9A-Za-z_-]{20,}|\bGOCSPX-[\w-]{20,}/g },
  { name: "payment key", pattern: /\b(?:[rs]k|whsec)_(?:live_|test_)?[0-9A-Za-z]{20,}/g },
  {
    name: "registry token",
    pattern: /\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bdckr_(?:pat|oat)_[\w-]{20,}/g,
  },
  { name: "model hub token", pattern: /\bhf_[A-Za-z0-9]{30,}|\bgsk_[A-Za-z0-9]{30,}|\br8_[A-Za-z0-9]{30,}/g },
  { name: "mail key", pattern: /\bSG\.[\w-]{16,}\.[\w-]{16,}|\bkey-[0-9a-f]{32}\b/g },
  {
    name: "cloud token",
    pattern:
      /\bdo[opr]_v1_[a-f0-9]{40,}|\bhv[bsr]\.[\w-]{20,}|\bdapi[a-f0-9]{32}\b|\blin_api_\w{30,}|\bsbp_[a-f0-9]{40}\b/g,
  },
  { name: "bot token", pattern: /\b\d{8,10}:AA[\w-]{30,}/g },
  { name: "JSON web token", pattern: /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?/g },
  { name: "NATS seed", pattern: /\bS[UAOCNX][A-Z2-7]{56}\b/g },
  { name: "age key", pattern: /\bAGE-SECRET-KEY-1[A-Z0-9]{40,}/g },
  {
    name: "authorization",
    pattern:
      /(?<keep>\bbearer[ \t]+|\bauthorization["']?[ \t]{0,4}[:=][ \t]{0,4}["']?(?:basic|token|apikey)[ \t]+)(?=[\w.~+/=-]{0,400}\d)[\w.~+/-]{16,}={0,2}/gi,
  },
  // The user name stays, because it identifies the account.
  { name: "password", pattern: /(?<keep>\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{0,80}:)[^\s/@]{1,400}(?=@)/gi },
  // Except prose, as in "password: must be changed".
  {
    name: "password",
    pattern:
      /(?<keep>(?:pass(?:word|wd|phrase)|\bpwd|secret|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|client[_-]?secret|auth[_-]?token|access[_-]?token|refresh[_-]?token|session[_-]?token|\btoken)["'`]?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}["'`]?)(?![a-z]{1,20}[ \t]+[a-z])(?<value>[^\s"'`,;]{6,400})/gi,
  },
];

/** Matches the beginnings of all shapes. Nearly every text has none of them and needs no further pattern. */
const SUSPECT =
  /-----BEGIN|A[A-Z]{3}[A-Z0-9]{16}|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|xox|xapp|hooks\.|webhooks|sk-|AIza|ya29|GOCSPX|[rs]k_|whsec|npm_|pypi-|dckr_|hf_|gsk_|r8_|SG\.|key-|_v1_|hv[bsr]\.|dapi|lin_|sbp_|:AA|eyJ|S[UAOCNX][A-Z2-7]{56}|AGE-|bearer|basic|token|:\/\/|pass|pwd|secret|key/i;

export interface Redacted {
  readonly text: string;
  /** The number of removed secrets. */
  readonly count: number;
}

export function redact(text: string): Redacted {
  if (!SUSPECT.test(text)) return { text, count: 0 };
  let count = 0;
  let clean = text;
  for (const { name, pattern } of SHAPES) {
    clean = clean.replace(pattern, (found, ...rest) => {
      const groups = rest.at(-1) as { keep?: string; value?: string } | undefined;
      const value = typeof groups === "object" ? groups.value : undefined;
      if (value !== undefined && HARMLESS.test(value)) return found;
      count += 1;
      return `${typeof groups === "object" ? (groups.keep ?? "") : ""}[redacted: ${name}]`;
    });
  }
  return { text: clean, count };
}
