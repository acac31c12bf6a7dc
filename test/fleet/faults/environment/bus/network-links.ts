/** The links of one process to the servers of the bus, each through its own proxy. A network fault of the process affects all of them. */
import { type NetworkMode, type NetworkProxy, startProxy } from "./proxy.ts";

export class NetworkLinks {
  readonly #proxies: readonly NetworkProxy[];

  private constructor(proxies: readonly NetworkProxy[]) {
    this.#proxies = proxies;
  }

  static async open(ports: readonly number[], random: () => number): Promise<NetworkLinks> {
    return new NetworkLinks(await Promise.all(ports.map((targetPort) => startProxy({ targetPort, random }))));
  }

  /** The addresses of the proxies, separated by commas. */
  get url(): string {
    return this.#proxies.map(({ port }) => `nats://127.0.0.1:${port}`).join();
  }

  set(mode: NetworkMode): void {
    for (const one of this.#proxies) one.set(mode);
  }

  /** Resets every connection. */
  cut(): void {
    for (const one of this.#proxies) one.cut();
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((one) => one.close()));
  }
}
