/**
 * Deaths at chosen moments, which no clock would meet: a process that has come to one asks its parent to be killed and does nothing more.
 * The parent kills it with SIGKILL, counts the moment, and starts it again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { parseCommandSubject, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";
import { instant } from "../agents/history.ts";

/** What a process tells its parent when it has come to its moment. */
export interface Dying {
  readonly dying: string;
}

/** Whether a process dies here; the moments end before the faults do, as {@link instant}. */
export interface Deaths {
  readonly untilUs: number;
  readonly share: number;
  readonly random: () => number;
}

export const strikes = ({ untilUs, share, random }: Deaths): boolean =>
  random() < share && instant() < untilUs;

/** Never resolves: nothing of this process runs on once the parent has been told. */
export function die(moment: string): Promise<never> {
  const forever = new Int32Array(new SharedArrayBuffer(4));
  process.send?.({ dying: moment } satisfies Dying, () => void Atomics.wait(forever, 0, 0));
  return new Promise(() => {});
}

/** By service, its moves by the names of their transactions. */
const MOVES = {
  coordinator: ["offer", "escalate", "lapse", "reject"],
  watchdog: ["note_failure", "attempt_recovery", "block_recovery", "quarantine"],
} as const;

/** A store whose process dies at times when a service is about to move a handoff or a recovery, or has just done so. */
export function dyingStore(store: Store, service: keyof typeof MOVES, deaths: Deaths): Store {
  const moves: readonly string[] = MOVES[service];
  return wrappedStore(store, async (options, body) => {
    if (!moves.includes(options.label)) return store.transact(options, body);
    if (strikes(deaths)) return die(`${service} before ${options.label}`);
    const committed = await store.transact(options, body);
    if (strikes(deaths)) return die(`${service} after ${options.label}`);
    return committed;
  });
}

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const IN_FLIGHT_MS = 20;

/** A bus on which an agent dies between a request and its answer, or between an answer and whatever was to follow. */
export function dyingBus(real: Bus, agent: string, deaths: Deaths): Bus {
  const request: Bus["request"] = async (subject, out, options) => {
    const op = subject.startsWith(COMMAND) ? parseCommandSubject(subject).op : "";
    const isMoment = op === "acknowledge" || op === "create";
    if (isMoment && strikes(deaths)) {
      void real.request(subject, out, options).catch(() => {});
      await sleep(deaths.random() * IN_FLIGHT_MS);
      return die(`${agent} during ${op}`);
    }
    const answer = await real.request(subject, out, options);
    if (isMoment && strikes(deaths)) return die(`${agent} after ${op}`);
    return answer;
  };
  return new Proxy(real, {
    get(target, name) {
      if (name === "request") return request;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
