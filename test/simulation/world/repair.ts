/** The time after the faults: the fleet becomes idle, open commands get their answers, and all programs stop. Then the final state is read. */
import { setTimeout as sleep } from "node:timers/promises";
import { readBucketCounts } from "../../../shared/records/encryption/encryption-status.ts";
import { pairedHistory } from "../../fleet/faults/agents/history.ts";
import type { FinalState, Violation } from "../../fleet/faults/checker/evidence.ts";
import { readStoredState, readStreamsOver } from "../../fleet/faults/final-state.ts";
import { resolveOpen, untilIdle } from "../../fleet/faults/repair.ts";
import { placeOn } from "../machine/machine.ts";
import { SimulatedProcess } from "../time/processes.ts";
import { OUTSIDE, type WorldHost } from "./host.ts";
import { readableStore, signingStore } from "./protection.ts";
import type { Supervised } from "./services.ts";
import type { World } from "./world-parts.ts";

const IDLE_MS = 120_000;
const POLL_MS = 500;
const STOP_MS = 60_000;

interface Repaired {
  readonly violations: readonly Violation[];
  readonly finalState: FinalState;
}

export async function finish(world: World): Promise<Repaired> {
  const { host, bus, started, agents, takers, services } = world;
  const connection = await host.server.open(OUTSIDE);
  const violations: Violation[] = [];
  const stop = async (programs: readonly Supervised[]): Promise<void> => {
    for (const one of programs) violations.push(...(await stopped(one)));
  };
  const becomeIdle = async (): Promise<void> => {
    // After one failure there is no further wait.
    const idleMs = violations.length > 0 ? 0 : IDLE_MS;
    // Simulated time does not depend on the speed of the machine.
    const limits = { idleMs, wholeMs: idleMs, pollMs: POLL_MS };
    violations.push(...(await untilIdle({ started }, { bus, connection, ...limits })).violations);
  };
  const resolve = (name: string) =>
    resolveOpen(bus, pairedHistory(host.history.lines), { history: host.history, name });
  await stop(agents);
  await becomeIdle();
  await resolve("resolving");
  await becomeIdle();
  await stop(takers);
  await world.dispatcher.stop();
  await resolve("resolving-takers");
  await becomeIdle();
  if (violations.length === 0) violations.push(...(await untilRewrapped(host)));
  await stop(services);
  await world.stopRecording();
  const streams = await readStreamsOver(connection);
  const { unpublished, ...stored } = await readFinalStore(host, violations.length === 0);
  await connection.close();
  await bus.close();
  return { violations, finalState: { ...stored, ...streams, events: [...streams.events, ...unpublished] } };
}

/** The acts of the scrub are signed as those of services are. `isRewrapped`: the first root key is enough. */
function readFinalStore({ database, protection, metrics, machines }: WorldHost, isRewrapped: boolean) {
  const judge = new SimulatedProcess("judge");
  placeOn(machines.services, judge);
  return judge.run(async () => {
    const { rootKeys } = protection;
    const first = rootKeys && (() => [rootKeys()[0]] as const);
    const keys = { rootKeys: isRewrapped ? first : rootKeys };
    const { store: readable } = await readableStore(await database.open(), keys);
    const { store, stop } = await signingStore(readable, protection, { metrics, service: "judge" });
    const stored = await readStoredState(store);
    await stop();
    return stored;
  });
}

/** The watchdogs wrap all bucket keys by the first root key. */
function untilRewrapped({ database, protection, machines }: WorldHost): Promise<Violation[]> {
  const reader = new SimulatedProcess("reader-of-keys");
  placeOn(machines.services, reader);
  return reader.run(async (): Promise<Violation[]> => {
    const { encryption } = await readableStore(await database.open(), protection);
    if (encryption === null) return [];
    const { engine, ring } = encryption;
    for (let ms = 0; ; ms += POLL_MS) {
      const counts = await readBucketCounts(engine, { ring });
      if (counts.bucket_keys_of_other_roots === 0) return [];
      if (ms > IDLE_MS) {
        const text = "bucket keys still need an earlier root key";
        return [{ kind: "not_recovered", task: null, text, details: { ...counts } }];
      }
      await sleep(POLL_MS);
    }
  });
}

async function stopped(program: Supervised): Promise<Violation[]> {
  const problem = await Promise.race([
    program.stop().then(
      () => undefined,
      (error: unknown) => String(error),
    ),
    sleep(STOP_MS, "it did not stop in time"),
  ]);
  if (problem === undefined) return [];
  const details = { process: program.name, problem };
  return [{ kind: "process_failed", task: null, text: "a program did not stop cleanly", details }];
}
