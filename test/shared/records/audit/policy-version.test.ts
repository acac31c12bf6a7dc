/** Entries of commands name the version of the policies and rights under which the commands were allowed. */
import { afterEach, expect, test } from "vitest";
import { DEFAULT_POLICIES, type Policies } from "../../../../shared/protocol/policy.ts";
import { policyVersion } from "../../../../shared/records/audit/policy-version.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";

const STRICT: Policies = { ...DEFAULT_POLICIES, refuse_secrets: true };

let records: TestRecords;
afterEach(() => records.close());

async function entries(task = "task-1"): Promise<Record<string, unknown>[]> {
  const page = await records.repository.audit("default", { task_id: task, limit: 100, from_seq: 1 });
  return page.entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
}

test("a command's entry names the version, and another policy has another one", async () => {
  records = await openTestRecords("memory");
  const { store, format } = records;
  const strict = new CheckpointRepository({ store, format, finder: "test", now: Date.now, policies: STRICT });
  await create(records.repository);
  await create(strict);
  const [first, second] = await entries();
  expect(first).toMatchObject({ op: "create", policy: policyVersion(DEFAULT_POLICIES).slice(0, 16) });
  expect(second).toMatchObject({ op: "create", policy: policyVersion(STRICT).slice(0, 16) });
  expect(first!.policy).not.toBe(second!.policy);
});

test("both entries of a fork name it", async () => {
  records = await openTestRecords("memory");
  const { checkpoint_id } = await create(records.repository);
  await send(
    records.repository,
    "fork",
    { source_task_id: "task-1", source_checkpoint_id: checkpoint_id },
    { task: "task-2" },
  );
  const policy = policyVersion(DEFAULT_POLICIES).slice(0, 16);
  expect((await entries()).at(-1)).toMatchObject({ op: "fork", policy });
  expect((await entries("task-2")).at(-1)).toMatchObject({ policy });
});

test("the version depends on the content of the policies alone", () => {
  expect(policyVersion({ tenants: {}, defaults: {} })).toBe(policyVersion({ defaults: {}, tenants: {} }));
  expect(policyVersion(DEFAULT_POLICIES)).toMatch(/^[0-9a-f]{64}$/);
});
