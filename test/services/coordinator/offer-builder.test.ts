// Offers built over a real store: many at once, of which few read their ancestries at a time, and what is measured.

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createOfferBuilder } from "../../../services/coordinator/offer-builder.ts";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { initiate } from "../../harness/records/handoffs.ts";
import { create, input, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

const MANY = 40;

const prompts = new PromptThread();
let bench: TestRecords;
beforeAll(async () => {
  bench = await openTestRecords("lmdb");
});
afterAll(() => Promise.all([prompts.close(), bench?.close()]));

/** Hands off a task of two checkpoints, the second with the first as its parent. */
async function handedOff(task: string) {
  const { repository } = bench;
  const first = await create(repository, { task });
  const checkpoint = input();
  checkpoint.metadata.parent_ids = [first.checkpoint_id];
  await create(repository, { task, checkpoint });
  const { handoff_id } = await initiate(repository, { task });
  return repository.handoff("default", { handoff_id });
}

test("seed 000: the context that is used at the handoff of an agent is a metric", async () => {
  const { repository } = bench;
  const metrics = createMetrics();
  const checkpoint = { ...input(), metrics: { context_tokens: 130_000, context_limit: 200_000 } };
  await create(repository, { task: "used", checkpoint });
  const { handoff_id } = await initiate(repository, { task: "used" });
  const rules = { agentTypes: new Set(["qa"]), policies: DEFAULT_POLICIES };
  await createOfferBuilder(repository, rules, { prompts, metrics })(
    await repository.handoff("default", { handoff_id }),
  );
  const text = await metrics.registry.metrics();
  expect(text).toMatch(/^fleet_handoff_context_utilization_sum(?:\{.*\})? 0\.65$/m);
  expect(text).toMatch(/^fleet_handoff_context_utilization_count(?:\{.*\})? 1$/m);
});

test("many offers are built at once, and at most four ancestries are read at a time", async () => {
  const { repository } = bench;
  const { handoffActions } = repository;
  const verifyAncestors = handoffActions.verifyAncestors.bind(handoffActions);
  let [now, most, all] = [0, 0, 0];
  vi.spyOn(handoffActions, "verifyAncestors").mockImplementation(async (...args) => {
    all += 1;
    now += 1;
    most = Math.max(most, now);
    try {
      return await verifyAncestors(...args);
    } finally {
      now -= 1;
    }
  });
  const handoffs = await Promise.all(Array.from({ length: MANY }, (_, n) => handedOff(`task-${n}`)));
  const rules = { agentTypes: new Set(["qa"]), policies: DEFAULT_POLICIES };
  const buildOffer = createOfferBuilder(repository, rules, { prompts, metrics: createMetrics() });
  const built = await Promise.all(handoffs.map(buildOffer));
  expect(built.map(({ kind }) => kind)).toEqual(Array(MANY).fill("offerable"));
  expect([all, most]).toEqual([MANY, 4]);
});
