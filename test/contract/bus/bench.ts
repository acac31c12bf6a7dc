/** What the cases of the bus contract share: the server under test, its connections, and small readers. */
import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect } from "vitest";
import { type Bus, BusError, type Message, type Outgoing } from "../../../shared/bus/bus.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";

export interface TestedServer {
  connect(identity: string, o?: { readonly messageKey?: string }): Promise<Bus>;
  /** A connection of another program, without the parts of Fleet. */
  stranger(): Promise<NatsConnection>;
  /** Ends the server without a chance to clean up. */
  kill(): Promise<void>;
  /** Starts a killed server again, with its streams and at the same address. */
  restart(): Promise<void>;
  /** The server hangs: its connections stay open, and nothing is answered. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

export type StartTestedServer = () => Promise<TestedServer>;

/** The ids of the second connection are made with this key. */
export const MESSAGE_KEY = "5a".repeat(32);
const STORAGE_BYTES = 512 * 1024 * 1024;

/** A server for the cases of one group, and its connections. */
export class BusBench {
  readonly #opened: { close(o?: { drainMs?: number }): Promise<void> }[] = [];
  #server: TestedServer | undefined;
  #bus: Bus | undefined;
  #service: Bus | undefined;

  constructor(start: StartTestedServer, prepare?: (bench: BusBench) => Promise<void>) {
    beforeAll(async () => {
      this.#server = await start();
      this.#bus = await this.connect("first");
      this.#service = await this.connect("second", { messageKey: MESSAGE_KEY });
      await prepare?.(this);
    });
    afterAll(async () => {
      for (const one of this.#opened) await one.close({ drainMs: 1_000 });
      await this.#server?.stop();
    });
  }

  get server(): TestedServer {
    return this.#server!;
  }

  /** The first connection of the group. */
  get bus(): Bus {
    return this.#bus!;
  }

  /** The second connection of the group, for services. */
  get service(): Bus {
    return this.#service!;
  }

  /** A further connection, which is closed at the end. */
  async connect(identity: string, o?: { readonly messageKey?: string }): Promise<Bus> {
    const bus = await this.server.connect(identity, o);
    this.#opened.push(bus);
    return bus;
  }

  /** Like {@link connect}, without the parts of Fleet. */
  async stranger(): Promise<NatsConnection> {
    const connection = await this.server.stranger();
    this.#opened.push(connection);
    return connection;
  }

  /** Resolves when the connections of the group work again. */
  async recovered(): Promise<void> {
    for (const bus of [this.bus, this.service])
      await expect
        .poll(async () => (await bus.health({ timeoutMs: 5_000 })).ok, { timeout: 60_000 })
        .toBe(true);
  }

  async crash(): Promise<void> {
    await this.server.kill();
    await this.server.restart();
  }
}

/** The title of a case and its steps. */
export type ContractCases = Readonly<Record<string, (bench: BusBench) => Promise<void>>>;

export interface ContractGroup {
  readonly cases: ContractCases;
  readonly prepare?: (bench: BusBench) => Promise<void>;
}

export const withFleetStreams = ({ bus }: BusBench): Promise<void> =>
  bus.reconcileStreams(fleetStreams({ storageBytes: STORAGE_BYTES }));

export const outText = (value: string): Outgoing => ({ body: Buffer.from(value) });
export const textIn = ({ body }: Pick<Message, "body">): string => Buffer.from(body).toString();

/** The kind of the error with which a call fails. */
export const failureKind = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "no error",
    (error: unknown) => (error instanceof BusError ? error.kind : error),
  );

/** Options of a service that takes every request. */
export const SERVED = {
  queue: "service",
  concurrencyMax: 100,
  waitMsMax: 30_000,
  isOwnReply: () => true,
  dropped: () => {},
  overload: () => outText("overload"),
  failed: (_: Message, error: unknown) => outText(`failed: ${(error as Error).message}`),
};

/** Collects texts until there are `count`. */
export function collector(count: number) {
  const seen: string[] = [];
  const done = Promise.withResolvers<void>();
  return {
    seen,
    done: done.promise,
    add(value: string) {
      seen.push(value);
      if (seen.length === count) done.resolve();
    },
  };
}
