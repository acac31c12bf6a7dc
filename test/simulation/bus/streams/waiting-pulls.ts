/** The pull requests that wait at a consumer. Each gets messages in turn, until its number or its time is over. */
import { headerBlock } from "../wire.ts";

const NANOS_PER_MS = 1_000_000;
const BODY = Buffer.alloc(0);

interface PullRequest {
  readonly inbox: string;
  left: number;
  /** In the time of `performance`, as all times here. */
  readonly endsAt: number;
  readonly beatMs: number;
  beatAt: number;
}

/** Where statuses and messages of a consumer go. */
export interface Deliveries {
  /** Whether a client is subscribed to an inbox. */
  hasInterest(inbox: string): boolean;
  send(inbox: string, message: { subject: string; reply?: string; headers?: Buffer; body: Buffer }): void;
}

export class WaitingPulls {
  readonly #deliveries: Deliveries;
  #waiting: PullRequest[] = [];

  constructor(deliveries: Deliveries) {
    this.#deliveries = deliveries;
  }

  get count(): number {
    return this.#waiting.length;
  }

  /** The time of the next status. */
  get nextAt(): number {
    return this.#waiting.reduce((soonest, one) => Math.min(soonest, one.endsAt, one.beatAt), Infinity);
  }

  add(inbox: string, body: Buffer, max: number): void {
    const asked = body.length === 0 ? {} : (JSON.parse(body.toString()) as Record<string, number>);
    const now = performance.now();
    this.#waiting = this.#waiting.filter((one) => this.#deliveries.hasInterest(one.inbox));
    if (this.#waiting.length >= max) {
      this.#status(inbox, "409 Exceeded MaxWaiting");
      return;
    }
    const { batch = 1, expires = 0, idle_heartbeat: beat = 0 } = asked;
    const beatMs = beat / NANOS_PER_MS;
    this.#waiting.push({
      inbox,
      left: batch,
      endsAt: expires > 0 ? now + expires / NANOS_PER_MS : Infinity,
      beatMs,
      beatAt: beatMs > 0 ? now + beatMs : Infinity,
    });
  }

  /** The inbox for the next message. undefined: none waits. */
  peek(): string | undefined {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) return undefined;
      if (first.endsAt > performance.now() && this.#deliveries.hasInterest(first.inbox)) return first.inbox;
      this.#waiting.shift();
      if (first.endsAt <= performance.now()) this.#expired(first);
    }
  }

  /** One message goes to the inbox of {@link peek}. The next one goes to the next request. */
  take(): void {
    const first = this.#waiting.shift()!;
    first.left -= 1;
    if (first.beatMs > 0) first.beatAt = performance.now() + first.beatMs;
    if (first.left > 0) this.#waiting.push(first);
  }

  /** Sends the statuses that are due. `delivered`, `stored`: positions of the consumer and of its stream. */
  report(delivered: number, stored: number): void {
    const now = performance.now();
    const before = this.#waiting;
    this.#waiting = before.filter(({ endsAt }) => endsAt > now);
    for (const one of before) {
      if (one.endsAt <= now) this.#expired(one);
      else if (one.beatAt <= now) {
        one.beatAt = now + one.beatMs;
        const fields = { "Nats-Last-Consumer": delivered, "Nats-Last-Stream": stored };
        this.#status(one.inbox, "100 Idle Heartbeat", fields);
      }
    }
  }

  end(status: string | undefined): void {
    const before = this.#waiting;
    this.#waiting = [];
    if (status !== undefined) for (const { inbox } of before) this.#status(inbox, status);
  }

  #expired({ inbox, left }: PullRequest): void {
    this.#status(inbox, "408 Request Timeout", { "Nats-Pending-Messages": left, "Nats-Pending-Bytes": 0 });
  }

  #status(inbox: string, status: string, fields: Readonly<Record<string, number>> = {}): void {
    if (!this.#deliveries.hasInterest(inbox)) return;
    this.#deliveries.send(inbox, { subject: inbox, headers: headerBlock(fields, status), body: BODY });
  }
}
