/** The confirmation with which JetStream answers a stored message: at the reply address that its sender chose, which may be a subject of a stream. */
import type { Message } from "../bus.ts";

/** Also of one that tells of a refusal, whose text may have an id of the client's choice, of any length. */
export function isConfirmation({ body, headers }: Pick<Message, "body" | "headers">): boolean {
  if (headers.keys().length > 0) return false;
  try {
    const { stream, seq, command_id } = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>;
    return typeof stream === "string" && typeof seq === "number" && command_id === undefined;
  } catch {
    return false;
  }
}
