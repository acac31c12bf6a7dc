/**
 * Values that the names of their members make secrets, such as `password` or `x-api-key`. The last words of a name decide, so that
 * `token_count`, `tokens`, `secret_scan` and `password_policy` stay. Under the name of a secret, a hash or an id is a secret too.
 */
import { isPlaceholder } from "../../protocol/redaction.ts";

/** `strong`: the value is nearly always a secret. `weak`: only if it looks like one. `header`: words may stand before it. */
export type SecretName = "strong" | "weak" | "header";

const STRONG = new Set(["password", "passwd", "passphrase", "pwd", "passcode"]);
const WEAK = new Set(
  "secret secrets token pass passwords cookie cookies creds credential credentials seed mnemonic".split(" "),
);
/** Words before `key` that make it a secret. */
export const KEY_WORDS =
  "api access private secret signing encryption account master ssh auth session shared storage deploy app service".split(
    " ",
  );
const KEYS = new Set(KEY_WORDS);
/** Words before `token` that make it a word of a model or a place in a list. */
const PLAIN_TOKENS = new Set(
  "next page continuation cursor sync eos bos pad unk mask sep cls stop start first last special cancellation cancel design max min per".split(
    " ",
  ),
);
/** Compound names in one word. */
const COMPOUND =
  /(?:password|passwd|passphrase|apikey|secretkey|privatekey|accesskey|accountkey|authtoken|accesstoken|refreshtoken|clientsecret)s?$/;
const NAME_CHARS_MAX = 100;

/** undefined: the name says nothing about its value. */
export function secretNameOf(name: string): SecretName | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined;
  const words = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g)?.map((word) => word.toLowerCase()) ?? [];
  const last = words.at(-1) ?? "";
  const before = words.at(-2) ?? "";
  if (/^(?:is|has|needs|use|uses|no|public)$/.test(words[0] ?? "")) return undefined;
  if (last === "authorization" || (last === "cookie" && before !== "")) return "header";
  if (last === "token" && PLAIN_TOKENS.has(before)) return undefined;
  if (STRONG.has(last) || COMPOUND.test(last)) return "strong";
  if (last === "secret" && before !== "") return "strong";
  if (/^keys?$/.test(last) && KEYS.has(before)) return "strong";
  return WEAK.has(last) ? "weak" : undefined;
}

const STRONG_CHARS_MIN = 6;
const WEAK_CHARS_MIN = 8;
/** Paths, addresses and names of where a secret is. An address with a password has its own shape. */
const REFERENCE = /^(?:[.~]{0,2}[/\\]|[A-Za-z]:\\|[a-z][\w+.-]*:\/\/|(?:arn|vault|env|file|secretref):)/i;
const ENVIRONMENT_NAME = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$/;
/** Code: a call, or a member of an object. */
const EXPRESSION =
  /^(?:await\s+)?[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*\(.*\)$|^[A-Za-z_$]+(?:\.[A-Za-z_$]+)+$/;
export const FILE_NAME =
  /^[\w./-]+\.(?:pem|key|crt|cert|json|ya?ml|txt|env|ts|js|py|go|md|toml|ini|creds|nk)$/i;

export function isSecretValue(kind: SecretName, value: string): boolean {
  const text = value.trim();
  if (text.length < STRONG_CHARS_MIN || text.includes("[redacted") || isPlaceholder(text)) return false;
  if (REFERENCE.test(text) || ENVIRONMENT_NAME.test(text)) return false;
  if (EXPRESSION.test(text) || FILE_NAME.test(text)) return false;
  if (kind === "header") return isHeader(text);
  if (/\s/.test(text)) return false;
  return kind === "strong" || looksRandom(text);
}

const isHeader = (text: string): boolean =>
  text.length >= WEAK_CHARS_MIN &&
  (/^[A-Za-z][\w-]*\s+\S{8,}/.test(text)
    ? /\d|=|[a-z][A-Z]/.test(text)
    : /=/.test(text) || looksRandom(text));

/** Words, numbers and versions are no secrets. */
function looksRandom(text: string): boolean {
  if (text.length < WEAK_CHARS_MIN || /\s/.test(text) || /^[\d.,:+-]+$/.test(text)) return false;
  return /\d/.test(text) || (/[a-z]/.test(text) && /[A-Z].*[A-Z]/.test(text)) || /[^\w.,:-]/.test(text);
}
