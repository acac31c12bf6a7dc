/**
 * The result in an answer of the fleet, as the bytes that the service wrote: a read of a record then costs neither a parse nor a
 * copy of it. Any other form than the usual one, such as an error, is left to the decoder.
 */

const [QUOTE, BACKSLASH, OPENING, CLOSING, LIST, LIST_END] = Buffer.from('"\\{}[]') as unknown as readonly [
  number,
  number,
  number,
  number,
  number,
  number,
];

/** Reads the result, or the value of the only member of the result. Returns undefined for another form. */
export type ResultReader = (answer: Uint8Array) => Uint8Array | undefined;

export function resultReader(member?: string): ResultReader {
  const inner = member === undefined ? "" : `{${JSON.stringify(member)}:`;
  const opening = Buffer.from(`{"status":"ok","result":${inner}`);
  const closing = Buffer.from(member === undefined ? "}" : "}}");
  return (answer) => {
    const value = answer.subarray(opening.length, -closing.length);
    const isFramed =
      opening.equals(answer.subarray(0, opening.length)) && closing.equals(answer.subarray(-closing.length));
    return isFramed && isOneObject(value) ? value : undefined;
  };
}

/** True if the brace that opens the JSON is closed by its last byte, so that nothing stands behind the object. */
function isOneObject(json: Uint8Array): boolean {
  if (json[0] !== OPENING) return false;
  let depth = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) at = stringEnd(json, at);
    else if (byte === OPENING || byte === LIST) depth += 1;
    else if (byte === CLOSING || byte === LIST_END) {
      depth -= 1;
      if (depth === 0) return at === json.length - 1;
    }
  }
  return false;
}

/** The index of the quote that closes the string opened at `quote`. */
function stringEnd(json: Uint8Array, quote: number): number {
  let at = quote + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}
