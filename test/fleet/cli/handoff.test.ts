// `fleet handoff` against a standalone fleet with a coordinator, and the metrics of handoffs.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

let server: TestFleet;
const folder = mkdtempSync(join(tmpdir(), "fleet-policy-"));

beforeAll(async () => {
  const FLEET_POLICY = join(folder, "policy.json");
  const architecture = { next_agent: { by_next_phase: { complete: "documentation" } } };
  writeFileSync(FLEET_POLICY, JSON.stringify({ tenants: { default: { agent_types: { architecture } } } }));
  server = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_POLICY });
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const fleet = (args: readonly string[], agent = "one"): Promise<Result> => {
  const env = {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: agent,
  };
  return callCli(args, { env });
};

const checkpoint = (task: string): Promise<Result> =>
  fleet([
    "checkpoint",
    "--task",
    task,
    "--type",
    "implementation",
    "--phase",
    "implementing",
    "--next",
    "test",
  ]);

test("a handoff is requested, followed and cancelled", async () => {
  expect(await checkpoint("auth")).toMatchObject({ exit: 0 });
  const requested = await fleet(["handoff", "create", "auth", "--to", "qa", "--reason", "context is full"]);
  expect(requested).toMatchObject({ exit: 0, err: "" });
  const id = /Handoff requested: ([0-9a-f-]{36})/.exec(requested.out)?.[1] as string;
  expect(requested.out).toMatch(
    /\nTask: auth\nTo: agents of type qa\n(?:Offer: 1 of \d+, until .*\n)?Checkpoint: chk-/,
  );

  const shown = async () => JSON.parse((await fleet(["handoff", "show", "auth", "--json"])).out) as Handoff;
  await expect.poll(async () => (await shown()).state, { timeout: 30_000 }).toBe("offered");
  expect(await shown()).toMatchObject({
    handoff_id: id,
    to_agent_type: "qa",
    reason: "context is full",
    attempt: 1,
  });
  const details = await fleet(["handoff", "show", id]);
  expect(details.out).toMatch(/State: offered\n/);
  expect(details.out).toMatch(/To: agents of type qa\n/);
  expect(details.out).toMatch(/requested {2}20\S+\nvalidated {2}20\S+ {2}\+\d+/);
  expect((await fleet(["handoff", "list"])).out).toMatch(
    new RegExp(`${id} +\\S.* offered +one +qa +- +auth\n`),
  );
  expect((await fleet(["handoff", "list", "--state", "confirmed"])).out).toBe("No handoffs.\n");

  expect(await fleet(["handoff", "create", "auth"])).toMatchObject({ exit: 5, out: "" });
  const cancelled = await fleet(["handoff", "cancel", "auth", "--reason", "one more test"]);
  expect(cancelled).toMatchObject({
    exit: 0,
    err: "",
    out: expect.stringMatching(
      new RegExp(
        `^Cancelled: handoff ${id}\nTask: auth, still without an owner\nShow it: .* task show auth\n$`,
      ),
    ),
  });
  expect((await fleet(["handoff", "show", id])).out).toContain("Why it ended: withdrawn: one more test\n");
  const again = JSON.parse((await fleet(["handoff", "create", "auth", "--json"])).out) as object;
  expect(again).toMatchObject({ status: "committed", to_agent_type: "implementation" });
  expect(await fleet(["handoff", "cancel", "auth"])).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "cancel", "auth"])).toMatchObject({ exit: 5, out: "" });
}, 180_000);

test("finalize names the handoff of a completed task", async () => {
  const options = ["--task", "drawn", "--type", "architecture", "--phase", "complete", "--next", "print"];
  const id = (await fleet(["checkpoint", ...options, "--quiet"])).out.trim();
  const finalized = await fleet(["checkpoint", "finalize", id, "--status", "succeeded"]);
  expect(finalized).toMatchObject({ exit: 0, err: "" });
  const handoff = /The task is handed off\. Follow it: .* handoff show ([0-9a-f-]{36})/.exec(
    finalized.out,
  )?.[1];
  const shown = await fleet(["handoff", "show", handoff as string]);
  expect(shown.out).toMatch(/To: agents of type documentation\n/);
  expect(await fleet(["handoff", "cancel", "drawn"])).toMatchObject({ exit: 0, err: "" });
}, 180_000);

test("every failure has its exit code, and every help its examples", async () => {
  expect(await fleet(["handoff", "create", "nowhere"])).toMatchObject({ exit: 4, out: "" });
  expect(await fleet(["handoff", "show", "nowhere"])).toMatchObject({ exit: 4, out: "" });
  expect(await fleet(["handoff", "create", "auth", "--to", "astrologer"])).toMatchObject({
    exit: 65,
    out: "",
  });
  expect(await fleet(["handoff", "create", "auth", "--next-phase", "lunch"])).toMatchObject({
    exit: 64,
    out: "",
  });
  expect(await fleet(["handoff", "cancel", "auth", "--to", "qa"])).toMatchObject({ exit: 64, out: "" });
  for (const command of [
    ["handoff", "create"],
    ["handoff", "list"],
    ["handoff", "show"],
  ]) {
    expect((await fleet([...command, "--help"])).out).toContain("Examples:");
  }
}, 180_000);

