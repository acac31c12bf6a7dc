/**
 * The client's way to the bus, which may not be there: at the start, for a while, or at all. Once connected the bus reconnects by
 * itself; until then this tries for ever.
 */
import { type Bus, BusError } from "../../bus/bus.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { refusal } from "./request.ts";

const RETRY_MS = { first: 100, last: 2_000 } as const;

/** What a client needs of its way to the bus. */
export interface Link {
  /** Whether a command can be sent now. Known at once when the connection breaks, within half a minute when the peer falls silent. */
  readonly isUp: boolean;
  /** Throws UNAVAILABLE when there never was a bus. */
  readonly bus: Bus;
  close(): Promise<void>;
}

/** A bus that is there already, and that whoever opened it closes. */
export function linkTo(bus: Bus): Link {
  let isUp = true;
  bus.onStatus((status) => {
    isUp = status === "connected" || status === "lame_duck";
  });
  return {
    get isUp() {
      return isUp;
    },
    bus,
    close: async () => {},
  };
}

export class BusLink implements Link {
  readonly #open: () => Promise<Bus>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #listeners: (() => void)[] = [];
  #bus: Bus | undefined;
  #isUp = false;
  #trying: Promise<void> = Promise.resolve();
  /** Where the bus was looked for. */
  #details: BusError["details"] = {};

  constructor(open: () => Promise<Bus>, { clock, log }: { clock: Clock; log: Logger }) {
    this.#open = open;
    this.#clock = clock;
    this.#log = log;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get bus(): Bus {
    if (this.#bus !== undefined) return this.#bus;
    throw refusal(new BusError("unavailable", { ...this.#details, reason: "not connected" }));
  }

  /**
   * The first attempt. `patient`: when nobody is there, go on trying behind the caller's back; else throw UNAVAILABLE. What trying
   * cannot mend, such as FORBIDDEN, is thrown in any case.
   */
  async start(patient: boolean): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      const final = error instanceof BusError && !error.retryable;
      if (!(error instanceof BusError) || final || !patient) {
        throw error instanceof BusError ? refusal(error) : error;
      }
      this.#details = error.details;
      this.#trying = this.#keepTrying();
    }
  }

  /** Called each time when the bus is there again. */
  onUp(listener: () => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#trying;
    this.#isUp = false;
    await this.#bus?.close();
  }

  async #keepTrying(): Promise<void> {
    const { signal } = this.#closing;
    for (let pause: number = RETRY_MS.first; !signal.aborted; pause = Math.min(pause * 2, RETRY_MS.last)) {
      await this.#clock.sleep(pause, signal);
      if (signal.aborted) return;
      try {
        await this.#connect();
        return;
      } catch (error) {
        this.#log.debug({ error }, "bus is not there yet");
      }
    }
  }

  async #connect(): Promise<void> {
    const bus = await this.#open();
    if (this.#closing.signal.aborted) return bus.close();
    bus.onStatus((status) => {
      if (status === "connected") this.#up();
      else if (status !== "lame_duck") this.#isUp = false;
    });
    this.#bus = bus;
    this.#up();
  }

  #up(): void {
    this.#isUp = true;
    for (const listener of this.#listeners) listener();
  }
}
