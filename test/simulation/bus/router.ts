/** Which subscriptions get a message: all that match its subject, and one of each queue group. */
import type { SimulatedConnection, Subscription } from "./connection.ts";
import type { SimulatedFate } from "./faults/plan.ts";
import { SubjectTree } from "./subjects.ts";
import { headerBlock, type Publication } from "./wire.ts";

const NO_RESPONDERS = headerBlock({}, "503");

/** A message of the server itself, or of a stream. */
export interface ServerMessage {
  readonly subject: string;
  readonly reply?: string;
  readonly headers?: Buffer;
  readonly body: Buffer;
}

export class Router {
  readonly #fate: SimulatedFate;
  readonly #witness: string | undefined;
  readonly #subscriptions = new SubjectTree<Subscription>();

  /** `witness`: the name of the connections to which no message is lost. */
  constructor(fate: SimulatedFate, witness: string | undefined) {
    this.#fate = fate;
    this.#witness = witness;
  }

  add(one: Subscription): void {
    this.#subscriptions.add(one.subject, one);
  }

  remove(one: Subscription): void {
    this.#subscriptions.remove(one.subject, one);
  }

  hasInterest(subject: string): boolean {
    return this.#subscriptions.match(subject).length > 0;
  }

  /** A message of a client. False: no client is subscribed. */
  publish(message: Publication): boolean {
    const receivers = this.#receivers(message.subject);
    for (const one of receivers) {
      const isLost = this.#fate.isLostMessage() && one.connection.name !== this.#witness;
      if (!isLost) one.connection.deliver(one, message);
    }
    return receivers.length > 0;
  }

  /** A message of the server to an inbox. Its subject may be another one. */
  answer(inbox: string, { subject, reply, headers, body }: ServerMessage): void {
    for (const one of this.#receivers(inbox)) one.connection.deliver(one, { subject, reply, headers, body });
  }

  /** Reports to a client that its request has reached no one. */
  refuse(client: SimulatedConnection, inbox: string): void {
    const [own] = this.#subscriptions.match(inbox).filter(({ connection }) => connection === client);
    const message = { subject: inbox, reply: undefined, headers: NO_RESPONDERS, body: Buffer.alloc(0) };
    if (own !== undefined) client.deliver(own, message);
  }

  #receivers(subject: string): Subscription[] {
    const found = this.#subscriptions.match(subject);
    if (found.every(({ queue }) => queue === undefined)) return found;
    const groups = new Map<string, Subscription[]>();
    for (const one of found) {
      if (one.queue === undefined) continue;
      groups.set(one.queue, [...(groups.get(one.queue) ?? []), one]);
    }
    const chosen = [...groups.values()].map((group) => group[this.#fate.choice(group.length)]!);
    return [...found.filter(({ queue }) => queue === undefined), ...chosen];
  }
}
