/** Attacks on the rule of two persons, each on a real fleet with credentials of its own: none of them is a second person. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const TEST_MS = 240_000;
const POLL = { timeout: 90_000 };
const CALL = { deadlineMs: 60_000 };

let fleet: TestFleet;
/** The home of people without the keys of the fleet. */
const elsewhere = mkdtempSync(join(tmpdir(), "fleet-shred-attacks-"));
const clients: FleetClient[] = [];

beforeAll(async () => {
  fleet = await startFleet();
}, TEST_MS);
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await fleet?.stop();
  rmSync(elsewhere, { recursive: true, force: true });
});

const cli = (...args: string[]) => callCli(args, { env: { FLEET_URL: fleet.url, FLEET_HOME: fleet.home } });

/** A program with issued credentials, and nothing else of the fleet. */
async function issued(name: string, role: "custodian" | "agent"): Promise<FleetClient> {
  const file = join(elsewhere, `${name}.creds`);
  expect(await cli("access", "issue", "--agent", name, "--role", role, "--out", file)).toMatchObject({
    exit: 0,
  });
  const client = await connect({
    ...{ url: fleet.url, agentId: role === "agent" ? name : `human=${name}`, credentials: file },
    ...{ fallback: "none", env: { FLEET_HOME: elsewhere }, onWarning: () => {} },
  });
  clients.push(client);
  return client;
}

async function requested(taskId: string, olga: FleetClient): Promise<number> {
  const agent = await fleet.client("coder-1");
  await agent.createCheckpoint({ taskId, checkpoint: input(), fallback: "none", ...CALL });
  const { shred } = await olga.admin.retention.requestShred(taskId, { reason: "erasure", ...CALL });
  return shred!.request_seq;
}

const codeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "done",
    (error: { readonly code?: string }) => error.code ?? String(error),
  );
const stateOf = async (task: string) =>
  (await (await fleet.client("operator-1")).getTask(task, CALL))?.shred?.state;

test("agents, programs with the rights of an operator, and the same person again are no second person", {
  timeout: TEST_MS,
}, async () => {
  const olga = await issued("olga", "custodian");
  const seq = await requested("one", olga);
  const approve = (client: FleetClient) => codeOf(client.admin.retention.approveShred("one", seq, CALL));
  // The same person, also with other credentials and in other letters.
  expect(await approve(olga)).toBe("FORBIDDEN");
  expect(await approve(await issued("OLGA", "custodian"))).toBe("FORBIDDEN");
  // The bus permits it to no agent, and the fleet to no program that may act as an operator.
  expect(await approve(await issued("coder-2", "agent"))).toBe("FORBIDDEN");
  expect(await approve(await fleet.client("ops-bot"))).toBe("FORBIDDEN");
  // Nor by a command that names another person: the credentials decide who acts.
  const forged = await connect({
    ...{ url: fleet.url, agentId: "human=pavel", credentials: join(elsewhere, "olga.creds") },
    ...{ fallback: "none", env: { FLEET_HOME: elsewhere }, onWarning: () => {} },
  });
  clients.push(forged);
  expect(await codeOf(forged.admin.retention.approveShred("one", seq, { deadlineMs: 10_000 }))).toBe(
    "FORBIDDEN",
  );
  expect(await stateOf("one")).toBe("requested");
});

test("an approval is for the request that the person saw, and not for a later one", {
  timeout: TEST_MS,
}, async () => {
  const [olga, pavel] = [await issued("olga-2", "custodian"), await issued("pavel-2", "custodian")];
  const seen = await requested("changed", olga);
  await olga.admin.retention.cancelShred("changed", seen, CALL);
  const { shred } = await olga.admin.retention.requestShred("changed", { reason: "other", ...CALL });
  const late = pavel.admin.retention.approveShred("changed", seen, CALL);
  await expect(late).rejects.toMatchObject({ code: "CONFLICT", message: "the task has no such request" });
  expect(await stateOf("changed")).toBe("requested");
  expect(await codeOf(pavel.admin.retention.approveShred("changed", shred!.request_seq, CALL))).toBe("done");
  await expect.poll(() => stateOf("changed"), POLL).toBe("shredded");
});

test("revoked credentials approve nothing, neither over an open connection nor over a new one", {
  timeout: TEST_MS,
}, async () => {
  const [olga, pavel] = [await issued("olga-3", "custodian"), await issued("pavel-3", "custodian")];
  const seq = await requested("revoked", olga);
  // The connection works until then.
  expect((await pavel.getTask("revoked", CALL))?.shred?.state).toBe("requested");
  expect(await cli("access", "revoke", "pavel-3")).toMatchObject({ exit: 0 });
  await expect.poll(() => codeOf(pavel.getTask("revoked", { deadlineMs: 5_000 })), POLL).not.toBe("done");
  expect(await codeOf(pavel.admin.retention.approveShred("revoked", seq, { deadlineMs: 5_000 }))).not.toBe(
    "done",
  );
  const again = connect({
    ...{ url: fleet.url, agentId: "human=pavel-3", credentials: join(elsewhere, "pavel-3.creds") },
    ...{ fallback: "none", env: { FLEET_HOME: elsewhere }, onWarning: () => {} },
  });
  expect(await codeOf(again)).toBe("UNAUTHORIZED");
  expect(await stateOf("revoked")).toBe("requested");
});
