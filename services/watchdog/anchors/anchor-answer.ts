/** The answers of the servers that keep anchors. */

/** An answer that is no anchor. The message names no address and no secret. */
export class AnchorFailure extends Error {
  override readonly name = "AnchorFailure";
}

/** Throws {@link AnchorFailure} for an answer that is too long, before all of it is read. */
export async function answerBytes(response: Response, most: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    length += part.length;
    if (length > most) throw new AnchorFailure(`the answer has more than ${most} bytes`);
  }
  return Buffer.concat(parts);
}
