/**
 * Bodies on the bus: JSON, or MessagePack if the content type names it. Every decoded value has passed the
 * gate, so the rest of the program never meets a value that JSON could not hold.
 */
import { FleetError, invalid } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { CONTENT_TYPES } from "../protocol/subjects.ts";
import { gate } from "./gate.ts";
import { parseJson } from "./json.ts";
import { parseMessagePack } from "./msgpack-reader.ts";
import { writeMessagePack } from "./msgpack-writer.ts";

const encoder = new TextEncoder();

/** An answer may hold many checkpoints, each with as many members as an input may have. Otherwise as {@link decodeBody}. */
export const decodeAnswer = (bytes: Uint8Array, contentType: string | undefined): unknown =>
  decode(bytes, contentType, LIMITS.reply_node_count_max);

/** Throws INVALID (not JSON, not MessagePack, duplicate names, lone surrogates, too deep …) or TOO_LARGE. */
export const decodeBody = (bytes: Uint8Array, contentType: string | undefined): unknown =>
  decode(bytes, contentType, LIMITS.node_count_max);

function decode(bytes: Uint8Array, contentType: string | undefined, nodesMax: number): unknown {
  if (bytes.length > LIMITS.payload_bytes_max) {
    throw new FleetError("TOO_LARGE", "the message is too large", {
      fields: [
        { path: "", expected: `at most ${LIMITS.payload_bytes_max} bytes`, got: `${bytes.length} bytes` },
      ],
    });
  }
  switch (mediaType(contentType)) {
    case CONTENT_TYPES.json:
      return parseJson(bytes, nodesMax);
    case CONTENT_TYPES.msgpack: {
      const value = parseMessagePack(bytes);
      gate(value, "", false, nodesMax);
      return value;
    }
    default:
      throw invalid("content-type", `${CONTENT_TYPES.json} or ${CONTENT_TYPES.msgpack}`, contentType);
  }
}

/** The content type without its parameters; JSON when there is no header. */
function mediaType(contentType: string | undefined): string {
  return (contentType ?? CONTENT_TYPES.json).split(";", 1)[0]!.trim().toLowerCase();
}

export function encodeBody(value: unknown, contentType: string | undefined): Uint8Array {
  return mediaType(contentType) === CONTENT_TYPES.msgpack
    ? writeMessagePack(value)
    : encoder.encode(JSON.stringify(value));
}
