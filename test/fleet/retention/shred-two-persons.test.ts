/** Two persons have a task shredded on a real fleet, which is killed in between: what is gone, what stays and verifies, and the certificate. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const TEST_MS = 300_000;
const POLL = { timeout: 120_000 };
const CALL = { deadlineMs: 60_000 };
/** In no other text of the test. */
const CANARY = "quetzalcoatlus";
const CHECKPOINTS = 60;

let fleet: TestFleet;
let folder: string;
let olga: FleetClient;
let pavel: FleetClient;

const cli = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_SPOOL_DIR: join(fleet.home, "spool") },
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-shred-"));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ tenants: { floored: { retention_floor: "P6Y" } } }));
  fleet = await startFleet({
    ...{ FLEET_POLICY: policy, FLEET_GATEWAY_PORT: "-1", FLEET_MIRROR_DIR: join(folder, "mirror") },
  });
  // Each with credentials for their own name.
  [olga, pavel] = [await fleet.client("human=olga"), await fleet.client("human=pavel")];
}, TEST_MS);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function written(taskId: string, count = CHECKPOINTS): Promise<void> {
  const agent = await fleet.client("coder-1");
  // Not queued, which a busy machine may do: the queue keeps the bytes of a command for a while.
  const call = { ...CALL, fallback: "none" } as const;
  for (let n = 0; n < count; n += 1)
    await agent.createCheckpoint({ taskId, checkpoint: input({ goal: `${CANARY} ${n}` }), ...call });
}

/** The files below a folder that have the canary. */
const holding = (place: string): string[] => filesWith(place, CANARY);

const stateOf = async (task: string) => (await olga.getTask(task, CALL))?.shred?.state;

test("two persons, a kill in between, and what is left", { timeout: TEST_MS }, async () => {
  await written("auth");
  const checkpoint = join(folder, "checkpoint.txt");
  await expect.poll(async () => (await olga.admin.auditLog(CALL)).size, POLL).toBeGreaterThan(CHECKPOINTS);
  expect(await cli("audit", "log", "--out", checkpoint)).toMatchObject({ exit: 0 });
  await expect.poll(() => holding(join(folder, "mirror")).length, POLL).toBeGreaterThan(0);
  const { retention } = olga.admin;
  await retention.requestShred("auth", { reason: "erasure", caseReference: "DSR-42", ...CALL });
  const seq = (await olga.getTask("auth", CALL))!.shred!.request_seq;
  await expect(retention.approveShred("auth", seq, CALL)).rejects.toMatchObject({ code: "FORBIDDEN" });
  // A hold between the request and the approval.
  await retention.hold("auth", { hold: "case-7", reason: "litigation", ...CALL });
  const approve = () => pavel.admin.retention.approveShred("auth", seq, CALL);
  await expect(approve()).rejects.toMatchObject({ code: "CONFLICT", details: { reason: "held" } });
  await retention.hold("auth", { release: "case-7", reason: "litigation", ...CALL });
  expect((await cli("task", "show", "auth")).out).toContain("\nShredding: requested, not approved;");
  expect((await cli("checkpoint", "history", "auth")).out).toContain("content of the task is requested");
  await approve();
  // Whether the removal has ended or not.
  expect((await cli("task", "show", "auth")).out).toMatch(
    /\nShredding: (approved, .*being removed|all content is removed)/,
  );
  await fleet.kill9();
  await fleet.start();
  await expect.poll(() => stateOf("auth"), POLL).toBe("shredded");

  const history = await olga.getCheckpointHistory("auth", { limit: 100, ...CALL });
  expect(history.checkpoints).toEqual([]);
  const shownHistory = await cli("checkpoint", "history", "auth", "--limit", "100");
  expect(shownHistory.out).toContain(`${CHECKPOINTS} checkpoints removed, between #1 and #${CHECKPOINTS}\n`);
  expect(shownHistory.out).toContain("`fleet task shred-certificate auth`");
  expect(JSON.parse((await cli("checkpoint", "history", "auth", "--json")).out)).toMatchObject({
    shred: { state: "shredded", requested_by: "human=olga", approved_by: "human=pavel" },
  });
  expect((await cli("task", "show", "auth")).out).toMatch(
    /\nShredding: all content is removed, .*shred-certificate auth/,
  );
  expect((await cli("task", "list")).out).toMatch(/auth +\w+, shredded/);
  expect((await olga.searchCheckpoints({ taskId: "auth", text: CANARY, ...CALL })).checkpoints).toEqual([]);
  await expect.poll(() => holding(join(folder, "mirror")), POLL).toEqual([]);
  await expect.poll(() => holding(join(fleet.home, "nats")), POLL).toEqual([]);
  for (const args of [
    ["audit", "verify", "auth"],
    ["audit", "consistent", checkpoint],
  ])
    expect(await cli(...args), args.join(" ")).toMatchObject({ exit: 0 });
  const end = (await olga.getTask("auth", CALL))!.audit_seq;
  const proves = async () => (await cli("audit", "prove", "auth", String(end))).exit;
  await expect.poll(proves, POLL).toBe(0);
});

