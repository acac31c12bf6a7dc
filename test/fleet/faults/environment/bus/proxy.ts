/**
 * A TCP proxy on loopback between one process and the bus, with network faults on command. It cuts connections, refuses new ones, delays
 * bytes, passes them in small pieces, or holds one direction while the other works (half-open). As in a real network, no bytes are lost
 * from the middle of a stream: held bytes are delivered late, or their connection is reset.
 */
import { once } from "node:events";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type Direction = "up" | "down";

export type NetworkMode =
  | { readonly kind: "clear" }
  /** New connections are reset at once; existing ones continue. */
  | { readonly kind: "refusing" }
  | { readonly kind: "delaying"; readonly ms: number; readonly jitterMs: number }
  | { readonly kind: "trickling"; readonly bytes: number; readonly everyMs: number }
  /** No bytes pass in this direction (up: to the bus), and neither side is notified. */
  | { readonly kind: "holding"; readonly direction: Direction | "both" };

interface ProxiedConnection {
  readonly client: Socket;
  readonly upstream: Socket;
}

/** Starts a proxy on a free port of loopback. */
export async function startProxy(o: { targetPort: number; random: () => number }): Promise<NetworkProxy> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return new NetworkProxy(server, o);
}

export class NetworkProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #random: () => number;
  readonly #connections = new Set<ProxiedConnection>();
  #mode: NetworkMode = { kind: "clear" };
  #changed = Promise.withResolvers<void>();

  constructor(server: Server, o: { readonly targetPort: number; readonly random: () => number }) {
    this.#server = server;
    this.#targetPort = o.targetPort;
    this.#random = o.random;
    server.on("connection", (client) => this.#connect(client));
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  get connections(): number {
    return this.#connections.size;
  }

  set(mode: NetworkMode): void {
    this.#mode = mode;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Resets every connection, and with it the held bytes. */
  cut(): void {
    for (const link of this.#connections) this.#reset(link);
  }

  async close(): Promise<void> {
    this.set({ kind: "clear" });
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #connect(client: Socket): void {
    if (this.#mode.kind === "refusing") {
      client.resetAndDestroy();
      return;
    }
    const upstream = createConnection({ port: this.#targetPort, host: "127.0.0.1" });
    for (const socket of [client, upstream]) socket.setNoDelay(true).on("error", () => {});
    const link = { client, upstream };
    this.#connections.add(link);
    const reset = (): void => this.#reset(link);
    upstream.once("error", reset);
    void Promise.all([this.#pump("up", client, upstream), this.#pump("down", upstream, client)]).then(
      () => this.#connections.delete(link),
      reset,
    );
  }

  #reset(link: ProxiedConnection): void {
    this.#connections.delete(link);
    for (const socket of [link.client, link.upstream]) if (!socket.destroyed) socket.resetAndDestroy();
  }

  async #pump(direction: Direction, from: Socket, to: Socket): Promise<void> {
    // Reading one chunk after the other keeps the order and applies backpressure to the sender.
    for await (const chunk of from) await this.#pass(direction, chunk as Buffer, to);
    to.end();
  }

  async #pass(direction: Direction, chunk: Buffer, to: Socket): Promise<void> {
    while (this.#isHolding(direction)) await this.#changed.promise;
    const mode = this.#mode;
    if (mode.kind === "delaying") await sleep(mode.ms + this.#random() * mode.jitterMs);
    for (let at = 0; at < chunk.length && !to.destroyed; ) {
      const size = await this.#pieceSize(chunk.length);
      if (to.destroyed) return;
      const hasRoom = to.write(chunk.subarray(at, at + size));
      if (!hasRoom) await Promise.race([once(to, "drain"), once(to, "close")]);
      at += size;
    }
  }

  #isHolding(direction: Direction): boolean {
    const mode = this.#mode;
    return mode.kind === "holding" && (mode.direction === "both" || mode.direction === direction);
  }

  /** The size of the next piece. It is computed for each piece, so that a change of the mode applies to the rest of a chunk. */
  async #pieceSize(all: number): Promise<number> {
    const mode = this.#mode;
    if (mode.kind !== "trickling") return all;
    await sleep(this.#random() * mode.everyMs);
    return 1 + Math.floor(this.#random() * mode.bytes);
  }
}
