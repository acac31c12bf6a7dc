// A page for one person on `http://localhost`, where browsers permit passkeys. Its address has a secret, so no other page or program of the machine can
// read it or answer for the person; requests of pages of other origins, or under another name of this machine, are refused.

import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { LOCAL_PAGES } from "../../../../shared/protocol/passkey-origin.ts";
import type { PasskeyPageText } from "../../rendering/esign/passkey-pages.ts";
import { PERSON_WAIT_MS, unanswered } from "./unanswered.ts";

/** For the last answer to reach the browser. */
const CLOSE_MS = 1_000;
const BODY_BYTES = 65_536;
const SECRET_BYTES = 16;
const PORT_TRIES = 10;
/** Of machines without IPv6. */
const NO_SUCH_ADDRESS = ["EADDRNOTAVAIL", "EAFNOSUPPORT"];

/** What the page shows next: the address of another page, or a last text. */
export type PageReply = { readonly next: string } | { readonly text: string };

export interface PageAnswer<Name extends string> {
  readonly values: Readonly<Record<Name, string>>;
  reply(reply: PageReply): void;
}

interface Expected {
  readonly names: readonly string[];
  readonly resolve: (answer: PageAnswer<string>) => void;
}

export class LocalPage {
  readonly #secret = randomBytes(SECRET_BYTES).toString("base64url");
  readonly #servers: Server[] = [];
  #origin = "";
  #page: PasskeyPageText | undefined;
  #expected: Expected | undefined;
  #timer: NodeJS.Timeout | undefined;

  private constructor() {}

  static async open(): Promise<LocalPage> {
    const page = new LocalPage();
    for (let tries = 0; ; tries += 1) {
      try {
        await page.#listen();
        return page;
      } catch (error) {
        await page.close();
        if (codeOf(error) !== "EADDRINUSE" || tries === PORT_TRIES) throw error;
      }
    }
  }

  get url(): string {
    return `${this.#origin}/${this.#secret}`;
  }

  show(page: PasskeyPageText): void {
    this.#page = page;
  }

  /** Resolves with what the page sends, which has all of these names. Throws TIMEOUT. */
  next<Name extends string>(names: readonly Name[]): Promise<PageAnswer<Name>> {
    return new Promise((resolve, reject) => {
      this.#timer = setTimeout(
        () => reject(unanswered("the person did not answer on the page in time")),
        PERSON_WAIT_MS,
      );
      this.#expected = {
        names,
        resolve: (answer) => {
          clearTimeout(this.#timer);
          this.#expected = undefined;
          resolve(answer as PageAnswer<Name>);
        },
      };
    });
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await Promise.all(this.#servers.splice(0).map(closed));
  }

  /** On both addresses of the name, so that no other program has the port on one of them. */
  async #listen(): Promise<void> {
    const first = await this.#serve("127.0.0.1", 0);
    const { port } = first.address() as AddressInfo;
    this.#origin = `http://${LOCAL_PAGES}:${port}`;
    try {
      await this.#serve("::1", port);
    } catch (error) {
      if (!NO_SUCH_ADDRESS.includes(codeOf(error))) throw error;
    }
  }

  async #serve(host: string, port: number): Promise<Server> {
    const server = createServer((request, response) => void this.#handle(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
    this.#servers.push(server);
    return server;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("connection", "close");
    const isHere = `http://${request.headers.host}` === this.#origin && request.url === `/${this.#secret}`;
    if (!isHere || this.#page === undefined) response.writeHead(404).end();
    else if (request.method === "GET") this.#send(response, this.#page);
    else if (request.method === "POST") await this.#take(request, response);
    else response.writeHead(405).end();
  }

  #send(response: ServerResponse, page: PasskeyPageText): void {
    const nonce = randomBytes(SECRET_BYTES).toString("base64url");
    const policy = [
      "default-src 'none'",
      "style-src 'unsafe-inline'",
      `script-src 'nonce-${nonce}'`,
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ];
    response.writeHead(200, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy.join("; "),
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    });
    response.end(page(nonce));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isOfPage =
      request.headers.origin === this.#origin && request.headers["content-type"] === "application/json";
    const sent = isOfPage ? await bodyOf(request) : null;
    const expected = this.#expected;
    const isWhole = expected?.names.every((name) => typeof sent?.[name] === "string") === true;
    if (sent === null || !isWhole) {
      response.writeHead(400).end();
      return;
    }
    expected!.resolve({
      values: sent as Record<string, string>,
      reply: (reply) => {
        response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
        response.end(JSON.stringify(reply));
      },
    });
  }
}

/** null: it is too long, or no JSON object. */
async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown> | null> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > BODY_BYTES) return null;
      parts.push(part);
    }
    const value: unknown = JSON.parse(Buffer.concat(parts).toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

const codeOf = (error: unknown): string => String((error as NodeJS.ErrnoException).code);

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
    // A browser that keeps a connection open must not keep the program.
    setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
  });
}
