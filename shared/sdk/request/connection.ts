/**
 * The client's connection to the bus, which may be unavailable at the start, for a while or for good. The first connect is repeated
 * until it succeeds; a bus that was connected once reconnects by itself.
 */
import { type Bus, BusError, type BusStatus } from "../../bus/bus.ts";
import { type ExpectedFleet, otherFleet } from "../../bus/server-name.ts";
import type { FleetError } from "../../protocol/errors.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { noAnswer, toFleetError } from "./request.ts";

const RETRY_MS = { first: 100, last: 2_000 } as const;

export interface ClientConnection {
  /** True while a command can be sent: false at once when the connection breaks, within seconds when the server falls silent. */
  readonly isUp: boolean;
  /** Throws UNAVAILABLE before the first connect has succeeded. */
  readonly bus: Bus;
  /** Calls the listener whenever the connection comes up. The returned function ends this. */
  onUp(listener: () => void): () => void;
  close(): Promise<void>;
}

/** A connection over an open bus, which stays open when the connection is closed. */
export function connectionOver(bus: Bus): ClientConnection {
  let isUp = true;
  bus.onStatus((status) => {
    isUp = status === "connected" || status === "lame_duck";
  });
  return {
    get isUp() {
      return isUp;
    },
    bus,
    onUp: (listener) =>
      bus.onStatus((status) => {
        if (status === "connected") listener();
      }),
    close: async () => {},
  };
}

export class PersistentConnection implements ClientConnection {
  readonly #open: () => Promise<Bus>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #listeners = new Set<() => void>();
  #bus: Bus | undefined;
  #isUp = false;
  #retries: Promise<void> = Promise.resolve();
  /** The error of every call while another fleet answers at the address. */
  #refusal: FleetError | undefined;
  readonly #expected: ExpectedFleet | undefined;
  readonly #onOtherFleet: (error: FleetError) => void;
  /** The details of the first failure, with the address that was tried. */
  #details: BusError["details"] = {};

  constructor(
    open: () => Promise<Bus>,
    {
      clock,
      log,
      expected,
      onOtherFleet = () => {},
    }: {
      readonly clock: Clock;
      readonly log: Logger;
      readonly expected?: ExpectedFleet | undefined;
      /** Called when another fleet answers at the address, after the first attempt. */
      readonly onOtherFleet?: (error: FleetError) => void;
    },
  ) {
    this.#open = open;
    this.#expected = expected;
    this.#onOtherFleet = onOtherFleet;
    this.#clock = clock;
    this.#log = log;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get bus(): Bus {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (this.#bus !== undefined) return this.#bus;
    throw noAnswer("unavailable", this.#details);
  }

  /**
   * The first attempt. If no bus answers, `background` continues with further attempts in the background; without it, UNAVAILABLE is
   * thrown. An error that a retry cannot cure, such as FORBIDDEN, is thrown in both cases.
   */
  async start(background: boolean): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
      if (!error.retryable || !background) throw toFleetError(error);
      this.#details = error.details;
      this.#retries = this.#connectInBackground();
    }
  }

  onUp(listener: () => void): () => void {
    // Wrapped, so that one function added twice is two listeners.
    const own = () => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#retries;
    this.#isUp = false;
    await this.#bus?.close();
  }

  async #connectInBackground(): Promise<void> {
    const { signal } = this.#closing;
    for (let pause: number = RETRY_MS.first; !signal.aborted; pause = Math.min(pause * 2, RETRY_MS.last)) {
      await this.#clock.sleep(pause, signal);
      if (signal.aborted) return;
      try {
        await this.#connect();
        return;
      } catch (error) {
        this.#log.debug({ error }, "bus is not available yet");
        if (error instanceof BusError && error.kind === "other_fleet") this.#refuse(error);
      }
    }
  }

  async #connect(): Promise<void> {
    const bus = await this.#open();
    if (this.#closing.signal.aborted) return bus.close();
    bus.onStatus((status) => this.#changed(status));
    this.#bus = bus;
    this.#up();
  }

  #changed(status: BusStatus): void {
    if (status === "connected") this.#up();
    else if (status !== "lame_duck") this.#isUp = false;
    if (status === "other_fleet" && this.#expected !== undefined)
      this.#refuse(new BusError("other_fleet", otherFleet(this.#expected, this.#bus?.fleet)));
  }

  #refuse(error: BusError): void {
    const isNew = this.#refusal === undefined;
    this.#refusal = toFleetError(error);
    if (isNew) this.#onOtherFleet(this.#refusal);
  }

  #up(): void {
    this.#refusal = undefined;
    this.#isUp = true;
    for (const listener of this.#listeners) listener();
  }
}
