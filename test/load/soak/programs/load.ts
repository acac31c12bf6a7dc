// Program: the load of a soak, at a steady rate. Its own memory and handles are those of the SDK, and are measured like those of the fleet.

import { type ConnectOptions, connect, type FleetClient } from "../../../../shared/sdk/sdk.ts";
import { serveJobs } from "../../jobs.ts";
import { RESIDENT } from "./names.ts";
import { followEvents, type GatewayAccess, readTask } from "./people.ts";
import { Resident, readsOf } from "./residents.ts";
import { COMMANDS_OF_VISIT, visit } from "./visitors.ts";
import { counts, noteFailure, type WorkCounts } from "./work.ts";

const RESIDENTS = 8;
/** The share of the commands that agents with one task each send. */
const VISITED_SHARE = 0.4;
const READS_PER_COMMAND = 0.5;
const HTTP_READ_MS = 2_000;
const CONNECT_MS = 60_000;
const STAYING_PEOPLE = 3;
const LEAVES_AFTER_MS = 20_000;
/** More would be a load that the machine cannot take, and no steady one. */
const IN_FLIGHT_MAX = 200;

const jobs = { start, done };
export type LoadJobs = typeof jobs;
serveJobs(jobs);

interface StartParams extends GatewayAccess {
  readonly home: string;
  readonly busUrl: string;
  readonly rate: number;
}

let inFlight = 0;
let reader: FleetClient;

async function start({ home, busUrl, rate, ...access }: StartParams): Promise<void> {
  const options = {
    url: busUrl,
    spoolDir: `${home}/spool`,
    env: { ...process.env, FLEET_HOME: home },
    connectTimeoutMs: CONNECT_MS,
    onWarning: () => {},
  } satisfies ConnectOptions;
  const client = (agentId: string, role: "agent" | "operator" = "agent"): Promise<FleetClient> =>
    connect({ ...options, agentId, role });
  const residents = await Promise.all(
    Array.from({ length: RESIDENTS }, async (_, i) => Resident.start(await client(`${RESIDENT}${i}`), i)),
  );
  reader = await client("reader", "operator");
  const read = readsOf(reader, residents);
  for (let i = 0; i < STAYING_PEOPLE; i += 1) void followEvents(access, { leavesAfterMs: null });
  void followEvents(access, { leavesAfterMs: LEAVES_AFTER_MS });
  let turn = 0;
  let visitors = 0;
  const nextResident = () => residents[turn++ % residents.length]!;
  const visitsPerSecond = (rate * VISITED_SHARE) / COMMANDS_OF_VISIT;
  every(1_000 / (rate * (1 - VISITED_SHARE)), "write", () => nextResident().act());
  every(1_000 / visitsPerSecond, "visit", async () => {
    visitors += 1;
    const number = visitors;
    await visit(await client(`visitor-${number}`), number);
  });
  every(1_000 / (rate * READS_PER_COMMAND), "read", read);
  every(HTTP_READ_MS, "read over HTTP", () => readTask(access, residents[0]!.taskId));
}

/** Begins an action at each interval, independent of the earlier ones. */
function every(ms: number, what: string, act: () => Promise<void>): void {
  setInterval(() => {
    if (inFlight >= IN_FLIGHT_MAX) {
      counts.skipped += 1;
      return;
    }
    inFlight += 1;
    void act()
      .catch((error: unknown) => noteFailure(what, error))
      .finally(() => {
        inFlight -= 1;
      });
  }, ms);
}

/** The work so far, and the number of commits that the search index does not contain yet; null: the fleet did not answer. */
async function done(_: object): Promise<{ readonly counts: WorkCounts; readonly behind: number | null }> {
  const status = await reader.admin.status().catch(() => null);
  return { counts, behind: status?.index.behind ?? null };
}
