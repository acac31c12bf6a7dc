/**
 * The bus as an agent has it, with a memory: the bytes of every command are on disk before they leave for the first time, and what a
 * command was answered with is kept for the agent's own record.
 */
import type { Bus, Outgoing } from "../../../shared/bus/bus.ts";
import { type Copies, endingOf } from "./copies.ts";
import type { CommittedFacts, HistoryWriter } from "./history.ts";

export interface Recording {
  readonly bus: Bus;
  /** What a command was answered with, once: asking again gives nothing. */
  answerOf(commandId: string): CommittedFacts | undefined;
}

export function recordingBus(
  real: Bus,
  o: {
    readonly history: HistoryWriter;
    readonly copies: Copies;
    readonly isCommand: (subject: string) => boolean;
  },
): Recording {
  const known = new Set<string>();
  const answers = new Map<string, CommittedFacts>();
  const remember = async (subject: string, out: Outgoing): Promise<string> => {
    const body = Buffer.from(out.body).toString();
    const { command_id } = JSON.parse(body) as { command_id: string };
    if (known.has(command_id)) return command_id;
    known.add(command_id);
    await o.history.append({ line: "sent", command_id, subject, body });
    o.copies.consider(subject, body);
    return command_id;
  };
  const request: Bus["request"] = async (subject, out, options) => {
    if (!o.isCommand(subject)) return real.request(subject, out, options);
    const commandId = await remember(subject, out);
    const answer = await real.request(subject, out, options);
    const { committed } = endingOf(JSON.parse(Buffer.from(answer.body).toString()));
    if (committed !== undefined) answers.set(commandId, committed);
    return answer;
  };
  const bus = new Proxy(real, {
    get(target, name) {
      if (name === "request") return request;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return {
    bus,
    answerOf(commandId) {
      const answer = answers.get(commandId);
      answers.delete(commandId);
      return answer;
    },
  };
}
