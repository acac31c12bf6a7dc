/**
 * The bus of an agent with a record: the bytes of every command are on disk before they are sent for the first time, to a writer or to the
 * queue. The answer to a command is kept for the agent's call.
 */
import type { Bus, Outgoing } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { type Copies, endingOf } from "./copies.ts";
import type { CommittedFacts, HistoryWriter } from "./history.ts";

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const QUEUED = SUBJECTS.everyQueue.slice(0, SUBJECTS.everyQueue.indexOf("*"));

export class BusRecorder {
  readonly #history: HistoryWriter;
  readonly #copies: Copies;
  readonly #sent = new Set<string>();
  readonly #repeated = new Set<string>();
  readonly #answers = new Map<string, CommittedFacts>();

  constructor(history: HistoryWriter, copies: Copies) {
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
      const commandId = await this.#record(real, subject, out);
      const answer = await real.request(subject, out, options);
      const { committed } = endingOf(JSON.parse(Buffer.from(answer.body).toString()));
      if (committed !== undefined) this.#answers.set(commandId, committed);
      return answer;
    };
    const publishDurable: Bus["publishDurable"] = async (subject, out, options) => {
      if (!subject.startsWith(QUEUED)) return real.publishDurable(subject, out, options);
      const command = `${COMMAND}${subject.slice(QUEUED.length)}`;
      await this.#record(real, command, out);
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

  async #record(real: Bus, subject: string, out: Outgoing): Promise<string> {
    const body = Buffer.from(out.body).toString();
    const { command_id } = JSON.parse(body) as { command_id: string };
    if (this.#sent.has(command_id)) {
      this.#repeated.add(command_id);
      return command_id;
    }
    this.#sent.add(command_id);
    await this.#history.append({ line: "sent", command_id, subject, body });
    this.#copies.onSent(real, subject, body);
    return command_id;
  }
}
