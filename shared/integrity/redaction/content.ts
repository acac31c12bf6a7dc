/**
 * Removes the secrets from content before it is hashed: from the values of the JSON, not from its text. The rules in their order: known
 * secrets, the shapes of Fleet, names of members, the rules of `secretlint`.
 */
import { FleetError, invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { redact } from "../../protocol/redaction.ts";
import type { RedactedPart } from "../../protocol/redaction-report.ts";
import type { KnownSecrets } from "./known-secrets.ts";
import { isSecretValue, type SecretName } from "./member-names.ts";
import { type FoundSecret, mayHaveSecret, secretsInTexts } from "./secret-rules.ts";
import { mapTexts, type TextPlace, visitTexts } from "./texts.ts";

/** Content that is shortened afterwards may be larger than a message. */
export const SEARCHED_CHARS_MAX = 4 * LIMITS.payload_bytes_max;

export interface RedactedContent<T> {
  readonly content: T;
  /** One entry for each removed secret. */
  readonly report: readonly RedactedPart[];
}

/** The content is read at once; later changes to it have no effect. Throws TOO_LARGE; INTERNAL if a rule fails, because content that was not searched must not be written. */
export async function redactContent<T>(content: T, known: KnownSecrets): Promise<RedactedContent<T>> {
  const report: RedactedPart[] = [];
  const clean = ownRules(known, report);
  let chars = 0;
  const first = mapTexts(content, (text, place) => {
    chars += text.length;
    if (chars > SEARCHED_CHARS_MAX) throw tooLarge();
    return clean(text, place);
  });
  // In the order of the copy, where a name that was a number and is replaced has another place.
  const texts: string[] = [];
  visitTexts(first, (text) => {
    texts.push(text);
    return text;
  });
  // Commands such as the release of a task have none, and must not depend on the rules.
  if (!texts.some(mayHaveSecret)) return { content: first, report };
  const found = await secretsInTexts(texts).catch((cause: unknown) => {
    throw new FleetError("INTERNAL", "the content could not be searched for secrets; nothing was written", {
      // Without the cause, whose message may repeat a part of the content.
      details: { failure: cause instanceof Error ? cause.name : typeof cause },
    });
  });
  if (found.every((parts) => parts.length === 0)) return { content: first, report };
  let index = 0;
  const second = mapTexts(first, (text, place) => {
    const parts = found[index] ?? [];
    index += 1;
    for (const { rule } of parts) report.push({ path: place.path(), rule });
    return withoutFound(text, parts);
  });
  return { content: second, report };
}

/** Where secrets of the shapes of Fleet stand, without those of any other rule: fast enough for a writer. */
export function secretShapesIn(content: unknown): readonly RedactedPart[] {
  const found: RedactedPart[] = [];
  visitTexts(content, (text, { path }) => {
    const { text: clean, shapes } = redact(text, "stored");
    for (const rule of shapes) found.push({ path: path(), rule });
    return clean;
  });
  return found;
}

/** One text without a name, such as a prompt, without the secrets that {@link redactContent} finds. */
export async function redactedText(text: string): Promise<string> {
  if (text === "") return text;
  const kept = redact(text, "stored").text;
  return withoutFound(kept, (await secretsInTexts([kept]))[0] ?? []);
}

/** Cleans the texts of one content, in their order. */
function ownRules(known: KnownSecrets, report: RedactedPart[]): (text: string, place: TextPlace) => string {
  const isKeyLine = keyLines();
  return (text, { path, secret, list }) => {
    const add = (rule: string): void => void report.push({ path: path(), rule });
    const { text: unknown, count } = known.replaced(text, replacementOf("known secret"));
    for (let i = 0; i < count; i += 1) add("known secret");
    if (isKeyLine(unknown, list)) {
      add("private key");
      return replacementOf("private key");
    }
    const { text: kept, shapes } = redact(unknown, "stored");
    for (const shape of shapes) add(shape);
    if (!isNamedSecret(secret, kept)) return kept;
    add("member name");
    return replacementOf("member name");
  };
}

const isNamedSecret = (name: SecretName | undefined, text: string): boolean =>
  name !== undefined && isSecretValue(name, text);

const KEY_BEGINS = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s*$/;
const KEY_ENDS = /^\s*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/;
const KEY_LINE = /^\s*[A-Za-z0-9+/=]{40,76}\s*$/;
/** The last line of a key, and its checksum. */
const KEY_REST = /^\s*[A-Za-z0-9+/=]{1,39}\s*$/;
/** Lines before those of an encrypted key. */
const KEY_HEADER = /^\s*$|^[A-Za-z-]{1,30}: /;

/** The lines of a private key, if each is an item of one list. A text that only mentions such a key changes nothing after it. */
function keyLines(): (text: string, list: TextPlace["list"]) => boolean {
  let current: TextPlace["list"];
  let state: "outside" | "begun" | "inside" = "outside";
  return (text, list) => {
    if (list === undefined || list !== current) state = "outside";
    current = list;
    if (list !== undefined && KEY_BEGINS.test(text)) {
      state = "begun";
      return false;
    }
    if (state === "outside" || (state === "begun" && KEY_HEADER.test(text))) return false;
    const isLine = KEY_LINE.test(text);
    const isRest = state === "inside" && KEY_REST.test(text);
    const isEnd = KEY_ENDS.test(text);
    if (isLine) state = "inside";
    else if (!isRest) state = "outside";
    return isLine || isRest || isEnd;
  };
}

const replacementOf = (rule: string): string => `[redacted: ${rule}]`;

function withoutFound(text: string, parts: readonly FoundSecret[]): string {
  let [kept, done] = ["", 0];
  for (const { begin, end, rule } of parts) {
    kept += text.slice(done, begin) + replacementOf(rule);
    done = end;
  }
  return kept + text.slice(done);
}

const tooLarge = (): FleetError =>
  new FleetError("TOO_LARGE", "the content is too large to be searched for secrets", {
    fields: invalid("", `at most ${SEARCHED_CHARS_MAX} characters`).fields,
  });
