// The connections of the helper: bounded, although not every session reports its end.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { FleetConnections } from "../../../services/hook/fleet-connections.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type ManualClock, manualClock } from "../../harness/clock.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";

const log = createLogger({ service: "test", level: "silent" });
let fleet: TestFleet;
let clock: ManualClock;
let connections: FleetConnections;

beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(async () => {
  await connections?.close();
  await fleet?.stop();
});
beforeEach(async () => {
  await connections?.close();
  clock = manualClock();
  connections = new FleetConnections({ log, clock });
});

const agent = (n: number) => ({
  ...{ agentId: `agent-${n}`, agentType: "implementation" },
  ...{ taskId: undefined, fence: undefined },
});
const clientOf = (n: number): Promise<FleetClient> =>
  connections.use(agent(n), { FLEET_HOME: fleet.home }, async (client) => client);

test("an unused connection is closed, and the next event has a new one", async () => {
  const first = await clientOf(1);
  connections.closeIdle();
  expect(await clientOf(1)).toBe(first);
  await clock.advance(11 * 60_000);
  connections.closeIdle();
  expect(await clientOf(1)).not.toBe(first);
  await expect(first.getTask("a", { deadlineMs: 5_000 })).rejects.toThrow();
});

test("a connection in use stays open, also at the end of another session of the agent", async () => {
  const env = { FLEET_HOME: fleet.home };
  await connections.use(agent(1), env, async (client) => {
    connections.closeOf(agent(1), env);
    await clock.advance(11 * 60_000);
    connections.closeIdle();
    expect(await client.getTask("a", { deadlineMs: 20_000 })).toBeNull();
  });
});

test("beyond a hundred the connections that were used the longest ago are closed", async () => {
  const clients = [];
  for (let n = 0; n < 103; n += 1) clients.push(await clientOf(n));
  connections.closeIdle();
  expect(await clientOf(102)).toBe(clients[102]);
  expect(await clientOf(3)).toBe(clients[3]);
  expect(await clientOf(2)).not.toBe(clients[2]);
});