test("the certificate verifies without the fleet, and an edited one does not", {
  timeout: TEST_MS,
}, async () => {
  const file = join(folder, "auth-shredded.json");
  const shown = await cli("task", "shred-certificate", "auth", "--out", file);
  expect(shown).toMatchObject({ exit: 0 });
  expect(shown.out).toContain("olga (person)");
  // The harness made their credentials with the keys of the fleet.
  expect(shown.out).toContain("No credentials were issued for olga (person) and pavel (person)");
  const [key] = (await olga.admin.signingKeys(CALL)).keys;
  const verify = (path: string, ...args: string[]) =>
    callCli(["task", "shred-verify", path, "--json", ...args], { env: { FLEET_HOME: folder } });
  const sound = await verify(file, "--key", key!.key_id);
  expect(sound).toMatchObject({ exit: 0 });
  expect(JSON.parse(sound.out)).toMatchObject({
    ok: true,
    statement: {
      ...{ task: "auth", reason: "erasure", case: "DSR-42", checkpoints: { count: CHECKPOINTS } },
      ...{ request: { by: "human=olga" }, approval: { by: "human=pavel" } },
    },
  });
  const edited = join(folder, "edited.json");
  const evidence = JSON.parse(readFileSync(file, "utf8")) as { checkpoints: { hash: string }[] };
  evidence.checkpoints[0]!.hash = "0".repeat(64);
  writeFileSync(edited, JSON.stringify(evidence));
  expect(await verify(edited)).toMatchObject({ exit: 8 });
  expect((await verify(file, "--key", "0".repeat(64))).exit).toBe(8);
});

test("an approval under a name without issued credentials is said to be one", {
  timeout: TEST_MS,
}, async () => {
  await written("two-names", 1);
  const head = await olga.getTask("two-names", CALL);
  const file = join(folder, "rita.creds");
  expect(await cli("access", "issue", "--agent", "rita", "--role", "custodian", "--out", file)).toMatchObject(
    {
      exit: 0,
    },
  );
  const requested = await callCli(["task", "shred", "two-names", "--reason", "erasure"], {
    env: { FLEET_URL: fleet.url, FLEET_HOME: folder, FLEET_NATS_CREDS: file },
  });
  expect(requested).toMatchObject({ exit: 0 });
  const approved = await cli("--person", "bob", "task", "shred-approve", "two-names");
  expect(approved).toMatchObject({ exit: 0 });
  expect(approved.out).toContain("No credentials were issued for bob (person) at that time");
  const listed = JSON.parse((await cli("task", "shreds", "--json")).out) as {
    readonly shreds: readonly { readonly task_id: string; readonly without_credentials: unknown }[];
  };
  expect(listed.shreds.find(({ task_id }) => task_id === "two-names")?.without_credentials).toEqual([
    "human=bob",
  ]);
  await expect.poll(() => stateOf("two-names"), POLL).toBe("shredded");
  const shown = await cli("checkpoint", "show", String(head?.latest_id));
  expect(shown).toMatchObject({ exit: 4 });
  expect(shown.err).toContain("two persons had the task of the checkpoint shredded");
  expect(shown.err).toContain("task shred-certificate two-names");
  expect(shown.err).not.toContain("{");
});

test("a legal floor refuses the request", { timeout: TEST_MS }, async () => {
  const [agent, person] = [
    await fleet.client("coder-1", "floored"),
    await fleet.client("human=olga", "floored"),
  ];
  await agent.createCheckpoint({ taskId: "kept", checkpoint: input(), ...CALL });
  await expect(
    person.admin.retention.requestShred("kept", { reason: "erasure", ...CALL }),
  ).rejects.toMatchObject({ code: "CONFLICT", details: { reason: "floor", floor: "P6Y" } });
});
