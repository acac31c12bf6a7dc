/**
 * Values that the names of their members make secrets, such as `password` or `x-api-key`. The last words of a name decide, so that
 * `token_count`, `tokens`, `secret_scan` and `password_policy` stay. Under the name of a secret, a hash or an id is a secret too.
 */
import { isPlaceholder, PLAIN_TOKENS } from "../../protocol/redaction.ts";

/**
 * `strong`: the value is nearly always a secret; `compound`: unless it is a word. `weak`: only if it looks like one. `inside`: the name
 * of an object around it, which has other values too. `header`: words may stand before it.
 */
export type SecretName = "strong" | "compound" | "weak" | "inside" | "header";

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
const PLAIN = new Set(PLAIN_TOKENS);
/** Words before `key` that make it a secret only if it can hardly be anything else. */
const PROVIDERS = new Set(
  "stripe openai anthropic gemini mistral cohere github gitlab google azure aws gcp sendgrid twilio slack mailgun datadog sentry license".split(
    " ",
  ),
);
/** Which one of several secrets it is. */
const VARIANT =
  /^(?:\d+|prod|production|staging|dev|old|new|current|previous|prev|confirm|confirmation|repeat|again)$/;
/** Compound names in one word. */
const COMPOUND =
  /(?:password|passwd|passphrase|apikey|secretkey|privatekey|accesskey|accountkey|authtoken|accesstoken|refreshtoken|clientsecret)s?$/;
const NAME_CHARS_MAX = 100;

/** undefined: the name says nothing about its value. */
export function secretNameOf(name: string): SecretName | undefined {
  // Paths and sentences are no names of members.
  if (name.length > NAME_CHARS_MAX || /[/\\\s]/.test(name)) return undefined;
  const words = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g)?.map((word) => word.toLowerCase()) ?? [];
  while (words.length > 1 && VARIANT.test(words.at(-1)!)) words.pop();
  const last = words.at(-1) ?? "";
  const before = words.at(-2) ?? "";
  if (/^(?:is|has|needs|use|uses|no|public)$/.test(words[0] ?? "")) return undefined;
  if (last === "authorization" || (last === "cookie" && before !== "")) return "header";
  if (last === "token" && PLAIN.has(before)) return undefined;
  if (STRONG.has(last)) return before === "" ? "strong" : "compound";
  if (COMPOUND.test(last) || (last === "secret" && before !== "")) return "compound";
  if (/^keys?$/.test(last) && KEYS.has(before)) return "compound";
  if (/^keys?$/.test(last) && PROVIDERS.has(before)) return "inside";
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
  if (/\s/.test(text) || PATH.test(text)) return false;
  if (kind === "inside") return CERTAIN.test(text);
  if (kind === "compound") return !WORDS.test(text);
  return kind === "strong" || looksRandom(text);
}

const WORDS = /^[a-z]+(?:[-_.:][a-z]+)*$/;
/** A file with an extension, perhaps with a line in it. */
const PATH = /^[\w.@-]+(?:\/[\w.@-]+)+\.[a-z]{2,4}\d?(?::\d+)*$/;
/** Not an id, a date, a word or an address. */
const CERTAIN = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[^\s/:.,]{12,}$/;

const isHeader = (text: string): boolean =>
  text.length >= WEAK_CHARS_MIN &&
  (/^[A-Za-z][\w-]*\s+\S{8,}/.test(text)
    ? /\d|=|[a-z][A-Z]/.test(text)
    : /=/.test(text) || looksRandom(text));

/** Words, numbers and versions are no secrets. */
function looksRandom(text: string): boolean {
  if (text.length < WEAK_CHARS_MIN || /\s/.test(text) || /^[\d.,:/+-]+$/.test(text)) return false;
  return /\d/.test(text) || (/[a-z]/.test(text) && /[A-Z].*[A-Z]/.test(text)) || /[^\w.,:-]/.test(text);
}
