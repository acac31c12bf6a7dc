/**
 * Removes secrets from text by their shapes, so that a secret that an agent wrote by mistake is not passed
 * on: in prompts, views, events, alerts, errors and logs. Only shapes of known kinds of secrets are removed:
 * hashes, commit ids, UUIDs and paths stay, because a text without them is useless.
 *
 * Hidden characters inside a secret do not hide it. Encodings do: a secret in base64, percent-encoding or
 * HTML entities stays, and so does a secret with a visible character or a line break inside. A search for
 * these would decode every text and remove harmless ones, and a secret written by mistake has none of them.
 *
 * Every pattern takes linear time: no repetition inside a repetition. A secret that is cut off at the end of
 * the text is removed too.
 */
import { hasHidden, hiddenAsLineBreaks, placesOfVisible, withoutHidden } from "./hidden-text.ts";
import { LIMITS } from "./limits.ts";

interface Shape {
  readonly name: string;
  /** Global. The group `keep` stays in front of the removed text. */
  readonly pattern: RegExp;
  /** Whether a `value` is a secret. In `stored` content, code and prose must stay as they are. Absent: each is. */
  readonly accepts?: (value: string, keep: string, isStored: boolean) => boolean;
}

/** Values after a name such as `password` that are references, placeholders or code, not secrets. */
const HARMLESS =
  /^(?:\$[{(A-Z_]|%[A-Z_]|<[a-z]|\{\{|\[redacted|\*\*\*|process\.|env\b|os\.|import\b|string\b|str\b|number\b|null\b|undefined\b|none\b|true\b|false\b|required\b|optional\b|missing\b|redacted\b|x{3,}|:[a-z-]+$|[a-z_$]+(?:\.[a-z_$]+)+[\])};]*$|[a-z_$][\w$.]*\([\w$.]*\)?[;)]*$)/i;

/** Words before `token` that make it a word of a model or a place in a list. */
export const PLAIN_TOKENS =
  "next page continuation cursor sync eos bos pad unk mask sep cls stop start first last special cancellation cancel design max min per".split(
    " ",
  );

/** Names whose values are secrets; any other token is one too, such as `DEPLOY_TOKEN`. */
const SECRET_NAME = [
  "pass(?:word|wd|phrase)|\\bpwd|secret|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key",
  "(?:secret|encryption|signing|master)[_-]?key|client[_-]?secret|(?:auth|access|refresh|session)[_-]?token",
  `(?<![a-z0-9])(?<!(?:${PLAIN_TOKENS.join("|")})[_-])token`,
].join("|");

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
  {
    name: "API key",
    pattern: /\bsk-(?<value>(?:ant-|proj-|svcacct-|admin-|or-)?[A-Za-z0-9_-]{20,})/g,
    // Words with hyphens stay.
    accepts: (value) => /\d/.test(value) && /[A-Z]|[a-f0-9]{32}/.test(value),
  },
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
  { name: "Fleet key", pattern: /\bfleet_[a-z2-7]{16}_[\w-]{20,}/g },
  { name: "NATS seed", pattern: /\bS[UAOCNX][A-Z2-7]{56}\b/g },
  { name: "age key", pattern: /\bAGE-SECRET-KEY-1[A-Z0-9]{40,}/g },
  {
    name: "authorization",
    pattern:
      /(?<keep>\bbearer[^\S\n]+|\bauthorization["']?[^\S\n]{0,4}[:=][^\S\n]{0,4}["']?(?:basic|token|apikey)[^\S\n]+)(?=[\w.~+/=-]{0,400}\d)[\w.~+/-]{16,}={0,2}/gi,
  },
  // The user name stays, because it identifies the account. The password ends at the last `@` before the path, because people write one with `@` as it is, but
  // not behind a quotation mark: there another text begins.
  {
    name: "password",
    pattern:
      /(?<keep>\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{0,80}:)(?!\d{1,5}[?#])[^\s/@]{1,400}(?:@[^\s/?#"'`<>]{0,400})?(?=@)/gi,
  },
  // The user is a mail address.
  {
    name: "password",
    pattern:
      /(?<keep>\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{1,80}@[^\s/:@]{1,80}:)[^\s/?#"'`<>]{1,400}(?=@)/gi,
  },
  {
    name: "password",
    pattern: /(?<keep>\bhttps?:\/\/)(?<value>[^\s/:@?#]{16,400})(?=@)/gi,
    accepts: (value, keep) => looksRandom(value, keep),
  },
  // Except prose, as in "password: must be changed".
  {
    name: "password",
    pattern: new RegExp(
      `(?<keep>(?:${SECRET_NAME})\\\\{0,3}["'\`]?[^\\S\\n]{0,4}(?::=|=>|[:=])[^\\S\\n]{0,4}\\\\{0,3}["'\`]?)(?![a-z]{1,20}[^\\S\\n]+[a-z])(?<value>[^\\s"'\`,;]{6,400})`,
      "gi",
    ),
    accepts: (value, keep, isStored) => !isStored || looksRandom(value, keep),
  },
  {
    name: "password",
    pattern: /(?<keep>_(?:PASS|PWD)=["']?)(?<value>[^\s"'`,;]{6,400})/g,
    accepts: (value, keep, isStored) => !isStored || looksRandom(value, keep),
  },
  // The files of Docker and of netrc, and the signature of an address that gives access to a storage.
  {
    name: "password",
    pattern: /(?<keep>"auth\\{0,3}"\s{0,4}:\s{0,4}\\{0,3}")(?<value>[A-Za-z0-9+/]{8,400}={0,2})(?=\\{0,3}")/g,
    accepts: isBasicLogin,
  },
  {
    name: "password",
    pattern:
      /(?<keep>\b(?:machine\s{1,20}\S{1,200}|default)\s{1,20}login\s{1,20}\S{1,200}\s{1,20}password\s{1,20})(?<value>\S{1,400})/g,
  },
  { name: "signature", pattern: /(?<keep>[?&]sig=)[A-Za-z0-9%+/_-]{20,200}={0,2}/g },
  // Options of commands, and the first cookie of a header.
  {
    name: "password",
    pattern:
      /(?<keep>(?<![\w-])(?:--(?:password|passwd|passphrase|secret|token|api-key|access-token)[^\S\n]{1,4}|(?:-u|--user)(?:=|[^\S\n]{1,4})["']?[^\s:"'`]{1,80}:|(?:set-)?cookie["']?:[^\S\n]{0,4}["']?[\w.-]{1,60}=)["']?)(?<value>[^\s"'`,;]{6,400})/gi,
    accepts: (value, keep) => looksRandom(value, keep),
  },
];

/** A user and a password, as Docker stores them. */
function isBasicLogin(value: string): boolean {
  return /^[\x20-\x7e]{1,100}:.{4}/s.test(Buffer.from(value, "base64").toString("latin1"));
}

/** A call, an index or a type, as `tokens[i + 1]` and `z.string().min(8)` begin, or a member of an object. */
const CODE = /^[A-Za-z_$.]+\d{0,4}[A-Za-z_$.]*[[(<]|^[A-Za-z_$]+(?:\.[A-Za-z_$]+)+[!?)\]};]*$/;
/** Words with a number, and files with their lines: `HashedPassword2`, `db-credentials`, `src/token.ts:120`. */
const NAMED = /^[A-Za-z_$.:/\\-]+\d{0,4}\W*$|^[\w.@-]+(?:\/[\w.@-]+)+\.[a-z]{2,4}\d?(?::\d+)*$/;

/** `keep`: the text before the value. In quotation marks, a word is a secret too. */
function looksRandom(value: string, keep: string): boolean {
  if (CODE.test(value) || !/[A-Za-z]/.test(value)) return false;
  return /["'`]$/.test(keep) || (/\d/.test(value) && !NAMED.test(value));
}

/** Each once. */
export const SHAPE_NAMES: readonly string[] = [...new Set(SHAPES.map(({ name }) => name))];

/** Whether a value under a secret's name is a reference or a placeholder. */
export const isPlaceholder = (value: string): boolean => HARMLESS.test(value);

/** Matches the beginnings of all shapes. Nearly every text has none of them and needs no further pattern. */
const SUSPECT =
  /-----BEGIN|A[A-Z]{3}[A-Z0-9]{16}|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|xox|xapp|hooks\.|webhooks|sk-|AIza|ya29|GOCSPX|[rs]k_|whsec|npm_|pypi-|dckr_|hf_|gsk_|r8_|SG\.|key-|_v1_|hv[bsr]\.|dapi|lin_|sbp_|:AA|eyJ|fleet_[a-z2-7]{16}_|S[UAOCNX][A-Z2-7]{56}|AGE-|bearer|basic|token|:\/\/|pass|pwd|secret|key|"auth|[?&]sig=|-u |--user|cookie/i;

export interface Redacted {
  readonly text: string;
  /** The number of removed secrets. */
  readonly count: number;
  /** The shape of each removed secret. */
  readonly shapes: readonly string[];
}

/**
 * A text without secrets is returned unchanged, with its hidden characters. `use`: a text that is only shown loses every value of a
 * name such as `password`; of one that is stored, code and prose stay.
 */
export function redact(text: string, use: "shown" | "stored" = "shown"): Redacted {
  const isStored = use === "stored";
  if (!hasHidden(text)) return removeSecrets(text, unchanged, isStored);
  const joined = removeSecrets(text, withoutHidden, isStored);
  // Hidden characters may also separate a secret from a word before it.
  const separate = removeSecrets(joined.text, hiddenAsLineBreaks, isStored);
  const shapes = [...joined.shapes, ...separate.shapes];
  return { text: separate.text, count: shapes.length, shapes };
}

const unchanged = (text: string): string => text;

/** Removes from the text the secrets in a view of it: its visible part, or a text of the same length. */
function removeSecrets(text: string, viewOf: (text: string) => string, isStored: boolean): Redacted {
  let view = viewOf(text);
  if (!SUSPECT.test(view)) return { text, count: 0, shapes: [] };
  let clean = text;
  const shapes: string[] = [];
  for (const shape of SHAPES) {
    const secrets = secretsIn(view, shape, isStored);
    if (secrets.length === 0) continue;
    for (const _ of secrets) shapes.push(shape.name);
    const places = clean.length === view.length ? null : placesOfVisible(clean);
    clean = replaceParts(clean, secrets, `[redacted: ${shape.name}]`, places);
    view = viewOf(clean);
  }
  return { text: clean, count: shapes.length, shapes };
}

export interface TextPart {
  readonly begin: number;
  readonly end: number;
}

function secretsIn(text: string, { pattern, accepts }: Shape, isStored: boolean): TextPart[] {
  const parts: TextPart[] = [];
  for (const { index, 0: found, groups } of text.matchAll(pattern)) {
    const { value, keep = "" } = groups ?? {};
    if (value !== undefined && (HARMLESS.test(value) || accepts?.(value, keep, isStored) === false)) continue;
    parts.push({ begin: index + keep.length, end: index + found.length });
  }
  return parts;
}

/** `places`: where the characters that the parts count stand in the text. null: at their own index. */
export function replaceParts(
  text: string,
  parts: readonly TextPart[],
  replacement: string,
  places: Uint32Array | null,
): string {
  const placeOf = (at: number): number => places?.[at] ?? at;
  let [result, done] = ["", 0];
  for (const { begin, end } of parts) {
    result += text.slice(done, placeOf(begin)) + replacement;
    done = placeOf(end - 1) + 1;
  }
  return result + text.slice(done);
}

/**
 * A copy of data as JSON would have it, without the secrets in its texts and names. Errors, dates and bytes
 * stay.
 */
export function redactedData(value: unknown, charsMax = Number.POSITIVE_INFINITY): unknown {
  return copyOf(value, charsMax, []);
}

function copyOf(value: unknown, charsMax: number, parents: readonly object[]): unknown {
  if (typeof value === "string") return boundedText(value, charsMax);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error || value instanceof Date || ArrayBuffer.isView(value)) return value;
  // A log line may hold any object, even one that contains itself.
  if (parents.includes(value) || parents.length >= DEPTH_MAX) return "…";
  const within = [...parents, value];
  if (Array.isArray(value)) return value.map((item) => copyOf(item, charsMax, within));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyOf(toJSON.call(value), charsMax, within);
  const members = Object.entries(value).map(([name, member]) => [
    boundedText(name, charsMax),
    copyOf(member, charsMax, within),
  ]);
  return Object.fromEntries(members);
}

const DEPTH_MAX = 20;

/**
 * Cut only after the removal, so that no part of a secret stays. The cut may split a surrogate pair, and half of
 * one is not valid text.
 */
export function boundedText(text: string, charsMax: number): string {
  const clean = redact(text).text;
  return clean.length <= charsMax ? clean : `${clean.slice(0, charsMax).toWellFormed()}…`;
}

/** The reason of a handoff without secrets. The replacement of a secret may be longer than the secret. */
export function redactedReason(reason: string): string {
  return redact(reason).text.slice(0, LIMITS.handoff_reason_chars_max).toWellFormed();
}
