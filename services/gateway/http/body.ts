/** The body of a request: JSON of a limited size. */
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { parseJsonText } from "../../../shared/protocol/json.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HttpError } from "./problem.ts";

const JSON_TYPES = ["application/json", "application/merge-patch+json"];

export type Members = Record<string, unknown>;

/** An absent body is an empty object. Throws INVALID, TOO_LARGE, or 415. */
export async function readMembers(request: Request): Promise<Members> {
  const bytes = await readBytes(request, LIMITS.payload_bytes_max);
  if (bytes.length === 0) return {};
  const type = (request.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (!JSON_TYPES.includes(type))
    throw new HttpError(415, invalid("Content-Type", JSON_TYPES.join(" or "), type));
  const value = parsed(bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid("", "an object", value);
  return value as Members;
}

function parsed(bytes: Buffer): unknown {
  try {
    return parseJsonText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw invalid("", "JSON in UTF-8", "something else");
  }
}

async function readBytes(request: Request, bytesMax: number): Promise<Buffer> {
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLarge(bytesMax);
  if (request.body === null) return Buffer.alloc(0);
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const part of request.body) {
      size += part.length;
      // A body without a length is not read to its end.
      if (size > bytesMax) throw tooLarge(bytesMax);
      parts.push(part);
    }
  } catch (error) {
    throw error instanceof FleetError ? error : invalid("", "a complete body", "a connection that ended");
  }
  return Buffer.concat(parts);
}

function tooLarge(bytesMax: number): FleetError {
  return new FleetError("TOO_LARGE", "the body is too large", {
    fields: [{ path: "", expected: `at most ${bytesMax} bytes` }],
  });
}
