/**
 * The bus of an agent with a record: the bytes of every command are on disk before they are sent for the first time, to a writer or to the
 * queue. The answer to a command is kept for the agent's call.
 */
import type { Bus, Outgoing } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { type Copies, endingOf } from "./copies.ts";
import type { CommittedFacts, HistorySink } from "./history.ts";

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const QUEUED = SUBJECTS.everyQueue.slice(0, SUBJECTS.everyQueue.indexOf("*"));

export class BusRecorder {
  readonly #history: HistorySink;
  readonly #copies: Copies;
  readonly #sent = new Set<string>();
  readonly #repeated = new Set<string>();
  readonly #answers = new Map<string, CommittedFacts>();

  constructor(history: HistorySink, copies: Copies) {
    this.#history = history;
    this.#copies = copies;
  }

  /** Returns the answer to a command and forgets it. */
  answerOf(commandId: string): CommittedFacts | undefined {
    const answer = this.#answers.get(commandId);
    this.#answers.delete(commandId);
    return answer;
  }

  /** Whether a command was sent more than once. */
  wasRepeated(commandId: string): boolean {
    return this.#repeated.has(commandId);
  }

  recorded(real: Bus): Bus {
    const request: Bus["request"] = async (subject, out, options) => {
      if (!subject.startsWith(COMMAND)) return real.request(subject, out, options);
      const { commandId, body, isFirst } = await this.#record(subject, out);
      if (isFirst) this.#copies.onSent(real, subject, body);
      const answer = await real.request(subject, out, options);
      const { committed } = endingOf(JSON.parse(Buffer.from(answer.body).toString()));
      if (committed !== undefined) this.#answers.set(commandId, committed);
      return answer;
    };
    const publishDurable: Bus["publishDurable"] = async (subject, out, options) => {
      if (!subject.startsWith(QUEUED)) return real.publishDurable(subject, out, options);
      const command = `${COMMAND}${subject.slice(QUEUED.length)}`;
      // No copy goes to a writer: it would overtake earlier commands of the task in the queue, which no client does.
      await this.#record(command, out);
      const ack = await real.publishDurable(subject, out, options);
      this.#copies.onQueued(real, command, { subject, out, messageId: options.messageId });
      return ack;
    };
    return new Proxy(real, {
      get(target, name) {
        if (name === "request") return request;
        if (name === "publishDurable") return publishDurable;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  async #record(
    subject: string,
    out: Outgoing,
  ): Promise<{ readonly commandId: string; readonly body: string; readonly isFirst: boolean }> {
    const body = Buffer.from(out.body).toString();
    const { command_id: commandId } = JSON.parse(body) as { command_id: string };
    const isFirst = !this.#sent.has(commandId);
    if (isFirst) {
      this.#sent.add(commandId);
      await this.#history.append({ line: "sent", command_id: commandId, subject, body });
    } else this.#repeated.add(commandId);
    return { commandId, body, isFirst };
  }
}
