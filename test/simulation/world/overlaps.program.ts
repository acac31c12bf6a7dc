/** Program: two overlapping faults of each kind. Prints as JSON what works between the end of the first and that of the second, and after both. */
import { setTimeout as sleep } from "node:timers/promises";
import type { NatsConnection } from "@nats-io/transport-node";
import { seededRandom } from "../../load/workload.ts";
import { SimulatedBusServer } from "../bus/server.ts";
import { SimulatedDatabase } from "../store/database.ts";
import type { StoryEvent } from "../story/story.ts";
import { Fingerprint } from "../time/fingerprint.ts";
import { simulate } from "../time/run.ts";
import { openDisk, openMetrics, SharedHistory, type WorldHost } from "./host.ts";
import { openMachines } from "./machines.ts";
import { play } from "./nemesis.ts";
import { UNPROTECTED } from "./protection.ts";
import { Supervised } from "./services.ts";

const LIMITS = { limitMs: 60_000, eventsMax: 100_000 };
const PATIENCE_MS = 40;

export interface OverlapFindings {
  /** By the kind of the faults. */
  readonly works: Readonly<Record<string, { readonly between: boolean; readonly after: boolean }>>;
  /** The error after a fault of a program that the world does not have. */
  readonly unknown: string;
}

/** Whether it succeeds within moments. */
const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    work.then(
      () => true,
      () => false,
    ),
    sleep(PATIENCE_MS, false),
  ]);

async function find(): Promise<OverlapFindings> {
  const server = new SimulatedBusServer({ random: seededRandom(1) });
  const database = new SimulatedDatabase({ random: seededRandom(2) });
  const host: WorldHost = {
    ...{ server, database, broken: null, removes: false, protection: UNPROTECTED, outage: "none" },
    damage: async () => {},
    machines: openMachines({ seed: 3, server, fingerprint: new Fingerprint(), host: () => host }),
    ...{ disk: openDisk(), metrics: openMetrics(), history: new SharedHistory() },
    kills: { untilUs: 0, share: 0, random: Math.random },
  };
  let connection: NatsConnection;
  const program = new Supervised("agent-0", host, async (incarnation) => {
    connection = await server.open(incarnation);
    return () => connection.close();
  });
  await program.ready();
  const world = { host, services: [], agents: [program], takers: [] };
  const overlap = async (
    fault: (at: number, forMs: number) => StoryEvent,
    probe: () => boolean | Promise<boolean>,
  ) => {
    const playing = play(world, { events: [fault(100, 300), fault(300, 300)] });
    await sleep(450);
    const between = await probe();
    await playing;
    return { between, after: await probe() };
  };
  const works = {
    partition: await overlap(
      (at, forMs) => ({ at, kind: "partition", program: program.name, forMs }),
      () => succeeds(connection.flush()),
    ),
    restart_bus: await overlap(
      (at, forMs) => ({ at, kind: "restart_bus", forMs }),
      () => succeeds(server.open("probe")),
    ),
    outage: await overlap(
      (at, forMs) => ({ at, kind: "outage", how: "refuses", forMs }),
      () => host.outage === "none",
    ),
    power_cut: await overlap(
      (at, forMs) => ({ at, kind: "power_cut", machine: "services", forMs }),
      () => succeeds((async () => database.snapshot().release())()),
    ),
  };
  const unknown = await play(world, { events: [{ at: 1, kind: "cut", program: "takers" }] }).then(
    () => "none",
    (error: Error) => error.message,
  );
  return { works, unknown };
}

process.stdout.write(JSON.stringify((await simulate(1, LIMITS, find)).value));
