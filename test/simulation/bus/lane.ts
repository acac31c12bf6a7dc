/**
 * One direction of a connection. Frames of one subscription arrive in their order. Those of different subscriptions may overtake each
 * other, but not an answer to a ping, which tells the client that everything before it has arrived.
 */
import { Alarm, type Runner } from "./time.ts";

interface Sent {
  readonly at: number;
  readonly frame: Uint8Array | null;
}

export class Lane {
  readonly #alarm: Alarm;
  readonly #arrived: (frame: Uint8Array | null) => void;
  /** By arrival. */
  #sent: Sent[] = [];
  /** The latest arrival of each subscription since the last barrier. */
  readonly #latest = new Map<string, number>();
  #latestOfAll = 0;
  #barrier = 0;
  #isHeld = false;
  #isClosed = false;

  /** `arrived`: null for the end of the connection. */
  constructor(run: Runner, arrived: (frame: Uint8Array | null) => void) {
    this.#alarm = new Alarm(run, () => this.#deliver());
    this.#arrived = arrived;
  }

  get waiting(): number {
    return this.#sent.length;
  }

  /** `subscription`: undefined for frames that keep their place among all others. null as a frame: the end. */
  send(frame: Uint8Array | null, hopMs: number, subscription?: string): void {
    if (this.#isClosed) return;
    const soonest = performance.now() + hopMs;
    const earlier = subscription === undefined ? this.#latestOfAll : (this.#latest.get(subscription) ?? 0);
    const at = Math.max(soonest, earlier, this.#barrier);
    if (subscription === undefined) {
      this.#barrier = at;
      this.#latest.clear();
    } else this.#latest.set(subscription, at);
    this.#latestOfAll = Math.max(this.#latestOfAll, at);
    let place = this.#sent.length;
    while (place > 0 && this.#sent[place - 1]!.at > at) place -= 1;
    this.#sent.splice(place, 0, { at, frame });
    if (!this.#isHeld) this.#alarm.by(at);
  }

  /** Nothing arrives until {@link release}. */
  hold(): void {
    this.#isHeld = true;
    this.#alarm.stop();
  }

  release(): void {
    this.#isHeld = false;
    if (this.#sent.length > 0) this.#alarm.by(this.#sent[0]!.at);
  }

  /** What has not arrived is lost, except the end of the connection. */
  cut(hopMs: number): void {
    if (this.#isClosed) return;
    this.#sent = [];
    this.send(null, hopMs);
    this.#isClosed = true;
  }

  /** What has not arrived is lost. */
  close(): void {
    this.#isClosed = true;
    this.#sent = [];
    this.#alarm.stop();
  }

  #deliver(): void {
    const now = performance.now();
    while (!this.#isHeld && this.#sent.length > 0 && this.#sent[0]!.at <= now)
      this.#arrived(this.#sent.shift()!.frame);
    if (!this.#isHeld && this.#sent.length > 0) this.#alarm.by(this.#sent[0]!.at);
  }
}
