/** What the scenarios of faults share: a simulated server, its connections, and the digest of everything that arrived. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus, BusStatus, Message, Outgoing, ServeOptions } from "../../../../shared/bus/bus.ts";
import { BusError } from "../../../../shared/bus/bus.ts";
import { fleetStreams, type StreamSpec } from "../../../../shared/bus/streams/streams.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { seededRandom } from "../../../load/workload.ts";
import { SimulatedBusServer } from "../server.ts";
import type { BusFaults } from "./plan.ts";

const MIB = 1024 * 1024;
const log = createLogger({ service: "simulation", level: "silent" });

/** Counts and texts, for the test that started the program. */
export type ScenarioFacts = Readonly<Record<string, unknown>>;

export interface Stage {
  readonly server: SimulatedBusServer;
  connect(name: string): Promise<Bus>;
  /** Of everything that has arrived until now: its times, connections and bytes. */
  digest(): string;
}

export async function setStage(seed: number, faults: BusFaults): Promise<Stage> {
  const history = createHash("sha256");
  const observe = (connection: string, direction: string, frame: Uint8Array) =>
    history.update(`${performance.now()} ${connection} ${direction} `).update(frame);
  const server = new SimulatedBusServer({ random: seededRandom(seed), faults, observe });
  return {
    server,
    connect: (name) => server.connect({ name, identity: name, log }),
    digest: () => history.copy().digest("hex"),
  };
}

export const STREAM: StreamSpec = {
  ...fleetStreams({ storageBytes: 512 * MIB })[0]!,
  name: "SIMULATED",
  subjects: ["t.stored.>"],
};
export const WORK: StreamSpec = {
  ...STREAM,
  name: "SIMULATED_WORK",
  subjects: ["t.work.>"],
  retention: "workqueue",
  denies: [],
};

export const outgoing = (value: string): Outgoing => ({ body: Buffer.from(value) });
export const messageText = ({ body }: Pick<Message, "body">): string => Buffer.from(body).toString();

export const ECHO: ServeOptions = {
  queue: "echo",
  concurrencyMax: 1_000,
  waitMsMax: 30_000,
  isOwnReply: () => true,
  dropped: () => {},
  overload: () => outgoing("overload"),
  failed: () => outgoing("failed"),
};

/** `ok`, or the kind of the error. */
export const outcomeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "ok",
    (error: unknown) => {
      if (error instanceof BusError) return error.kind;
      throw error;
    },
  );

/** The statuses of a connection with their times in whole seconds. */
export function statusesOf(bus: Bus): { readonly status: BusStatus; readonly second: number }[] {
  const found: { status: BusStatus; second: number }[] = [];
  const begin = performance.now();
  bus.onStatus((status) => found.push({ status, second: Math.floor((performance.now() - begin) / 1_000) }));
  return found;
}

/** Resolves when the condition holds. The limits of the simulation end a run in which it never does. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(100);
}

/** How many of each value there are. */
export function tally(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

export const numbered = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));
