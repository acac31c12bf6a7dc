/** The forms in which texts repeat a known secret: as it is, and encoded as Base64, hex, percent-encoding or JSON. */

/** A shorter text is found in harmless ones by accident. */
export const SECRET_CHARS_MIN = 8;

export function formsOf(secret: string): ReadonlySet<string> {
  const bytes = Buffer.from(secret, "utf8");
  const hex = bytes.toString("hex");
  const json = inJson(secret);
  const forms = [
    secret,
    ...base64Forms(bytes),
    hex,
    hex.toUpperCase(),
    ...percentForms(secret, bytes),
    json,
    inJson(json),
    secret.replaceAll("/", "\\/"),
    asciiJson(json),
  ];
  return new Set(forms.filter((form) => form.length >= SECRET_CHARS_MIN));
}

/**
 * The characters that depend on the secret alone, for each place that it may have in a group of three bytes: `user:secret` in Base64 has
 * other characters than `secret`.
 */
function base64Forms(bytes: Buffer): string[] {
  const forms: string[] = [];
  for (const before of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const begin = [0, 2, 3][before]!;
    const over = (before + bytes.length) % 3;
    const end = text.length - [0, 3, 2][over]!;
    const form = text.slice(begin, end);
    forms.push(form, form.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return forms;
}

function percentForms(secret: string, bytes: Buffer): string[] {
  const usual = encodeURIComponent(secret);
  const strict = usual.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  const whole = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0").toUpperCase()}`).join("");
  const upper = [usual, strict, strict.replaceAll("%20", "+"), whole];
  const lower = upper.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()));
  return [...upper, ...lower];
}

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

const asciiJson = (text: string): string =>
  text.replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
