/**
 * The HTTP sessions of an MCP server. Few clients end theirs, so for a new session the one that was used the longest ago is closed,
 * unless it has an open request, such as the stream of a client that listens.
 */
import type { ServerResponse } from "node:http";
import type { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const SESSIONS_MAX = 100;

interface HttpSession {
  readonly transport: StreamableHTTPServerTransport;
  /** Responses that have not ended. */
  open: number;
}

export class HttpSessions {
  /** The one that was used last is the last. */
  readonly #sessions = new Map<string, HttpSession>();

  add(id: string, transport: StreamableHTTPServerTransport, response: ServerResponse): void {
    this.#sessions.set(id, { transport, open: 0 });
    this.use(id, response);
  }

  /** undefined: there is no such session. */
  use(id: string, response: ServerResponse): StreamableHTTPServerTransport | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined) return undefined;
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    session.open += 1;
    response.once("close", () => {
      session.open -= 1;
    });
    return session.transport;
  }

  /** False if there is no room for another session. */
  async makeRoom(): Promise<boolean> {
    if (this.#sessions.size < SESSIONS_MAX) return true;
    const [id, unused] = [...this.#sessions].find(([, { open }]) => open === 0) ?? [];
    if (id === undefined) return false;
    this.remove(id);
    await unused?.transport.close();
    return true;
  }

  remove(id: string): void {
    this.#sessions.delete(id);
  }

  async close(): Promise<void> {
    for (const { transport } of this.#sessions.values()) await transport.close();
  }
}
