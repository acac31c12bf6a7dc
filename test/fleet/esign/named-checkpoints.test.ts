/** Commands that name a checkpoint show who has signed it: tasks, handoffs, recoveries, missions and prompts. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { callCli } from "../../services/cli/call.ts";

const CALLS_MS = 200_000;
let fleet: EsignFleet;
beforeAll(async () => {
  fleet = await startEsignFleet({ FLEET_AGENT_TYPES: "implementation,qa" });
}, CALLS_MS);
afterAll(() => fleet?.stop());

async function cli(...args: string[]) {
  const called = await callCli([...args, "--timeout", "60s"], {
    env: {
      ...{ FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home, FLEET_PERSON: "olga" },
      FLEET_SPOOL_DIR: join(fleet.server.home, "spool"),
    },
  });
  expect(called, args.join(" ")).toMatchObject({ exit: 0 });
  return called;
}

const json = async (...args: string[]) => JSON.parse((await cli(...args, "--json")).out);

/** On a busy machine a command waits in the queue. */
const SOON = { timeout: 60_000 };

const ADA = { state: "valid", printed_name: "Ada Lovelace", meaning: "approval", zone: "Europe/London" };
const LINE = (version = 1, rest = "") =>
  new RegExp(
    `heckpoint: (?:\\S+)(?:, version \\d)?\\n {2}signed: version ${version}, by Ada Lovelace \\(ada of http\\S+\\), approval, .*Europe/London \\(.*Z\\): valid${rest}\\n`,
  );

/** For people, and as JSON. */
async function requireShown(args: readonly string[], block: object, line: RegExp): Promise<void> {
  expect((await cli(...args)).out, args.join(" ")).toMatch(line);
  expect(await json(...args), args.join(" ")).toMatchObject({ electronic_signatures: [block] });
}

test("tasks, handoffs, recoveries and prompts of a task", { timeout: CALLS_MS }, async () => {
  const id = await fleet.written("auth");
  const resume = ["resume", "auth", "--no-workspace"];
  expect(await json("task", "show", "auth")).not.toHaveProperty("electronic_signatures");
  expect((await cli(...resume)).err).not.toContain("signed by");
  await fleet.signedBy(await fleet.newCaller(), "auth");
  const block = { ...ADA, checkpoint_id: id, version: 1 };

  await requireShown(["task", "show", "auth"], block, /Latest: \S+\n {2}signed: version 1, by Ada Lovelace/);
  await requireShown([...resume, "--dry-run"], block, LINE());
  const line =
    /^Entry \d+: signed by Ada Lovelace \(ada of http\S+\), approval, .*Europe\/London \(.*Z\): valid$/m;
  await requireShown(["audit", "show", "auth"], block, line);
  // A page without the entry of the signature has none.
  expect(await json("audit", "show", "auth", "--limit", "1")).not.toHaveProperty("electronic_signatures");
  // The prompt is for an agent, and the signature for the person who starts it.
  const { out, err } = await cli(...resume);
  expect(out).not.toContain("Ada Lovelace");
  expect(err).toMatch(/^chk-\S+ version 1 signed by Ada Lovelace .*: valid$/m);
  expect(await json(...resume)).toMatchObject({
    prompt: expect.any(String) as string,
    electronic_signatures: [block],
  });

  const start = ["recovery", "start", "auth"];
  await requireShown([...start, "--dry-run"], block, /From: chk-.*\n {2}signed: version 1, by Ada Lovelace/);
  await cli("handoff", "create", "auth", "--to", "qa");
  await expect.poll(() => fleet.writer.handoffOf("auth"), SOON).not.toBeNull();
  await requireShown(["handoff", "show", "auth"], block, LINE());
  await cli(...start, "--to", "implementation");
  await expect
    .poll(async () => (await json("recovery", "show", "auth")).recovery?.checkpoint_id, SOON)
    .toBe(id);
  await requireShown(["recovery", "show", "auth"], block, LINE());
  const taken = await json("handoff", "take", "auth");
  expect(taken).toMatchObject({ checkpoint_id: id, electronic_signatures: [block] });
});

test("an earlier version is named as such", { timeout: CALLS_MS }, async () => {
  const id = await fleet.written("draft");
  await fleet.signedBy(await fleet.newCaller(), "draft");
  await fleet.writer.updateCheckpoint(id, { execution_state: { goal: "changed" } });
  await expect.poll(async () => (await fleet.writer.getCheckpoint(id))?.metadata.version, SOON).toBe(2);
  const args = ["resume", "draft", "--no-workspace", "--dry-run"];
  expect((await cli(...args)).out).toMatch(LINE(1, ", superseded by version 2"));
  const shown = await json(...args);
  expect(shown).toMatchObject({
    version: 2,
    other_versions_signatures: [{ ...ADA, version: 1, newest_version: 2 }],
  });
  expect(shown).not.toHaveProperty("electronic_signatures");
});

test("missions and what they would restore", { timeout: CALLS_MS }, async () => {
  await cli("mission", "start", "msn-signed", "--title", "Sign it");
  const state = () => fleet.writer.mission("msn-signed").state();
  await expect.poll(state, SOON).not.toBeNull();
  await cli("checkpoint", "--mission", "msn-signed");
  await expect.poll(async () => (await state())?.checkpoint_id ?? null, SOON).not.toBeNull();
  const id = (await state())?.checkpoint_id;
  await fleet.signedBy(await fleet.newCaller(), "msn-signed");
  const block = { ...ADA, checkpoint_id: id, version: 1 };
  await requireShown(["mission", "show", "msn-signed"], block, LINE());
  const resume = ["resume", "--mission", "msn-signed"];
  await requireShown([...resume, "--dry-run"], block, LINE());
  expect(await json(...resume, "--yes")).toMatchObject({ electronic_signatures: [block] });
});
