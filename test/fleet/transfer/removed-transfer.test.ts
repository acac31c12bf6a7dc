// Exports and imports of tasks from which retention removed checkpoints, between two real fleets.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { commandsOf, json, linesIn } from "./commands.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 180_000;
const PATIENT = { deadlineMs: 60_000 };
const ENV = { FLEET_SCRUB_EVERY: "off", FLEET_RETENTION_EVERY: "off" };

/** A line whose members are known to the test alone. */
// biome-ignore lint/suspicious/noExplicitAny: each kind of line has other members.
type Line = any;

let source: TestFleet;
let target: TestFleet;
let writer: FleetClient;
let reader: FleetClient;
let folder: string;

const from = commandsOf(() => source);
const into = commandsOf(() => target);
const file = (name: string): string => join(folder, name);
const linesOf = (name: string) => linesIn<Line>(file(name));

/** Six checkpoints, the second with two versions, of which an operator removes the first three. */
async function pruned(task: string): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < 6; n += 1) {
    const made = await writer.createCheckpoint({
      taskId: task,
      checkpoint: input({ goal: `goal ${n}` }),
      ...PATIENT,
    });
    ids.push(String(made.checkpointId));
    const patch = { execution_state: { goal: "another goal" } };
    if (n === 1) await writer.updateCheckpoint(String(ids[1]), patch, { taskId: task, ...PATIENT });
  }
  for (const id of ids.slice(0, 3)) expect(await from("checkpoint", "remove", id)).toMatchObject({ exit: 0 });
  return ids;
}

async function removedIn(client: FleetClient, taskId: string) {
  const { removed = [] } = await client.getCheckpointHistory(taskId, { order: "oldest", ...PATIENT });
  return removed.map(({ audit_seq: _, ...one }) => one);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-removed-"));
  [source, target] = await Promise.all([startFleet(ENV), startFleet(ENV)]);
  writer = await source.client("writer-1");
  reader = await target.client("reader-1");
}, 90_000);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all([source.stop(), target.stop()]);
});

describe("fleet import of a task with removed checkpoints", { timeout: CALLS_MS }, () => {
  test("keeps their tombstones, also through a third tenant, and every chain verifies", async () => {
    const ids = await pruned("pruned");
    expect(await from("export", "--task", "pruned", "--out", file("there.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    const verified = await json(from("export", "verify", file("there.jsonl"), "--json"));
    expect(verified).toMatchObject({ exit: 0, ok: true, removed: 4, lost: 0 });
    const report = await json(into("import", file("there.jsonl"), "--json"));
    expect(report).toMatchObject({
      exit: 0,
      imported: ["pruned"],
      incomplete: [],
      versions: 3,
      tombstones: 3,
    });
    const removed = await removedIn(reader, "pruned");
    expect(removed).toEqual(await removedIn(writer, "pruned"));
    expect(removed.map(({ checkpoint_id }) => checkpoint_id)).toEqual(ids.slice(0, 3));
    expect(removed[1]).toMatchObject({ seq: 2, version: 2, reason: "request" });
    const listed = await into("checkpoint", "history", "pruned");
    expect(listed).toMatchObject({ exit: 0 });
    expect(listed.out).toContain("removed");
    expect(await reader.verifyAudit("pruned")).toMatchObject({ ok: true });
    const [was, is] = [await writer.getTask("pruned"), await reader.getTask("pruned")];
    expect(is).toMatchObject({ seq: 6, latest_id: was?.latest_id, origin: { versions: 6, complete: true } });

    expect(await into("export", "--task", "pruned", "--out", file("back.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    expect(await into("export", "verify", file("back.jsonl"))).toMatchObject({ exit: 0 });
    expect(await into("import", file("back.jsonl"), "--tenant", "third")).toMatchObject({ exit: 0, err: "" });
    expect(await removedIn(await target.client("reader-2", "third"), "pruned")).toEqual(removed);
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });
    expect(await json(into("import", file("there.jsonl"), "--json"))).toMatchObject({
      exit: 0,
      identical: ["pruned"],
    });
  });

  test("continues an import that ended among the tombstones", async () => {
    await pruned("halted");
    await from("export", "--task", "halted", "--out", file("halted.jsonl"));
    const lines = linesOf("halted.jsonl");
    const { task } = lines.find(({ kind }) => kind === "task");
    const { digest } = lines.find(({ kind }) => kind === "task_end");
    const { tenant, fence, audit_seq, audit_hash } = task;
    const origin = {
      fleet: writer.fleetId ?? null,
      tenant,
      fence,
      audit_seq,
      audit_hash,
      digest,
      versions: 6,
    };
    await reader.admin.beginImport("halted", origin, PATIENT);
    // A part would pass for the whole task.
    const part = await into("export", "--task", "halted", "--out", file("part.jsonl"));
    expect(part).toMatchObject({ exit: 8 });
    expect(linesOf("part.jsonl")).toMatchObject([
      { kind: "header" },
      { kind: "unreadable", task_id: "halted", reason: expect.stringContaining("its import has not ended") },
      { kind: "trailer" },
    ]);
    const [first] = await removedIn(writer, "halted");
    const {
      checkpoint_id,
      seq,
      version,
      hash,
      fallback_id = null,
      reason,
      retention_policy,
      removed_at,
      removed_by,
    } = first!;
    const tombstone = {
      checkpoint_id,
      seq,
      version,
      hash,
      fallback_id,
      reason,
      retention_policy,
      removed_at,
      removed_by,
    };
    const form = {
      phase: "implementing",
      agent_id: "writer-1",
      agent_type: "implementation",
      items: 1,
    } as const;
    await reader.admin.importRemoved("halted", { index: 0, removed: { ...tombstone, ...form } }, PATIENT);
    const report = await json(into("import", file("halted.jsonl"), "--json"));
    expect(report).toMatchObject({ exit: 0, continued: ["halted"], versions: 3, tombstones: 2 });
    expect(await removedIn(reader, "halted")).toEqual(await removedIn(writer, "halted"));
    expect(await json(into("scrub", "start", "--wait", "--json"))).toMatchObject({ exit: 0, findings: [] });
  });

  test("leaves out a task of which a version is lost, and refuses a tampered removal", async () => {
    await pruned("forged");
    await from("export", "--task", "forged", "--out", file("sound.jsonl"));
    const lines = linesOf("sound.jsonl");
    const at = lines.findIndex(({ kind }) => kind === "lost");
    const refused = async (edited: Line[]): Promise<void> => {
      writeFileSync(file("edited.jsonl"), edited.map((line) => `${JSON.stringify(line)}\n`).join(""));
      expect(await from("export", "verify", file("edited.jsonl"))).toMatchObject({ exit: 8 });
      expect(await into("import", file("edited.jsonl"))).toMatchObject({ exit: 8 });
    };
    await refused(lines.with(at, { ...lines[at], removed_entry: lines[at].removed_entry + 1 }));
    await refused(
      lines.with(at, {
        ...lines[at],
        fallback_id: lines.at(-3)?.checkpoint?.metadata.checkpoint_id ?? null,
        version: 2,
      }),
    );
    await refused(lines.toSpliced(at, 1));
    expect(await reader.getTask("forged")).toBeNull();
  });
});
