/** One connection of a client: the two directions, the subscriptions that the server knows, and what can happen to it. */
import type { SimulatedFate } from "./faults/plan.ts";
import { Lane } from "./lane.ts";
import { Alarm, type Runner } from "./time.ts";
import type { ClientEnd, Dialled } from "./transport.ts";
import {
  type ClientCommand,
  CommandReader,
  infoFrame,
  messageFrame,
  PONG_FRAME,
  type Publication,
} from "./wire.ts";

/** A server drops a connection without an answer to its pings. */
const STALE_MS = 60_000;

export interface Subscription {
  readonly connection: SimulatedConnection;
  readonly sid: string;
  readonly subject: string;
  readonly queue: string | undefined;
  /** Ends after so many messages. 0: never. */
  max: number;
  received: number;
}

/** The server as a connection sees it. */
export interface ConnectionHost {
  readonly run: Runner;
  readonly fate: SimulatedFate;
  readonly info: object;
  subscribed(one: Subscription): void;
  unsubscribed(one: Subscription): void;
  published(from: SimulatedConnection, message: Publication): void;
  closed(one: SimulatedConnection): void;
  observe(connection: string, direction: ">" | "<", frame: Uint8Array): void;
}

export class SimulatedConnection implements Dialled {
  readonly name: string;
  readonly #host: ConnectionHost;
  readonly #toServer: Lane;
  readonly #toClient: Lane;
  readonly #reader = new CommandReader();
  readonly #subscriptions = new Map<string, Subscription>();
  #isClosed = false;
  /** A stalled client still sends. */
  #isStalled = false;
  readonly #stale: Alarm;

  constructor(name: string, host: ConnectionHost, client: ClientEnd) {
    this.name = name;
    this.#host = host;
    this.#stale = new Alarm(host.run, () => this.close());
    this.#toServer = new Lane(host.run, (frame) => {
      if (frame === null) this.close();
      else this.#received(frame);
    });
    this.#toClient = new Lane(client.run, (frame) => {
      if (frame === null) client.ended();
      else {
        host.observe(name, "<", frame);
        client.arrived(frame);
      }
    });
    this.#send(infoFrame(host.info));
  }

  /** By the client. */
  send(frame: Uint8Array): void {
    this.#toServer.send(frame, this.#host.fate.hop());
  }

  closed(): void {
    this.#toClient.close();
    this.#toServer.send(null, this.#host.fate.hop());
  }

  /** The server's end. The client learns of it after a hop, and what the server has not sent yet is lost. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stale.stop();
    this.#toServer.close();
    for (const one of this.#subscriptions.values()) this.#host.unsubscribed(one);
    this.#subscriptions.clear();
    this.#toClient.cut(this.#host.fate.hop());
    this.#host.closed(this);
  }

  /** Nothing passes until {@link release}. */
  hold(): void {
    if (this.#isClosed) return;
    this.#stale.by(performance.now() + STALE_MS);
    this.#toServer.hold();
    this.#toClient.hold();
  }

  stall(): void {
    this.#isStalled = true;
    this.#toClient.hold();
  }

  release(): void {
    this.#isStalled = false;
    this.#stale.stop();
    this.#toServer.release();
    this.#toClient.release();
  }

  /** The client's program is dead: nothing of it arrives any more, and nothing reaches it. */
  abandon(): void {
    this.#toServer.close();
    this.#toClient.close();
    this.close();
  }

  deliver(one: Subscription, message: Publication): void {
    one.received += 1;
    if (one.max > 0 && one.received >= one.max) this.#unsubscribe(one);
    this.#toClient.send(messageFrame(one.sid, message), this.#host.fate.hop(), one.sid);
    if (this.#isStalled && this.#toClient.waiting > this.#host.fate.slowConsumerMax) this.close();
  }

  #send(frame: Uint8Array): void {
    this.#toClient.send(frame, this.#host.fate.hop());
  }

  #received(frame: Uint8Array): void {
    this.#host.observe(this.name, ">", frame);
    for (const command of this.#reader.read(frame)) {
      if (this.#isClosed) return;
      this.#carryOut(command);
    }
  }

  #carryOut(command: ClientCommand): void {
    switch (command.kind) {
      case "publish":
        this.#host.published(this, command.message);
        break;
      case "subscribe": {
        const { subject, queue, sid } = command;
        const one = { connection: this, sid, subject, queue, max: 0, received: 0 };
        this.#subscriptions.set(sid, one);
        this.#host.subscribed(one);
        break;
      }
      case "unsubscribe": {
        const one = this.#subscriptions.get(command.sid);
        if (one === undefined) break;
        one.max = command.max;
        if (one.max === 0 || one.received >= one.max) this.#unsubscribe(one);
        break;
      }
      case "ping":
        this.#send(PONG_FRAME);
        break;
      case "connect":
      case "pong":
        break;
    }
  }

  #unsubscribe(one: Subscription): void {
    if (this.#subscriptions.delete(one.sid)) this.#host.unsubscribed(one);
  }
}
