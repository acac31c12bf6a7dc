/**
 * Kills at kill points, which random times would rarely hit: a process at a kill point requests its kill from the parent and stops. The parent
 * kills it with SIGKILL, counts the kill and restarts it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { parseCommandSubject, SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";
import { instant } from "../agents/history.ts";

/** The message to the parent with which a process at a kill point requests its kill. */
export interface KillRequest {
  readonly kill_at: string;
}

/** The share of the kill points at which a process is killed, until a time as {@link instant}, which is before the end of the faults. */
export interface KillPlan {
  readonly untilUs: number;
  readonly share: number;
  readonly random: () => number;
  /** Ends the process and never resolves. */
  readonly killAt: (point: string) => Promise<never>;
}

export const isHit = ({ untilUs, share, random }: Omit<KillPlan, "killAt">): boolean =>
  random() < share && instant() < untilUs;

/** Requests the kill from the parent; after the request this process does nothing more. */
export function killAt(point: string): Promise<never> {
  const forever = new Int32Array(new SharedArrayBuffer(4));
  process.send?.({ kill_at: point } satisfies KillRequest, () => void Atomics.wait(forever, 0, 0));
  return new Promise(() => {});
}

/** The labels of the transactions with kill points, by service. */
const TRANSACTIONS = {
  writer: ["remove_checkpoints", "pass_retention"],
  coordinator: ["offer", "escalate", "lapse", "reject"],
  watchdog: ["note_failure", "attempt_recovery", "block_recovery", "quarantine"],
} as const;

/** A store with kill points before and after the transactions of handoffs, recoveries and the sweep of retention. */
export function killableStore(store: Store, service: keyof typeof TRANSACTIONS, kills: KillPlan): Store {
  const labels: readonly string[] = TRANSACTIONS[service];
  return wrappedStore(store, async (options, body) => {
    if (!labels.includes(options.label)) return store.transact(options, body);
    if (isHit(kills)) return kills.killAt(`${service} before ${options.label}`);
    const committed = await store.transact(options, body);
    if (isHit(kills)) return kills.killAt(`${service} after ${options.label}`);
    return committed;
  });
}

const COMMAND = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const IN_FLIGHT_MS = 20;

/** A bus with kill points between a request and its answer, and after an answer. */
export function killableBus(real: Bus, agent: string, kills: KillPlan): Bus {
  const request: Bus["request"] = async (subject, out, options) => {
    const op = subject.startsWith(COMMAND) ? parseCommandSubject(subject).op : "";
    const isKillPoint = op === "acknowledge" || op === "create";
    if (isKillPoint && isHit(kills)) {
      void real.request(subject, out, options).catch(() => {});
      await sleep(kills.random() * IN_FLIGHT_MS);
      return kills.killAt(`${agent} during ${op}`);
    }
    const answer = await real.request(subject, out, options);
    if (isKillPoint && isHit(kills)) return kills.killAt(`${agent} after ${op}`);
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
