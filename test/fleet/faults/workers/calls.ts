/**
 * The calls of agents whose commands the SDK sends. The first message of a command is the beginning of its call, and the answer is its end.
 * This layer is over the recorder of bytes, so that the call is on disk before them.
 */
import type { Bus } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { Ending } from "../agents/agent.ts";
import { callLine, endingOf } from "../agents/copies.ts";
import { type HistorySink, instant } from "../agents/history.ts";

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const QUEUED = SUBJECTS.everyQueue.slice(0, SUBJECTS.everyQueue.indexOf("*"));

interface Call {
  readonly name: string;
  sends: number;
  isCommitted: boolean;
}

export interface CallsContext {
  readonly history: HistorySink;
  readonly nextCall: () => string;
}

export function withCalls(real: Bus, { history, nextCall }: CallsContext): Bus {
  const calls = new Map<string, Call>();

  const begin = async (subject: string, body: string): Promise<Call> => {
    const { command_id } = JSON.parse(body) as { command_id: string };
    const known = calls.get(command_id);
    if (known !== undefined) {
      known.sends += 1;
      // An earlier answer does not apply to this message.
      if (!known.isCommitted) await end(known, { outcome: "unknown" });
      return known;
    }
    const call: Call = { name: nextCall(), sends: 1, isCommitted: false };
    calls.set(command_id, call);
    const { copy: _copy, ...line } = callLine({ call: call.name, copy: "late", subject, body });
    await history.append(line);
    return call;
  };

  const end = async (call: Call, ending: Ending): Promise<void> => {
    // A committed command stays committed, independent of the answer to a late copy.
    if (call.isCommitted) return;
    call.isCommitted = ending.outcome === "committed";
    // The refusal of a second message does not apply to the first one, which may still be in flight.
    const isOpen = ending.outcome === "refused" && call.sends > 1;
    const known = isOpen ? { ...ending, outcome: "unknown" as const } : ending;
    await history.append({ line: "done", call: call.name, at: instant(), ...known });
  };

  const request: Bus["request"] = async (subject, out, options) => {
    if (!subject.startsWith(COMMAND)) return real.request(subject, out, options);
    const call = await begin(subject, Buffer.from(out.body).toString());
    const answer = await real.request(subject, out, options);
    await end(call, endingOf(JSON.parse(Buffer.from(answer.body).toString())));
    return answer;
  };
  const publishDurable: Bus["publishDurable"] = async (subject, out, options) => {
    if (!subject.startsWith(QUEUED)) return real.publishDurable(subject, out, options);
    const call = await begin(`${COMMAND}${subject.slice(QUEUED.length)}`, Buffer.from(out.body).toString());
    const ack = await real.publishDurable(subject, out, options);
    // Without an earlier request the command comes from the spool.
    await end(call, { outcome: call.sends === 1 ? "spooled" : "queued" });
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
