/** The protocol between a client and a server of NATS, from the side of the server. */

const EMPTY = Buffer.alloc(0);
const CRLF = Buffer.from("\r\n");

export interface Publication {
  readonly subject: string;
  readonly reply: string | undefined;
  /** As on the wire, with the line of the version. */
  readonly headers: Buffer | undefined;
  readonly body: Buffer;
}

export type ClientCommand =
  | { readonly kind: "connect" | "ping" | "pong" }
  | { readonly kind: "publish"; readonly message: Publication }
  | {
      readonly kind: "subscribe";
      readonly subject: string;
      readonly queue: string | undefined;
      readonly sid: string;
    }
  | { readonly kind: "unsubscribe"; readonly sid: string; readonly max: number };

/** Reads the commands of one client. A command may be spread over several chunks. */
export class CommandReader {
  #rest: Buffer = EMPTY;

  read(chunk: Uint8Array): ClientCommand[] {
    const own = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bytes = this.#rest.length === 0 ? own : Buffer.concat([this.#rest, own]);
    const found: ClientCommand[] = [];
    let at = 0;
    while (at < bytes.length) {
      const end = bytes.indexOf(CRLF, at);
      if (end === -1) break;
      const line = bytes.toString("utf8", at, end);
      const next = commandAt(line, bytes, end + CRLF.length);
      if (next === undefined) break;
      found.push(next.command);
      at = next.end;
    }
    this.#rest = at === bytes.length ? EMPTY : bytes.subarray(at);
    return found;
  }
}

/** undefined: the body has not arrived. */
function commandAt(
  line: string,
  bytes: Buffer,
  at: number,
): { readonly command: ClientCommand; readonly end: number } | undefined {
  const [name = "", ...words] = line.split(" ");
  switch (name) {
    case "PUB":
      return publication(words, 0, bytes, at);
    case "HPUB":
      return publication(words, Number(words.at(-2)), bytes, at);
    case "SUB": {
      const [subject = "", ...rest] = words;
      const sid = rest.at(-1) ?? "";
      const queue = rest.length > 1 ? rest[0] : undefined;
      return { command: { kind: "subscribe", subject, queue, sid }, end: at };
    }
    case "UNSUB":
      return { command: { kind: "unsubscribe", sid: words[0] ?? "", max: Number(words[1] ?? 0) }, end: at };
    case "CONNECT":
    case "PING":
    case "PONG":
      return { command: { kind: name.toLowerCase() as "connect" | "ping" | "pong" }, end: at };
    default:
      throw new Error(`the simulated server does not know the command ${name}`);
  }
}

function publication(words: readonly string[], headerBytes: number, bytes: Buffer, at: number) {
  const total = Number(words.at(-1));
  if (bytes.length < at + total + CRLF.length) return undefined;
  const counts = headerBytes === 0 ? 1 : 2;
  const reply = words.length > 1 + counts ? words[1] : undefined;
  const message: Publication = {
    subject: words[0] ?? "",
    reply,
    headers: headerBytes === 0 ? undefined : bytes.subarray(at, at + headerBytes),
    body: bytes.subarray(at + headerBytes, at + total),
  };
  return { command: { kind: "publish", message } as const, end: at + total + CRLF.length };
}

/** A message as its subscriber gets it. */
export function messageFrame(sid: string, { subject, reply, headers, body }: Publication): Buffer {
  const to = reply === undefined ? "" : ` ${reply}`;
  if (headers === undefined)
    return Buffer.concat([Buffer.from(`MSG ${subject} ${sid}${to} ${body.length}\r\n`), body, CRLF]);
  const total = headers.length + body.length;
  const line = `HMSG ${subject} ${sid}${to} ${headers.length} ${total}\r\n`;
  return Buffer.concat([Buffer.from(line), headers, body, CRLF]);
}

export const PONG_FRAME = Buffer.from("PONG\r\n");
export const infoFrame = (info: object): Buffer => Buffer.from(`INFO ${JSON.stringify(info)}\r\n`);

const VERSION = "NATS/1.0";

/** `status`: such as `503` or `408 Request Timeout`. */
export function headerBlock(fields: Readonly<Record<string, string | number>>, status = ""): Buffer {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${VERSION}${status === "" ? "" : ` ${status}`}\r\n${lines.join("")}\r\n`);
}

/** Adds fields to headers that a client has sent. */
export function extendedHeaders(
  headers: Buffer | undefined,
  fields: Readonly<Record<string, string | number>>,
): Buffer {
  const added = headerBlock(fields);
  if (headers === undefined) return added;
  // The fields of the client without the line of the version.
  const own = headers.subarray(headers.indexOf(CRLF) + CRLF.length);
  return Buffer.concat([added.subarray(0, added.length - CRLF.length), own]);
}

export function headerField(headers: Buffer | undefined, name: string): string | undefined {
  if (headers === undefined) return undefined;
  const start = headers.indexOf(`\r\n${name}:`);
  if (start === -1) return undefined;
  const from = start + name.length + 3;
  return headers.toString("utf8", from, headers.indexOf(CRLF, from)).trim();
}
