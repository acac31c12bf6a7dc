/**
 * The bus as an agent has it, with a memory: the bytes of every command are on disk before they leave for the first time, to a writer or
 * into the queue, and what a command was answered with is kept for the agent's own record.
 */
import type { Bus, Outgoing } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { type Copies, endingOf } from "./copies.ts";
import type { CommittedFacts, HistoryWriter } from "./history.ts";

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const QUEUED = SUBJECTS.everyQueue.slice(0, SUBJECTS.everyQueue.indexOf("*"));

export class Recorder {
  readonly #history: HistoryWriter;
  readonly #copies: Copies;
  readonly #known = new Set<string>();
  readonly #again = new Set<string>();
  readonly #answers = new Map<string, CommittedFacts>();

  constructor(history: HistoryWriter, copies: Copies) {
    this.#history = history;
    this.#copies = copies;
  }

  /** What a command was answered with, once: asking again gives nothing. */
  answerOf(commandId: string): CommittedFacts | undefined {
    const answer = this.#answers.get(commandId);
    this.#answers.delete(commandId);
    return answer;
  }

  /** Whether a command left more than once. */
  wasSentAgain(commandId: string): boolean {
    return this.#again.has(commandId);
  }

  recorded(real: Bus): Bus {
    const request: Bus["request"] = async (subject, out, options) => {
      if (!subject.startsWith(COMMAND)) return real.request(subject, out, options);
      const commandId = await this.#remember(real, subject, out);
      const answer = await real.request(subject, out, options);
      const { committed } = endingOf(JSON.parse(Buffer.from(answer.body).toString()));
      if (committed !== undefined) this.#answers.set(commandId, committed);
      return answer;
    };
    const publishDurable: Bus["publishDurable"] = async (subject, out, options) => {
      if (!subject.startsWith(QUEUED)) return real.publishDurable(subject, out, options);
      const command = `${COMMAND}${subject.slice(QUEUED.length)}`;
      await this.#remember(real, command, out);
      const ack = await real.publishDurable(subject, out, options);
      this.#copies.considerQueued(real, command, { subject, out, messageId: options.messageId });
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

  async #remember(real: Bus, subject: string, out: Outgoing): Promise<string> {
    const body = Buffer.from(out.body).toString();
    const { command_id } = JSON.parse(body) as { command_id: string };
    if (this.#known.has(command_id)) {
      this.#again.add(command_id);
      return command_id;
    }
    this.#known.add(command_id);
    await this.#history.append({ line: "sent", command_id, subject, body });
    this.#copies.consider(real, subject, body);
    return command_id;
  }
}