test("a task is handed to the next agent, and the metrics count it", async () => {
  expect(await checkpoint("counted")).toMatchObject({ exit: 0 });
  const requested = await fleet(["handoff", "create", "counted", "--quiet"]);
  const id = requested.out.trim();
  const next = await server.client("next");
  await expect.poll(async () => (await next.handoff(id))?.state, { timeout: 30_000 }).toBe("offered");
  const { task_id, handoff_id, checkpoint_id, offer_digest } = (await next.handoff(id)) as Handoff;
  const offer = { task_id, handoff_id, agent_type: "implementation", checkpoint: { id: checkpoint_id } };
  const { task } = await next.acknowledgeHandoff({ ...offer, digest: offer_digest ?? "" });
  await task.checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "testing" },
  });
  const list = await fleet(["handoff", "list", "--state", "confirmed"]);
  expect(list.out).toMatch(new RegExp(`${id} +\\S.* confirmed +one +implementation +next +counted\n`));

  const metrics = async () => await (await fetch(`${server.opsUrl()}/metrics`)).text();
  // Another handoff was cancelled, which is no failure.
  await expect.poll(metrics, { timeout: 30_000 }).toMatch(/^handoff_success_rate(\{.*\})? 1$/m);
  await expect.poll(metrics, { timeout: 30_000 }).toMatch(/^fleet_handoff_duration_ms_count(\{.*\})? 1$/m);
  const text = await metrics();
  for (const state of ["requested", "validated", "offered", "accepted"]) {
    expect(text).toMatch(new RegExp(`^fleet_handoffs_open\\{.*state="${state}".*\\} 0$`, "m"));
  }
  await expect
    .poll(metrics, { timeout: 30_000 })
    .toMatch(/^fleet_handoffs_total\{.*state="confirmed".*\} 1$/m);
}, 180_000);

test("a cancelled handoff leaves the task to its owner, or blocked without one", async () => {
  const owner = await server.client("owner");
  const task = await owner.takeTask("mine");
  const state = { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } } as const;
  await task.checkpoint(state);
  // The owner is alive, but no handoff is open, so the fence does not matter.
  const none = await fleet(["handoff", "cancel", "mine"]);
  expect(none).toMatchObject({ exit: 5, err: expect.stringContaining("no handoff of this task is open") });
  expect(await fleet(["handoff", "create", "mine", "--fence", "1"])).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "cancel", "mine"])).toMatchObject({ exit: 7 });
  const cancelled = await fleet(["handoff", "cancel", "mine", "--fence", "1"]);
  expect(cancelled.out).toContain("\nTask: mine, still owned by owner under fence 1\n");

  expect(await fleet(["recovery", "start", "mine", "--force"])).toMatchObject({ exit: 0 });
  const attempted = async () => (await owner.getTask("mine"))?.recovery?.state;
  await expect.poll(attempted, { timeout: 30_000 }).toBe("attempted");
  const blocked = await fleet(["handoff", "cancel", "mine"]);
  expect(blocked).toMatchObject({ exit: 0, err: "" });
  expect(blocked.out).toMatch(
    /\nTask: mine, blocked: its agent had failed and it has no owner; operators are alerted\nRetry it: .*fleet recovery run mine\n$/,
  );
  expect((await fleet(["handoff", "cancel", "--help"])).out).toMatch(
    /it\s+is\s+blocked,\s+and\s+operators\s+are\s+alerted/,
  );
}, 180_000);

test("a person accepts an offer, and writes under the printed fence", async () => {
  expect(await checkpoint("taken")).toMatchObject({ exit: 0 });
  expect(await fleet(["handoff", "create", "taken", "--to", "qa"])).toMatchObject({ exit: 0 });
  const client = await server.client("watcher");
  await expect.poll(async () => (await client.handoffOf("taken"))?.state).toBe("offered");
  const call = ["handoff", "take", "taken", "--person", "ada"];
  const env = { FLEET_URL: server.url, FLEET_HOME: server.home };
  const taken = await callCli(call, { env });
  expect(taken).toMatchObject({ exit: 0, err: "" });
  expect(taken.out).toMatch(/^Taken: task taken, by ada \(person\)\nFence: 1; /);
  expect(taken.out).toMatch(/\nFirst checkpoint: due by 20/);
  const next = /\n {2}(?:npx )?fleet (checkpoint -t taken --fence 1 --type qa --phase implementing) /.exec(
    taken.out,
  );
  expect(await client.getTask("taken")).toMatchObject({ owner: "human=ada", fence: 1 });
  const again = await callCli(call, { env });
  expect(again).toMatchObject({ exit: 5, out: "" });
  expect(again.err).toContain("the task is not offered");
  const written = await callCli([...String(next?.[1]).split(" "), "--person", "ada"], { env });
  expect(written).toMatchObject({ exit: 0 });
  expect((await client.handoffOf("taken"))?.state).toBe("confirmed");
  expect(await fleet(["handoff", "take", "nowhere"])).toMatchObject({ exit: 4, out: "" });
}, 180_000);
