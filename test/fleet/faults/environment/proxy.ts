/**
 * A TCP proxy that misbehaves on command: between one process and the bus, on loopback. It cuts connections, refuses new ones, delays
 * bytes, lets them through in crumbs, or holds one direction back while the other works (half-open). Bytes are never lost from
 * the middle of a stream, which no network does either: what is held back is delivered late, or its connection is reset.
 */
import { once } from "node:events";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type Direction = "up" | "down";

export type Weather =
  | { readonly kind: "clear" }
  /** New connections are reset at once; those that stand go on. */
  | { readonly kind: "refusing" }
  | { readonly kind: "delaying"; readonly ms: number; readonly jitterMs: number }
  | { readonly kind: "trickling"; readonly bytes: number; readonly everyMs: number }
  /** Nothing passes in this direction (up: to the bus), and nobody is told. */
  | { readonly kind: "holding"; readonly direction: Direction | "both" };

interface Link {
  readonly client: Socket;
  readonly upstream: Socket;
}

/** Listens on a free port of loopback. */
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
  readonly #links = new Set<Link>();
  #weather: Weather = { kind: "clear" };
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
    return this.#links.size;
  }

  set(weather: Weather): void {
    this.#weather = weather;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Resets every connection; with them goes what is held back. */
  cut(): void {
    for (const link of this.#links) this.#reset(link);
  }

  async close(): Promise<void> {
    this.set({ kind: "clear" });
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #connect(client: Socket): void {
    if (this.#weather.kind === "refusing") {
      client.resetAndDestroy();
      return;
    }
    const upstream = createConnection({ port: this.#targetPort, host: "127.0.0.1" });
    for (const socket of [client, upstream]) socket.setNoDelay(true).on("error", () => {});
    const link = { client, upstream };
    this.#links.add(link);
    const reset = (): void => this.#reset(link);
    upstream.once("error", reset);
    void Promise.all([this.#pump("up", client, upstream), this.#pump("down", upstream, client)]).then(
      () => this.#links.delete(link),
      reset,
    );
  }

  #reset(link: Link): void {
    this.#links.delete(link);
    for (const socket of [link.client, link.upstream]) if (!socket.destroyed) socket.resetAndDestroy();
  }

  async #pump(direction: Direction, from: Socket, to: Socket): Promise<void> {
    // Reading one chunk after the other keeps the order, and pushes back on the sender while we wait.
    for await (const chunk of from) await this.#pass(direction, chunk as Buffer, to);
    to.end();
  }

  async #pass(direction: Direction, chunk: Buffer, to: Socket): Promise<void> {
    while (this.#isHolding(direction)) await this.#changed.promise;
    const weather = this.#weather;
    if (weather.kind === "delaying") await sleep(weather.ms + this.#random() * weather.jitterMs);
    for (let at = 0; at < chunk.length && !to.destroyed; ) {
      const size = await this.#crumb(chunk.length);
      if (to.destroyed) return;
      const hasRoom = to.write(chunk.subarray(at, at + size));
      if (!hasRoom) await Promise.race([once(to, "drain"), once(to, "close")]);
      at += size;
    }
  }

  #isHolding(direction: Direction): boolean {
    const weather = this.#weather;
    return weather.kind === "holding" && (weather.direction === "both" || weather.direction === direction);
  }

  /** How many bytes may go next; asked for each crumb, so that a change of weather frees what is under way. */
  async #crumb(all: number): Promise<number> {
    const weather = this.#weather;
    if (weather.kind !== "trickling") return all;
    await sleep(this.#random() * weather.everyMs);
    return 1 + Math.floor(this.#random() * weather.bytes);
  }
}
