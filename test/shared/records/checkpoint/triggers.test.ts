/**
 * The writer's evaluation of triggers: repeated for every version, sealed into the checkpoint and part of the
 * answer.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import { policySchema } from "../../../../shared/protocol/policy.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  type SendOptions,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";

const policies = policySchema.parse({
  defaults: { triggers: { error_count: 2 } },
  tenants: {
    strict: {
      defaults: { triggers: { context_utilization: 0.3 } },
      agent_types: { qa: { triggers: { context_utilization: null } } },
    },
  },
});

const full = (utilization: number, changes: Partial<CheckpointInput> = {}): CheckpointInput => ({
  ...input(),
  metrics: { context_utilization: utilization },
  ...changes,
});
const over = (value: number, threshold = 0.7) => [{ reason: "context_utilization", threshold, value }];

describe.each(ENGINES)("triggers on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine, Date.now, policies);
  });
  afterEach(() => bench.close());

  const stored = async (id: string, tenant = "default") => {
    const checkpoint = await bench.repository.get(tenant, id);
    expect(hashOf(checkpoint)).toBe(checkpoint.compliance.hash);
    return checkpoint.metadata.handoff_triggers;
  };
  const update = (id: string, patch: Record<string, unknown>, by: SendOptions = {}) =>
    send(bench.repository, "update", { checkpoint_id: id, patch }, by);

  test("a fired trigger is sealed into the checkpoint and part of the answer, also of a repeated one", async () => {
    const by = { commandId: uuidv7(), checkpoint: full(0.8) };
    const answer = await create(bench.repository, by);
    expect(answer.handoff_advised).toEqual(over(0.8));
    expect(await stored(answer.checkpoint_id)).toEqual(over(0.8));
    expect(await create(bench.repository, by)).toMatchObject({ replayed: true, handoff_advised: over(0.8) });
  });

  test("a trigger that does not fire appears nowhere", async () => {
    const answer = await create(bench.repository, { checkpoint: full(0.7) });
    expect(answer).not.toHaveProperty("handoff_advised");
    expect(await stored(answer.checkpoint_id)).toBeUndefined();
  });

  test("each version is evaluated by itself, and finalize changes nothing", async () => {
    const { checkpoint_id: id } = await create(bench.repository, { checkpoint: full(0.1) });
    const filled = await update(id, { metrics: { context_utilization: 0.9, error_count: 3 } });
    const both = [...over(0.9), { reason: "error_count", threshold: 2, value: 3 }];
    expect(filled.handoff_advised).toEqual(both);
    expect(await stored(id)).toEqual(both);
    const emptied = await update(id, { metrics: { context_utilization: 0.2, error_count: null } });
    expect(emptied).not.toHaveProperty("handoff_advised");
    expect(await stored(id)).toBeUndefined();
    await update(id, { metrics: { rate_limit: {} } });
    const finalized = await finalize(bench.repository, id);
    expect(finalized).not.toHaveProperty("handoff_advised");
    expect(await stored(id)).toEqual([{ reason: "rate_limit" }]);
  });

  test("only the writer sets the fired triggers", async () => {
    const metadata = { agent_type: "qa", handoff_triggers: [{ reason: "explicit_request" }] };
    const { checkpoint_id: id } = await create(bench.repository, { checkpoint: { ...input(), metadata } });
    expect(await stored(id)).toBeUndefined();
    await expect(update(id, { metadata: { handoff_triggers: [] } })).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "patch.metadata.handoff_triggers" }],
    });
  });

  test("thresholds are those of the tenant and the agent type", async () => {
    const by = { tenant: "strict" };
    const some = await create(bench.repository, { ...by, checkpoint: full(0.5) });
    expect(some.handoff_advised).toEqual(over(0.5, 0.3));
    const qa = await create(bench.repository, {
      ...by,
      checkpoint: full(1, { metadata: { agent_type: "qa" } }),
    });
    expect(qa).not.toHaveProperty("handoff_advised");
    const elsewhere = await create(bench.repository, { checkpoint: full(0.5) });
    expect(elsewhere).not.toHaveProperty("handoff_advised");
  });

  test("a checkpoint that hands off records its triggers, and advises nothing", async () => {
    const checkpoint = { ...full(0.8), execution_state: { phase: "handoff" as const } };
    const answer = await create(bench.repository, { checkpoint });
    expect(answer).not.toHaveProperty("handoff_advised");
    expect(await stored(answer.checkpoint_id)).toEqual(over(0.8));
  });
});
