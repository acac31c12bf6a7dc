/** A checkpoint that was read and is written again: the fields that only the writer sets are the writer's again. */
import { expect, test } from "vitest";
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import { create, ENGINES, finalize, openTestRecords, send } from "../../../harness/records/records.ts";

test.each(ENGINES)(
  "on %s a finalized checkpoint becomes a draft without outcome, seal and retention",
  async (engine) => {
    const bench = await openTestRecords(engine);
    try {
      const { checkpoint_id } = await create(bench.repository);
      await finalize(bench.repository, checkpoint_id, "succeeded");
      const read = await bench.repository.get("default", checkpoint_id);
      expect(read.metadata).toMatchObject({ status: "finalized", final_status: "succeeded" });
      const { checkpoint_id: _id, ...metadata } = read.metadata;
      const forged = { ...read, metadata, compliance: { ...read.compliance, signature: "forged" } };
      const again = await send(bench.repository, "create", { checkpoint: forged as CheckpointInput });
      const copy = await bench.repository.get("default", again.checkpoint_id);
      expect(copy.metadata).toMatchObject({ status: "draft", version: 1 });
      expect(copy.metadata).not.toHaveProperty("final_status");
      expect(copy.compliance).not.toHaveProperty("signature");
      expect(copy.compliance).not.toHaveProperty("retain_until");
    } finally {
      await bench.close();
    }
  },
);
