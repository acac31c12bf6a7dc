/**
 * JetStream confirms a stored message at the reply address that its sender chose, without the permissions of the sender. Clients of another tenant
 * let it publish confirmations at the subjects of every stream of a real fleet with credentials.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NO_TASK } from "../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { ARTIFACT_BUCKET } from "../../../shared/protocol/object-bucket.ts";
import { QUEUED_OPS } from "../../../shared/protocol/operations.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { administratorAuthenticator } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { fileOf, MIB, sha256 } from "../artifacts/bytes.ts";
import { CONFIRMATIONS, confirmAt } from "./confirmed-attacks.ts";

const CALLS_MS = 180_000;
const POLL = { timeout: 60_000, interval: 100 };
const CALL = { deadlineMs: 60_000 };
let fleet: TestFleet;
let agent: FleetClient;
let operator: FleetClient;
let witness: NatsConnection;
let manager: JetStreamManager;

beforeAll(async () => {
  fleet = await startFleet({
    FLEET_GATEWAY_PORT: "-1",
    FLEET_SCRUB_EVERY: "off",
    FLEET_ARTIFACTS: "nats",
    FLEET_ARTIFACTS_BYTES: "64MiB",
  });
  agent = await fleet.client("coder-1");
  operator = await fleet.client("human=ada");
  witness = await connect({
    servers: fleet.url,
    authenticator: await administratorAuthenticator(fleet.home),
  });
  manager = await jetstreamManager(witness);
}, CALLS_MS);
afterAll(async () => {
  await witness?.close();
  await fleet?.stop();
});

async function subjectsOf(stream: string, filter: string): Promise<string[]> {
  const { state } = await manager.streams.info(stream, { subjects_filter: filter });
  return Object.keys(state.subjects ?? {});
}

/** Resolves when the services have handled all that clients can store. */
async function handled(): Promise<void> {
  await expect.poll(async () => (await manager.streams.info(STREAMS.queue)).state.messages, POLL).toBe(0);
  const waiting = async () => {
    const { num_pending, num_ack_pending } = await manager.consumers.info(STREAMS.exits, "watchdog-exits");
    return num_pending + num_ack_pending;
  };
  await expect.poll(waiting, POLL).toBe(0);
}

test(
  "an agent gets the offer of a task whose tenant, agent type and id the attackers know",
  async () => {
    const task = await agent.takeTask("offered", CALL);
    await task.checkpoint(input(), CALL);
    await task.handOff({ toAgentType: "qa", ...CALL });
    await expect.poll(async () => (await agent.handoffOf("offered", CALL))?.state, POLL).toBe("offered");
    const offers = () => subjectsOf(STREAMS.offers, SUBJECTS.offersOf("default", "qa"));
    await expect.poll(async () => (await offers()).length, POLL).toBe(1);
    const [genuine] = await offers();
    const foreseen = [
      SUBJECTS.offer("default", "qa", "offered"),
      SUBJECTS.offer("default", "qa", "offered", "A".repeat(43)),
    ];
    await confirmAt(fleet, witness, foreseen);
    expect((await offers()).toSorted()).toEqual([genuine, ...foreseen].toSorted());
    const { data } = (await manager.streams.getMessage(STREAMS.offers, { last_by_subj: genuine! }))!;
    expect(JSON.parse(Buffer.from(data).toString())).toMatchObject({ subject: "offered" });

    const accepted = Promise.withResolvers<string>();
    const refused: string[] = [];
    const reviewer = await fleet.client("reviewer-1");
    const stop = await reviewer.onOffer(
      "qa",
      async (offer) => accepted.resolve((await offer.acknowledge()).task.id),
      { onRefused: ({ code }) => void refused.push(code) },
    );
    expect(await accepted.promise).toBe("offered");
    await expect.poll(async () => (await offers()).length, POLL).toBe(0);
    // A refused one that the bus did not settle in time comes again.
    expect(refused.length).toBeGreaterThanOrEqual(2);
    expect(new Set(refused)).toEqual(new Set(["INVALID"]));
    await stop();
  },
  CALLS_MS,
);

test(
  "an artifact keeps its bytes, although the attackers know the subjects of all messages in its bucket",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-confirmed-"));
    try {
      const { path, bytes } = fileOf(folder, "report.pdf", 3 * MIB);
      const reference = await agent.artifacts.put(path);
      const task = await agent.takeTask("attached", CALL);
      await task.checkpoint({ ...input(), artifacts: [reference] }, CALL);
      const all = await subjectsOf(ARTIFACT_BUCKET.stream, ">");
      expect(all.length).toBeGreaterThanOrEqual(6);
      const unknown = [ARTIFACT_BUCKET.record("any"), ARTIFACT_BUCKET.content("any")];
      await confirmAt(fleet, witness, [...all, ...unknown]);
      expect(await agent.artifacts.verify(reference.sha256)).toBe(bytes.length);
      expect(reference.sha256).toBe(sha256(bytes));
      // The same bytes again find those that are stored.
      expect((await agent.artifacts.put(path)).sha256).toBe(reference.sha256);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  CALLS_MS,
);

test(
  "confirmations in the other streams change no task, and leave no letter and no alert",
  async () => {
    const task = await agent.takeTask("held", CALL);
    await task.checkpoint(input(), CALL);
    const before = await agent.getTask("held", CALL);
    const [events, alerts]: [FleetEvent[], unknown[]] = [[], []];
    const stopEvents = await agent.onEvent((event) => void events.push(event), { taskId: "held" });
    const stopAlerts = await operator.admin.onAlert(({ type }) => void alerts.push(type));
    await confirmAt(fleet, witness, [
      ...QUEUED_OPS.map((op) => SUBJECTS.queue("default", "coder-1", "held", op)),
      SUBJECTS.exit("default", "coder-1", "held"),
      SUBJECTS.heartbeat("default", "coder-1"),
      SUBJECTS.event("default", "CHECKPOINT_CREATED", "held"),
      SUBJECTS.alert("default", "critical", "held"),
      SUBJECTS.alert("default", "critical", NO_TASK),
      SUBJECTS.dead("default", STREAMS.queue, "invalid", "held"),
    ]);
    await handled();
    expect(await agent.getTask("held", CALL)).toEqual(before);
    const after = await task.checkpoint(input(), CALL);
    expect(after.outcome).toBe("committed");
    expect((await operator.admin.listAlerts({ taskId: "held", ...CALL })).alerts).toEqual([]);
    // The event of the checkpoint comes behind the confirmations.
    const isSeen = () => events.some((event) => JSON.stringify(event).includes(after.checkpointId));
    await expect.poll(isSeen, POLL).toBe(true);
    expect(events.filter(({ type }) => typeof type !== "string")).toEqual([]);
    expect(alerts).toEqual([]);
    await Promise.all([stopEvents(), stopAlerts()]);
    const letters = await subjectsOf(STREAMS.dead, SUBJECTS.deadOf("default"));
    // The attackers' own target, whose messages no service wrote.
    expect(letters).toEqual([SUBJECTS.dead("default", STREAMS.queue, "invalid", "held")]);
    const { state } = await manager.streams.info(STREAMS.dead, { subjects_filter: letters[0]! });
    expect(state.subjects?.[letters[0]!]).toBe(CONFIRMATIONS);
  },
  CALLS_MS,
);
