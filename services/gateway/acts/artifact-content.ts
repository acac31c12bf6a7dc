/**
 * The bytes of an artifact as the body of an answer. The hash is verified before the last part is sent: of a damaged artifact the
 * client gets an error, or less than the `Content-Length` states, and never a whole body.
 */
import { createHash } from "node:crypto";
import { partSize, partsOf } from "../../../shared/protocol/artifacts.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { digestTag, isKnown } from "../http/entity-tag.ts";
import type { HttpAnswer } from "../http/http-answer.ts";
import { HttpError } from "../http/problem.ts";
import { bodyFrom } from "./answer-body.ts";
import type { FleetRequests } from "./fleet-requests.ts";

const PART_MS = 20_000;
const RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/** The wanted bytes: from `begin` up to and without `end`. */
interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

interface Wanted {
  readonly sha256: string;
  readonly size: number;
  /** undefined: all of it. */
  readonly range: ByteRange | undefined;
}

/**
 * The parts that are read before the answer begins. The HTTP server reads up to two pieces of a body before it sends the head, and answers
 * an error among them with a plain text of its own.
 */
const PARTS_AHEAD = 2;

/** Throws before the first byte, if one of the first two parts cannot be read. `ended` is called when the body has ended. */
export async function artifactContent(
  fleet: FleetRequests,
  { sha256, headers }: { readonly sha256: string; readonly headers: Headers },
  ended: () => void,
): Promise<HttpAnswer> {
  const { artifact } = await fleet.ask("artifact", { sha256 });
  const etag = digestTag(sha256);
  const { size } = artifact;
  if (isKnown(headers.get("if-none-match"), etag)) {
    ended();
    return { status: 304, headers: { etag } };
  }
  const range = rangeOf(headers, size, etag);
  const content = read(fleet, { sha256, size, range });
  const ahead: IteratorResult<Uint8Array, void>[] = [];
  while (ahead.length < PARTS_AHEAD && ahead.at(-1)?.done !== true) ahead.push(await content.next());
  const { begin, end } = range ?? { begin: 0, end: size };
  return {
    status: range === undefined ? 200 : 206,
    headers: {
      etag,
      "accept-ranges": "bytes",
      "cache-control": "private, no-cache",
      "content-disposition": "attachment",
      "content-length": String(end - begin),
      "content-type": "application/octet-stream",
      ...(range !== undefined && { "content-range": `bytes ${begin}-${end - 1}/${size}` }),
    },
    body: bodyFrom(all(ahead, content), ended),
  };
}

async function* all(
  ahead: readonly IteratorResult<Uint8Array, void>[],
  rest: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array, void> {
  for (const part of ahead) {
    if (part.done) return;
    yield part.value;
  }
  yield* rest;
}

async function* read(
  fleet: FleetRequests,
  { sha256, size, range }: Wanted,
): AsyncGenerator<Uint8Array, void> {
  const { begin, end } = range ?? { begin: 0, end: size };
  const hash = range === undefined ? createHash("sha256") : undefined;
  const [from, to] = [Math.floor(begin / LIMITS.artifact_part_bytes), partsOf(end)];
  const load = (part: number) => fleet.ask("artifact_read", { sha256, part }, { deadlineMs: PART_MS });
  let next = from < to ? load(from) : undefined;
  for (let part = from; next !== undefined; part += 1) {
    const bytes = Buffer.from((await next).bytes, "base64");
    if (bytes.length !== partSize(size, part)) throw damaged(sha256);
    next = part + 1 < to ? load(part + 1) : undefined;
    // The client may leave here, and then no one waits for the next part.
    next?.catch(() => {});
    hash?.update(bytes);
    if (next === undefined && hash !== undefined && hash.digest("hex") !== sha256) throw damaged(sha256);
    const at = part * LIMITS.artifact_part_bytes;
    yield bytes.subarray(Math.max(0, begin - at), Math.max(0, end - at));
  }
}

function damaged(sha256: string): FleetError {
  return new FleetError("CORRUPT", "the bytes of the artifact do not match its hash", {
    details: { sha256 },
  });
}

/** undefined: all bytes. A list of ranges, and a range of another version, are answered with all. Throws 416. */
function rangeOf(headers: Headers, size: number, etag: string): ByteRange | undefined {
  const condition = headers.get("if-range");
  const [, from = "", to = ""] = RANGE.exec(headers.get("range") ?? "") ?? [];
  if ((from === "" && to === "") || (condition !== null && condition !== etag)) return undefined;
  const begin = from === "" ? Math.max(0, size - Number(to)) : Number(from);
  const end = from === "" || to === "" ? size : Math.min(size, Number(to) + 1);
  if (begin < end) return { begin, end };
  const error = invalid("Range", `bytes of the ${size} that there are`, headers.get("range"));
  throw new HttpError(416, error, { "content-range": `bytes */${size}` });
}
